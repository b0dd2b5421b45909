//! Bytes on their way out: small things in one growing buffer, large bodies as slices between.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use leveret_core::message::Message;
use leveret_wire::{
    frame::{self, FRAME_END, FRAME_OVERHEAD, FrameKind},
    ids::ChannelId,
};

/// Segments for one vectored write.
pub(super) struct Segments {
    done: Vec<Bytes>,
    done_bytes: usize,
    tail: BytesMut,
}

impl fmt::Debug for Segments {
    // No bytes: they are other people's messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segments")
            .field("done", &self.done.len())
            .field("pending_bytes", &self.pending_bytes())
            .finish()
    }
}

impl Segments {
    pub(super) fn new() -> Self {
        Self {
            done: Vec::new(),
            done_bytes: 0,
            tail: BytesMut::new(),
        }
    }

    /// Where small things are encoded.
    pub(super) const fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.done_bytes + self.tail.len()
    }

    /// Header and body of a message; a large body is not copied.
    pub(super) fn put_content(&mut self, channel: ChannelId, message: &Message, frame_max: usize) {
        let body = message.body();
        frame::put_content_header(
            &mut self.tail,
            channel,
            body.len() as u64,
            message.properties(),
        );
        match message.shared_body() {
            None => frame::put_body_frames(&mut self.tail, channel, body, frame_max),
            Some(shared) => self.put_shared_body(channel, shared, frame_max),
        }
    }

    fn put_shared_body(&mut self, channel: ChannelId, body: &Bytes, frame_max: usize) {
        let payload_max = frame::body_payload_max(frame_max).max(1);
        let mut at = 0;
        while at < body.len() {
            let payload = body.slice(at..body.len().min(at + payload_max));
            at += payload.len();
            self.tail.reserve(FRAME_OVERHEAD);
            frame::put_frame_header(&mut self.tail, FrameKind::Body, channel, payload.len());
            self.end_segment();
            self.done_bytes += payload.len();
            self.done.push(payload);
            self.tail.put_u8(FRAME_END);
        }
    }

    pub(super) fn take(&mut self, into: &mut Vec<Bytes>) {
        self.end_segment();
        self.done_bytes = 0;
        if into.is_empty() {
            // The memory goes along: whoever took the last ones may have given up theirs.
            std::mem::swap(into, &mut self.done);
        } else {
            into.append(&mut self.done);
        }
    }

    fn end_segment(&mut self) {
        if !self.tail.is_empty() {
            self.done_bytes += self.tail.len();
            self.done.push(self.tail.split().freeze());
        }
    }
}
