//! Received bytes, cut into frames where they lie.
//!
//! The frames are those of `leveret-wire`; only the walk is not. Its reader hands out counted slices of a shared buffer, so
//! that a message can outlive the read. Here nothing does: the bench looks at a tag and a time stamp and forgets the rest,
//! and a message must cost it less than it costs the broker.

use std::io::{self, Read};

use bytes::Bytes;
use leveret_wire::{ChannelId, FRAME_END, FRAME_OVERHEAD, FrameError, FrameKind, HEADER_LEN};

/// What a new buffer holds; most connections never need more.
const CAPACITY_MIN: usize = 16 * 1024;

/// What a busy buffer grows to: one read then takes hundreds of small messages.
const CAPACITY_MAX: usize = 256 * 1024;

/// One frame, valid until the next read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) kind: FrameKind,
    pub(crate) channel: ChannelId,
    pub(crate) payload: &'a [u8],
}

/// A growing window over the stream: `bytes[start..end]` is received and not yet looked at.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    payload_max: usize,
}

impl FrameBuffer {
    pub(crate) fn new(payload_max: usize) -> Self {
        Self {
            bytes: vec![0; CAPACITY_MIN],
            start: 0,
            end: 0,
            payload_max,
        }
    }

    /// Stands in for a buffer that is in use elsewhere; holds nothing and costs nothing.
    pub(crate) fn empty() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            end: 0,
            payload_max: 0,
        }
    }

    /// What the peer may send in one frame from now on.
    pub(crate) fn set_payload_max(&mut self, payload_max: usize) {
        self.payload_max = payload_max;
    }

    /// One read. 0 is the end of the stream.
    pub(crate) fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        let room = self.bytes.get_mut(self.end..).unwrap_or_default();
        let len = stream.read(room)?;
        if len == room.len() && self.bytes.len() < CAPACITY_MAX {
            // There was more to be had.
            self.bytes.resize(self.bytes.len() * 4, 0);
        }
        self.end += len;
        Ok(len)
    }

    /// The next whole frame; `None` means that more must be read.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Received<'_>>, FrameError> {
        let window = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some((&[kind, c1, c0, l3, l2, l1, l0], rest)) =
            window.split_first_chunk::<HEADER_LEN>()
        else {
            return Ok(None);
        };
        let payload_len = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        let channel = ChannelId::from_be_bytes([c1, c0]);
        let Some(known) = FrameKind::from_octet(kind).filter(|_| payload_len <= self.payload_max)
        else {
            return Err(self.refuse(kind, channel, payload_len));
        };
        let Some((payload, &[end, ..])) = rest.split_at_checked(payload_len) else {
            return Ok(None);
        };
        if end != FRAME_END {
            return Err(FrameError::BadEnd {
                kind,
                channel,
                payload: Bytes::copy_from_slice(payload),
                end,
            });
        }
        self.start += payload_len + FRAME_OVERHEAD;
        Ok(Some(Received {
            kind: known,
            channel,
            payload,
        }))
    }

    /// Moves what is left to the front when the room behind it gets small. A frame may be larger than the whole buffer.
    fn make_room(&mut self) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        if self.bytes.len() - self.end >= self.bytes.len() / 2 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.bytes.len() - self.end < self.bytes.len() / 4 {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }

    #[cold]
    fn refuse(&self, kind: u8, channel: ChannelId, payload_len: usize) -> FrameError {
        if payload_len > self.payload_max {
            return FrameError::TooLarge {
                kind,
                len: payload_len,
                payload_max: self.payload_max,
            };
        }
        FrameError::Unknown {
            kind,
            channel,
            payload: Bytes::new(),
            len: payload_len,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use leveret_wire::{ChannelId, FrameError, FrameKind, put_body_frames, put_heartbeat};

    use super::FrameBuffer;

    const PAYLOAD_MAX: usize = 131_064;

    /// Hands out a few bytes per read.
    struct Trickle<'a> {
        rest: &'a [u8],
        step: usize,
    }

    impl std::io::Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let len = self.step.min(out.len()).min(self.rest.len());
            let (now, later) = self.rest.split_at(len);
            out[..len].copy_from_slice(now);
            self.rest = later;
            Ok(len)
        }
    }

    #[track_caller]
    fn body_lengths(stream: &[u8], step: usize) -> Vec<usize> {
        let mut buffer = FrameBuffer::new(PAYLOAD_MAX);
        let mut stream = Trickle { rest: stream, step };
        let mut lengths = Vec::new();
        while buffer.fill(&mut stream).unwrap() > 0 {
            while let Some(frame) = buffer.next_frame().unwrap() {
                assert_eq!(frame.kind, FrameKind::Body);
                assert!(frame.payload.iter().all(|&byte| byte == 7));
                lengths.push(frame.payload.len());
            }
        }
        lengths
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let sizes = [1, 100, 20_000, 3, 131_064, 8, 70_000, 131_064, 131_064, 16];
        let mut stream = BytesMut::new();
        for size in sizes {
            put_body_frames(&mut stream, ChannelId::new(1), &vec![7; size], 131_072);
        }
        for step in [1, 7, 4_096, 100_000, usize::MAX] {
            assert_eq!(body_lengths(&stream, step), sizes, "step {step}");
        }
    }

    #[test]
    fn a_frame_above_the_agreed_size_is_refused_before_its_payload_is_there() {
        let mut buffer = FrameBuffer::new(100);
        buffer.fill(&mut &[3, 0, 1, 0, 0, 0, 101][..]).unwrap();
        assert!(matches!(
            buffer.next_frame(),
            Err(FrameError::TooLarge { len: 101, .. })
        ));
    }

    #[test]
    fn a_heartbeat_has_no_payload() {
        let mut stream = BytesMut::new();
        put_heartbeat(&mut stream);
        let mut buffer = FrameBuffer::new(100);
        buffer.fill(&mut &stream[..]).unwrap();
        let frame = buffer.next_frame().unwrap().unwrap();
        assert_eq!((frame.kind, frame.payload.len()), (FrameKind::Heartbeat, 0));
        assert!(buffer.next_frame().unwrap().is_none());
    }
}
