//! What was read from the socket and is not worked through yet.

use std::fmt;

use bytes::{Bytes, BytesMut};
use leveret_wire::frame::{self, Frame, FrameError};

/// The read side's buffer: bytes as they came, and the chunk of whole frames at their front that is
/// being worked through.
#[derive(Default)]
pub struct Input {
    buf: BytesMut,
    chunk: Bytes,
    at: usize,
    /// Length of `buf` when it was last looked at; more means that bytes came.
    seen: usize,
}

impl fmt::Debug for Input {
    // No bytes: there are passwords among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("buffered", &self.buf.len())
            .field("chunk", &self.chunk.len())
            .field("at", &self.at)
            .finish()
    }
}

impl Input {
    /// An input without a buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the server reads into, at the end.
    pub const fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buf
    }

    /// Nothing waits here: every byte that came was worked through.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.buf.is_empty() && self.at >= self.chunk.len()
    }

    /// Gives up the buffer if [`Self::is_idle`], so that a connection without traffic keeps none.
    pub fn release_idle_capacity(&mut self) {
        if self.is_idle() {
            *self = Self::default();
        }
    }

    /// Whether bytes came since this was last asked.
    pub(crate) fn has_grown(&mut self) -> bool {
        let has_grown = self.buf.len() > self.seen;
        self.seen = self.buf.len();
        has_grown
    }

    /// The first eight bytes of the connection, once they are there.
    pub(crate) fn take_protocol_header(&mut self) -> Option<[u8; 8]> {
        let header = self.buf.first_chunk().copied()?;
        let _ = self.buf.split_to(header.len());
        self.seen = self.buf.len();
        Some(header)
    }

    /// The next whole frame, with the chunk it is a part of and the place behind it; `None` until more
    /// was read.
    ///
    /// Frames are split off the buffer up to `take_max` octets of payload, and read up to `payload_max`:
    /// during the handshake a chunk may hold frames that are allowed only behind it.
    pub(crate) fn next_frame(
        &mut self,
        payload_max: usize,
        take_max: usize,
    ) -> Result<Option<(&Bytes, Frame<'_>, &mut usize)>, FrameError> {
        if self.at >= self.chunk.len() {
            // The old chunk goes first, so that its memory can serve again.
            self.chunk = Bytes::new();
            self.at = 0;
            self.chunk = frame::take_whole_frames(&mut self.buf, take_max);
            self.seen = self.buf.len();
            if self.chunk.is_empty() {
                let is_early = payload_max < take_max;
                return if is_early {
                    self.refuse_early(payload_max)
                } else {
                    Ok(None)
                };
            }
        }
        let frame = frame::next_frame(&self.chunk, &mut self.at, payload_max)?;
        Ok(frame.map(|frame| (&self.chunk, frame, &mut self.at)))
    }

    /// A frame that is too large at this moment is refused before its payload has come.
    fn refuse_early<T>(&self, payload_max: usize) -> Result<Option<T>, FrameError> {
        let Some(header) = self.buf.first_chunk::<{ frame::HEADER_LEN }>() else {
            return Ok(None);
        };
        let header = Bytes::copy_from_slice(header);
        match frame::next_frame(&header, &mut 0, payload_max) {
            Err(error @ FrameError::TooLarge { .. }) => Err(error),
            Ok(_) | Err(FrameError::BadEnd { .. } | FrameError::Unknown { .. }) => Ok(None),
        }
    }
}
