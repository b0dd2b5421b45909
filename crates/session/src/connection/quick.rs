//! The frames that come for every message, read straight from the chunk: a publish with its whole
//! content, an ack.
//!
//! This is a short cut and nothing else. Whatever is unusual is left to the way frame by frame, which
//! alone knows the errors; both lead to the same, which `random_frames` tests by cutting the same bytes
//! at other places. It exists because that way builds and moves a dozen values per message.

use bytes::Bytes;
use leveret_wire::{
    content::ContentHeader,
    frame::{self, Frame, FrameKind},
    ids::{ChannelId, ClassId, DeliveryTag},
    method::basic,
    value::ShortString,
};

use crate::channel::{self, Finished, Head};

/// Class and method at the front of a payload.
const PUBLISH: [u8; 4] = ids(basic::Publish::METHOD_ID);
const ACK: [u8; 4] = ids(basic::Ack::METHOD_ID);

const fn ids(method: u16) -> [u8; 4] {
    let ([c1, c0], [m1, m0]) = (basic::Basic::CLASS_ID.to_be_bytes(), method.to_be_bytes());
    [c1, c0, m1, m0]
}

/// A frame that may have a short cut.
#[derive(Debug)]
pub(super) enum Quick {
    /// `basic.publish` with header and body, all in this chunk and in place.
    Publish(Finished),
    /// `basic.ack`.
    Ack { tag: DeliveryTag, multiple: bool },
}

/// Reads what begins with the method frame `first`; on success `at` is behind the last frame of it.
#[inline]
pub(super) fn read(
    chunk: &Bytes,
    first: Frame<'_>,
    at: &mut usize,
    payload_max: usize,
    size_max: u64,
) -> Option<Quick> {
    let (ids, arguments) = first.payload.split_first_chunk::<4>()?;
    match *ids {
        PUBLISH => {
            let mut ahead = *at;
            let content = publish(
                chunk,
                first.channel,
                arguments,
                &mut ahead,
                payload_max,
                size_max,
            )?;
            *at = ahead;
            Some(Quick::Publish(content))
        }
        ACK => {
            let (tag, &[multiple @ 0..=1]) = arguments.split_first_chunk()? else {
                return None;
            };
            Some(Quick::Ack {
                tag: DeliveryTag::from_be_bytes(*tag),
                multiple: multiple == 1,
            })
        }
        _ => None,
    }
}

#[inline]
fn publish(
    chunk: &Bytes,
    channel: ChannelId,
    arguments: &[u8],
    ahead: &mut usize,
    payload_max: usize,
    size_max: u64,
) -> Option<Finished> {
    let (_ticket, names) = arguments.split_first_chunk::<2>()?;
    let (exchange, names) = short(names)?;
    // Without immediate, which is refused.
    let (routing_key, &[mandatory @ 0..=1]) = short(names)? else {
        return None;
    };
    let header = next(chunk, channel, FrameKind::Header, ahead, payload_max)?;
    let header = ContentHeader::decode(chunk, header.payload).ok()?;
    let ContentHeader {
        class_id,
        weight,
        body_size: size,
        properties,
    } = header;
    if class_id != ClassId::new(basic::Basic::CLASS_ID) || weight != 0 || size > size_max {
        return None;
    }
    let body = if size == 0 {
        Bytes::new()
    } else {
        let body = next(chunk, channel, FrameKind::Body, ahead, payload_max)?;
        if body.payload.len() as u64 != size {
            return None;
        }
        chunk.slice_ref(body.payload)
    };
    let head = Head {
        method: channel::PUBLISH,
        exchange: name(chunk, exchange)?,
        routing_key: name(chunk, routing_key)?,
        mandatory: mandatory == 1,
        immediate: false,
    };
    Some(Finished {
        head,
        properties,
        size,
        body: Some(body),
    })
}

/// The next frame, if it is of this channel and kind.
#[inline]
fn next<'a>(
    chunk: &'a Bytes,
    channel: ChannelId,
    kind: FrameKind,
    ahead: &mut usize,
    payload_max: usize,
) -> Option<Frame<'a>> {
    let frame = frame::next_frame(chunk, ahead, payload_max).ok()??;
    (frame.channel == channel && frame.kind == kind).then_some(frame)
}

/// A length octet, that many bytes, and the rest.
#[inline]
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

#[inline]
fn name(chunk: &Bytes, bytes: &[u8]) -> Option<ShortString> {
    if bytes.is_empty() {
        return Some(ShortString::empty());
    }
    ShortString::try_from(chunk.slice_ref(bytes)).ok()
}
