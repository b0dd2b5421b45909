//! What the fuzz targets check.
//!
//! The functions live in a library, so that the broker's own tests can run the kept corpus through them.

pub mod wire;
