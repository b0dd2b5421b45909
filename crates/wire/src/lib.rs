//! AMQP 0-9-1 as RabbitMQ speaks it: bytes to typed frames and back.
//!
//! Nothing here reads a socket, waits or logs, and nothing decides what a broker does: this crate knows what a frame, a
//! method, a content header and a field table look like, and which of them are malformed.
//!
//! ```text
//!   read buffer ──take_whole_frames──▶ chunk ──next_frame──▶ Frame { kind, channel, payload }
//!                                                               │
//!                       Method::decode ◀── method ──────────────┤
//!                ContentHeader::decode ◀── header ──────────────┤
//!              chunk.slice_ref(payload) ◀── body ───────────────┘
//! ```
//!
//! Always true:
//! * a frame is parsed only when it is complete, so running out of bytes behind [`frame::next_frame`] is a malformed
//!   frame and never a reason to wait;
//! * strings, properties and bodies are slices of the chunk they arrived in; nothing of them is copied;
//! * no length from the peer reserves memory before it was compared with the bytes that are there;
//! * what this crate wrote, it reads back to an equal value.

#![warn(
    missing_docs,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

pub mod content;
pub mod frame;
pub mod ids;
pub mod method;
pub mod octets_text;
mod primitive;
pub mod protocol_header;
pub mod reply_code;
pub mod value;

pub use content::{BasicProperties, ContentError, ContentHeader, PropertyScan, RawProperties};
pub use frame::{
    FRAME_END, FRAME_OVERHEAD, Frame, FrameError, FrameKind, HEADER_LEN, next_frame,
    put_body_frames, put_content_header, put_frame_header, put_heartbeat, put_method,
    take_whole_frames, wanted,
};
pub use ids::{ChannelId, ClassId, DeliveryTag, MethodId};
pub use method::{
    Method, MethodError, access, basic, channel, confirm, connection, exchange, put_deliver, queue,
    tx,
};
pub use octets_text::octets_text;
pub use protocol_header::{Greeting, PROTOCOL_HEADER};
pub use reply_code::ReplyCode;
pub use value::{
    Decimal, FieldTable, FieldValue, LongString, RawTable, RawValue, ShortString, Timestamp,
    ValueError, equivalent,
};
