//! The envelope that everything travels in.
//!
//! ```text
//!   kind (1)   channel (2)   payload length (4)   payload   0xCE
//! ```
//!
//! Reading has two steps, so that a frame costs no reference count: [`take_whole_frames`] splits everything complete off
//! the read buffer at once, and [`next_frame`] walks that chunk.

use std::fmt;

use bytes::Bytes;

use crate::ids::ChannelId;
use crate::octets_text::{put_octets, put_pair};

mod reading;
mod writing;

pub use reading::{next_frame, take_whole_frames, wanted};
pub use writing::{
    body_payload_max, put_body_frames, put_content_header, put_frame_header, put_heartbeat,
    put_method,
};

/// The octets in front of a payload.
pub const HEADER_LEN: usize = 7;

/// The octet behind every payload.
pub const FRAME_END: u8 = 0xCE;

/// The octets that a frame has beside its payload.
pub const FRAME_OVERHEAD: usize = HEADER_LEN + 1;

/// The smallest frame-max that RabbitMQ 4.3 agrees to; also the largest payload before connection.open.
pub const FRAME_MIN_SIZE: usize = 8192;

/// How many octets of a payload a reply text quotes.
const QUOTED_MAX: usize = 16;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A method with its arguments.
    Method = 1,
    /// The content header: size and properties.
    Header = 2,
    /// A piece of the content's body.
    Body = 3,
    /// A sign of life.
    Heartbeat = 8,
}

impl FrameKind {
    /// The kind that has this number.
    pub const fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Method),
            2 => Some(Self::Header),
            3 => Some(Self::Body),
            8 => Some(Self::Heartbeat),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn octet(self) -> u8 {
        self as u8
    }
}

/// One complete frame; its payload is a part of the chunk it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the frame carries.
    pub kind: FrameKind,
    /// The channel it belongs to.
    pub channel: ChannelId,
    /// What stands between the header and the end octet.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// How RabbitMQ describes a frame that came out of order: the text behind `UNEXPECTED_FRAME - `.
    pub fn unexpected_text(&self) -> String {
        let mut text = String::new();
        put_description(
            &mut text,
            self.kind.octet(),
            self.payload.len(),
            self.payload,
        );
        text
    }
}

/// A frame that cannot be read. Nothing behind it can be read either.
///
/// The text is what RabbitMQ says behind `FRAME_ERROR - `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// The payload is longer than was agreed.
    TooLarge {
        /// The number in place of the frame's kind.
        kind: u8,
        /// The announced length of the payload.
        len: usize,
        /// The longest payload that would have been taken.
        payload_max: usize,
    },
    /// Behind the payload stands something else than [`FRAME_END`].
    BadEnd {
        /// The number in place of the frame's kind.
        kind: u8,
        /// The channel of the frame.
        channel: ChannelId,
        /// The payload.
        payload: Bytes,
        /// What stands behind the payload.
        end: u8,
    },
    /// A kind that does not exist, or a payload that no frame of its kind can have: a heartbeat with a payload, a method
    /// without ids, a content header without its fixed part.
    Unknown {
        /// The number in place of the frame's kind.
        kind: u8,
        /// The channel of the frame.
        channel: ChannelId,
        /// The start of the payload, at least as much of it as the text quotes.
        payload: Bytes,
        /// The announced length of the payload.
        len: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        match self {
            Self::TooLarge {
                kind,
                len,
                payload_max,
            } => {
                // RabbitMQ takes eight octets more than it says here.
                let said_max = payload_max.saturating_sub(FRAME_OVERHEAD);
                put_description(&mut text, *kind, 0, &[]);
                text.push_str(&format!(": {{frame_too_large,{len},{said_max}}}"));
            }
            Self::BadEnd {
                kind, payload, end, ..
            } => {
                put_description(&mut text, *kind, payload.len(), payload);
                text.push_str(": ");
                put_pair(&mut text, "invalid_frame_end_marker", *end);
            }
            Self::Unknown {
                kind, payload, len, ..
            } => {
                put_description(&mut text, *kind, *len, payload);
                text.push_str(": unknown_frame");
            }
        }
        f.write_str(&text)
    }
}

impl std::error::Error for FrameError {}

/// `type 1, all octets = <<0,20,0,10,0>>`: what RabbitMQ says of a frame it does not like.
fn put_description(text: &mut String, kind: u8, len: usize, payload: &[u8]) {
    let extent = if len <= QUOTED_MAX { "all" } else { "first 16" };
    let quoted = payload.get(..QUOTED_MAX).unwrap_or(payload);
    text.push_str(&format!("type {kind}, {extent} octets = "));
    put_octets(text, quoted);
}
