//! How the program is linked: small in memory (`docs/adr/0010`).

use std::{env, path::Path, process::Command};

/// The first glibc whose loader knows relocations in their short form.
const SHORT_RELOCATIONS_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name| env::var(name).unwrap_or_default();
    let is_linux_gnu =
        variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_linux_gnu || variable("PROFILE") != "release" {
        return;
    }
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("link/first.ld");
    println!("cargo:rerun-if-changed={}", script.display());
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    if glibc().is_some_and(|version| version >= SHORT_RELOCATIONS_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library, on which the program will run: "glibc 2.36".
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
