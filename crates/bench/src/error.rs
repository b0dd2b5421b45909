//! What can end a measurement.

use std::io;

use leveret_wire::{FrameError, MethodError};

/// A measurement that could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("cannot reach {address}: {source}")]
    Connect { address: String, source: io::Error },
    #[error("lost the connection to the broker: {0}")]
    Socket(#[from] io::Error),
    #[error(
        "the broker gave no answer for {secs} s; a broker out of file descriptors looks like this"
    )]
    NoAnswer { secs: u64 },
    #[error("the broker closed the connection without a word; a wrong login looks like this too")]
    EndOfStream,
    #[error("the broker closed the {what}: {code} {text}")]
    Closed {
        what: &'static str,
        code: u16,
        text: String,
    },
    #[error("the broker sent {got} instead of the answer to {asked}")]
    Unexpected {
        asked: &'static str,
        got: &'static str,
    },
    #[error("the broker sent a frame that cannot be read: {0}")]
    Frame(#[from] FrameError),
    #[error("the broker sent a method that cannot be read: {0}")]
    Method(#[from] MethodError),
    #[error("{0:?} is too long for a name")]
    Name(String),
    #[error("{0}")]
    Arguments(String),
    #[error(
        "nothing moved for {secs} s: {published} published, {confirmed} confirmed, {delivered} of {expected} delivered"
    )]
    Stalled {
        secs: u64,
        published: u64,
        confirmed: u64,
        delivered: u64,
        expected: u64,
    },
    #[error("cannot read the use of process {pid}: {source}")]
    Process { pid: u32, source: io::Error },
    #[error("a thread of the bench panicked")]
    Panicked,
}
