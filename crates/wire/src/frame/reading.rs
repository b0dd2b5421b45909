//! From the read buffer to frames.

use bytes::{Buf, Bytes, BytesMut};

use super::{FRAME_END, FRAME_OVERHEAD, Frame, FrameError, FrameKind, HEADER_LEN, QUOTED_MAX};
use crate::ids::ChannelId;

/// The seven octets in front of a payload.
#[derive(Clone, Copy)]
struct Header {
    kind: u8,
    channel: ChannelId,
    payload_len: usize,
}

impl Header {
    fn first_of(bytes: &[u8]) -> Option<Self> {
        let &[kind, c1, c0, l3, l2, l1, l0] = bytes.first_chunk::<HEADER_LEN>()?;
        let payload_len = u32::from_be_bytes([l3, l2, l1, l0]);
        Some(Self {
            kind,
            channel: ChannelId::from_be_bytes([c1, c0]),
            // A length that does not fit is larger than every limit.
            payload_len: usize::try_from(payload_len).unwrap_or(usize::MAX),
        })
    }

    /// Octets from the start of this frame on that must be there before the frame is parsed.
    ///
    /// A frame that will be refused anyway is refused without waiting for the payload: a peer must not make us buffer more
    /// than it negotiated. Of an unknown kind the octets are awaited that the reply text quotes.
    fn needed(self, payload_max: usize) -> usize {
        if self.payload_len > payload_max {
            HEADER_LEN
        } else if FrameKind::from_octet(self.kind).is_none() {
            HEADER_LEN + self.payload_len.min(QUOTED_MAX)
        } else {
            FRAME_OVERHEAD + self.payload_len
        }
    }

    fn is_refused(self, payload_max: usize) -> bool {
        self.payload_len > payload_max || FrameKind::from_octet(self.kind).is_none()
    }
}

/// Splits the complete frames off the front of the buffer, all at once; empty when there is none.
///
/// Only the headers are looked at. A frame that announces more than `payload_max` or is of an unknown kind ends the walk:
/// its header is still handed out, so that [`next_frame`] reports it before its payload has arrived.
pub fn take_whole_frames(buf: &mut BytesMut, payload_max: usize) -> Bytes {
    let mut whole = 0;
    let mut rest: &[u8] = buf;
    while let Some(header) = Header::first_of(rest) {
        let needed = header.needed(payload_max);
        let Some(behind) = rest.get(needed..) else {
            break;
        };
        whole += needed;
        rest = behind;
        if header.is_refused(payload_max) {
            break;
        }
    }
    if whole == 0 {
        return Bytes::new();
    }
    buf.split_to(whole).freeze()
}

/// How many octets are missing before [`take_whole_frames`] finds one more frame; a hint for reserving, never above
/// `payload_max` and [`FRAME_OVERHEAD`] together.
pub fn wanted(buf: &[u8], payload_max: usize) -> usize {
    let needed = Header::first_of(buf).map_or(HEADER_LEN, |header| header.needed(payload_max));
    needed.saturating_sub(buf.len())
}

/// Reads the frame that starts at `at` in a chunk of complete frames, and moves `at` behind it; `None` at the end.
///
/// `payload_max` may be smaller than the one that the chunk was taken with, never larger: a chunk ends behind the header of
/// a frame that was too large for it. During the handshake the limit grows from one frame to the next, so chunks are
/// then taken with the largest limit that may come out of it.
///
/// After an error nothing more can be read from this connection.
pub fn next_frame<'a>(
    chunk: &'a Bytes,
    at: &mut usize,
    payload_max: usize,
) -> Result<Option<Frame<'a>>, FrameError> {
    let rest = chunk.get(*at..).unwrap_or_default();
    let Some(header) = Header::first_of(rest) else {
        return Ok(None);
    };
    let Header {
        kind,
        channel,
        payload_len,
    } = header;
    if payload_len > payload_max {
        return Err(FrameError::TooLarge {
            kind,
            len: payload_len,
            payload_max,
        });
    }
    let (_, behind) = rest.split_at(HEADER_LEN);
    let Some(known) = FrameKind::from_octet(kind) else {
        return Err(unknown(chunk, header, behind));
    };
    let Some((payload, &[end, ..])) = behind.split_at_checked(payload_len) else {
        return Ok(None);
    };
    if end != FRAME_END {
        return Err(FrameError::BadEnd {
            kind,
            channel,
            payload: chunk.slice_ref(payload),
            end,
        });
    }
    if !fits(known, payload) {
        return Err(unknown(chunk, header, payload));
    }
    *at += payload_len + FRAME_OVERHEAD;
    Ok(Some(Frame {
        kind: known,
        channel,
        payload,
    }))
}

/// Whether a frame of this kind can have such a payload. RabbitMQ takes one that cannot for a frame of unknown kind.
fn fits(kind: FrameKind, payload: &[u8]) -> bool {
    match kind {
        FrameKind::Method => payload.len() >= 4,
        FrameKind::Header => payload.len() >= 12,
        FrameKind::Body => true,
        FrameKind::Heartbeat => payload.is_empty(),
    }
}

#[cold]
fn unknown(chunk: &Bytes, header: Header, behind: &[u8]) -> FrameError {
    let quoted = header.payload_len.min(QUOTED_MAX).min(behind.len());
    FrameError::Unknown {
        kind: header.kind,
        channel: header.channel,
        payload: chunk.slice_ref(behind).copy_to_bytes(quoted),
        len: header.payload_len,
    }
}
