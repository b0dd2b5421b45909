//! How the program is linked: small in memory (`docs/adr/0010`).

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

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
    link_cpp_in(&Path::new(&variable("OUT_DIR")).join("static"));
}

/// The store needs little of the C++ library; of a shared one much more would be mapped.
///
/// It is asked for by its name only. From the directory that is looked into first the linker takes whatever form is there.
fn link_cpp_in(place: &Path) {
    const LIBRARY: &str = "libstdc++.a";
    println!("cargo:rerun-if-env-changed=CXX");
    let copied = of_the_compiler(LIBRARY)
        .map(|path| fs::create_dir_all(place).and_then(|()| fs::copy(path, place.join(LIBRARY))));
    if matches!(copied, Some(Ok(_))) {
        println!("cargo:rustc-link-search=native={}", place.display());
    } else {
        println!(
            "cargo:warning=the C++ compiler has no {LIBRARY}: the program will load the shared one"
        );
    }
}

/// Where the C++ compiler has this file, if it has it.
fn of_the_compiler(name: &str) -> Option<PathBuf> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let told = Command::new(compiler)
        .arg(format!("-print-file-name={name}"))
        .output()
        .ok()?;
    // What it does not have it answers by the name alone.
    let path = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
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
