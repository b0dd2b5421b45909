//! The one method that is written for every message, without being built first.

use bytes::{BufMut, BytesMut};

use super::basic::{Basic, Deliver};
use crate::frame::{FRAME_END, FRAME_OVERHEAD, FrameKind, put_frame_header};
use crate::ids::{ChannelId, DeliveryTag};
use crate::value::put_short_bytes;

/// Ids, delivery tag, the octet with the bit, and the three octets of length.
const FIXED_LEN: usize = 4 + 8 + 1 + 3;

/// Writes the whole frame of a basic.deliver.
///
/// # Panics
///
/// When a name is longer than a short string.
pub fn put_deliver(
    out: &mut BytesMut,
    channel: ChannelId,
    consumer_tag: &[u8],
    delivery_tag: DeliveryTag,
    redelivered: bool,
    exchange: &[u8],
    routing_key: &[u8],
) {
    let len = FIXED_LEN + consumer_tag.len() + exchange.len() + routing_key.len();
    out.reserve(len + FRAME_OVERHEAD);
    put_frame_header(out, FrameKind::Method, channel, len);
    out.put_u16(Basic::CLASS_ID);
    out.put_u16(Deliver::METHOD_ID);
    put_short_bytes(out, consumer_tag);
    out.put_u64(delivery_tag.get());
    out.put_u8(redelivered.into());
    put_short_bytes(out, exchange);
    put_short_bytes(out, routing_key);
    out.put_u8(FRAME_END);
}
