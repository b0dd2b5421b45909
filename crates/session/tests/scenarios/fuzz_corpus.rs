//! Everything that fuzzing whole conversations found worth keeping still holds, and so does what is near it.

#[path = "../../../../fuzz/src/mutation.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod mutation;
#[path = "../../../../fuzz/src/session.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod session;

/// Inputs that are made of the corpus.
const ROUNDS: u32 = 3000;

#[test]
fn conversations() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/session");
    mutation::run(&mutation::seeds(folder), ROUNDS, session::session);
}
