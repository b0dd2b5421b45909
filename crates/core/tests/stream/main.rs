//! A stream among played surroundings: one behaviour per file.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test unwrap as the test does"
)]

mod committed_only;
mod credit;
mod filter;
mod offsets;
mod random_commands;
mod reading_behind;
mod retention;
mod scenario;
