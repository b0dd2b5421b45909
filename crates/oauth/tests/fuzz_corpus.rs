//! What the fuzz target of tokens checks, with its corpus and some thousands of changed inputs.

#[path = "../../../fuzz/src/mutation.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod mutation;

#[path = "../../../fuzz/src/token.rs"]
#[expect(unreachable_pub, reason = "in its own place the fuzz targets reach it")]
mod token;

#[test]
fn tokens() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/token");
    mutation::run(&mutation::seeds(folder), 4000, token::token);
}
