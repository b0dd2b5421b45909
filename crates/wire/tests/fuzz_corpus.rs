//! Everything that fuzzing found worth keeping still holds.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

#[path = "../../../fuzz/src/wire.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod wire;

#[track_caller]
fn replay(target: &str, check: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}")) {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        // Shown when the check fails.
        println!("{}", path.display());
        check(&input);
        count += 1;
    }
    assert!(count > 0, "{folder} is empty");
}

#[test]
fn frames() {
    replay("frame", wire::frame);
}

#[test]
fn methods() {
    replay("method", wire::method);
}

#[test]
fn tables() {
    replay("table", wire::table);
}

#[test]
fn properties() {
    replay("properties", wire::properties);
}
