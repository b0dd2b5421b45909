//! From frames to the buffer that is written out.

use bytes::{BufMut, BytesMut};

use super::{FRAME_END, FRAME_OVERHEAD, FrameKind, HEADER_LEN};
use crate::content::put_header_payload;
use crate::ids::{ChannelId, ClassId};
use crate::method::{Method, basic};

/// The longest body payload that fits a frame of the agreed size; 0 means that no size was agreed.
pub const fn body_payload_max(frame_max: usize) -> usize {
    if frame_max == 0 {
        usize::MAX
    } else {
        frame_max.saturating_sub(FRAME_OVERHEAD)
    }
}

/// Writes the seven octets in front of a payload of the given length. The payload and [`FRAME_END`] are the caller's to
/// add, which is how a large body is sent without copying it.
pub fn put_frame_header(out: &mut BytesMut, kind: FrameKind, channel: ChannelId, len: usize) {
    let len = u32::try_from(len).expect("a payload is cut to the frame-max, which has 32 bits");
    let [c1, c0] = channel.to_be_bytes();
    let [l3, l2, l1, l0] = len.to_be_bytes();
    out.put_slice(&[kind.octet(), c1, c0, l3, l2, l1, l0]);
}

/// Writes a frame whose payload is whatever `fill` writes.
fn put_frame(
    out: &mut BytesMut,
    kind: FrameKind,
    channel: ChannelId,
    fill: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    put_frame_header(out, kind, channel, 0);
    let payload_at = start + HEADER_LEN;
    fill(out);
    let len = u32::try_from(out.len() - payload_at).expect("no payload of four gigabytes is built");
    out.get_mut(payload_at - 4..payload_at)
        .expect("the length was written above")
        .copy_from_slice(&len.to_be_bytes());
    out.put_u8(FRAME_END);
}

/// Writes a method frame.
///
/// RabbitMQ never splits method frames, even above the frame-max, and neither do we.
pub fn put_method(out: &mut BytesMut, channel: ChannelId, method: &Method) {
    put_frame(out, FrameKind::Method, channel, |out| method.encode(out));
}

/// Writes a heartbeat, which belongs to channel 0.
pub fn put_heartbeat(out: &mut BytesMut) {
    put_frame_header(out, FrameKind::Heartbeat, ChannelId::CONNECTION, 0);
    out.put_u8(FRAME_END);
}

/// Writes the frame of a content header; the properties are written as they were received.
///
/// # Panics
///
/// When `properties` does not begin with a word of flags, which those of [`crate::RawProperties`] do.
pub fn put_content_header(
    out: &mut BytesMut,
    channel: ChannelId,
    body_size: u64,
    properties: &[u8],
) {
    put_frame(out, FrameKind::Header, channel, |out| {
        put_header_payload(
            out,
            ClassId::new(basic::Basic::CLASS_ID),
            body_size,
            properties,
        );
    });
}

/// Writes the body in as many frames as the agreed frame-max asks for; an empty body has none.
pub fn put_body_frames(out: &mut BytesMut, channel: ChannelId, body: &[u8], frame_max: usize) {
    let payload_max = body_payload_max(frame_max);
    for payload in body.chunks(payload_max.max(1)) {
        out.reserve(payload.len() + FRAME_OVERHEAD);
        put_frame_header(out, FrameKind::Body, channel, payload.len());
        out.put_slice(payload);
        out.put_u8(FRAME_END);
    }
}
