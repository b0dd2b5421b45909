//! What the fuzz targets check.
//!
//! The functions live in libraries, so that the broker's own tests can run the kept corpus through them: here, or where
//! they need what no other crate sees, in `leveret_management::fuzzing` and `leveret_store::fuzzing`.

pub mod config;
pub mod mutation;
pub mod session;
pub mod token;
pub mod wire;

#[allow(dead_code, reason = "made for the tests of the session")]
#[path = "../../crates/session/tests/scenarios/support.rs"]
mod support;
