//! The end of a connection: closes, their answers, and sockets that end without a word.

use leveret_wire::{
    frame::FrameKind,
    ids::{ClassId, MethodId},
    method::connection,
};

use super::{Connection, EndReason, Phase, Step, Tick};
use crate::{
    error::{self, ConnectionError, MethodIds, NO_METHOD},
    heartbeat::Heartbeat,
    input::Input,
    settings,
    time::Millis,
};

/// Class and method of a close and its answer on channel 0.
const CLOSE: MethodIds = (
    ClassId::new(connection::Connection::CLASS_ID),
    MethodId::new(connection::Close::METHOD_ID),
);
const CLOSE_OK: MethodIds = (
    ClassId::new(connection::Connection::CLASS_ID),
    MethodId::new(connection::CloseOk::METHOD_ID),
);

impl Connection {
    /// Frames of a connection that one side has closed.
    pub(super) fn closing(&mut self, input: &mut Input) -> Option<Step> {
        let payload_max = self.payload_max as usize;
        let Ok(next) = input.next_frame(payload_max, payload_max) else {
            self.finish();
            return None;
        };
        let Some((_, frame, _)) = next else {
            return Some(Step::NeedInput);
        };
        if frame.kind != FrameKind::Method || !frame.channel.is_connection() {
            return None;
        }
        match ids_of(frame.payload) {
            Some(CLOSE) => self.put(&connection::CloseOk {}.into()),
            Some(CLOSE_OK) => self.finish(),
            _ => {}
        }
        None
    }

    /// Closes with a text and waits for the answer.
    pub(super) fn close_with(&mut self, until: Millis, error: &ConnectionError, blamed: MethodIds) {
        self.put(&error::connection_close(error, blamed));
        self.phase = Phase::Closing;
        self.heartbeat = Heartbeat::default();
        self.deadline = Some(until);
    }

    /// Closes with a text and reads no answer, because no frame can be found any more.
    pub(super) fn close_deaf(&mut self, now: Millis, error: &ConnectionError) {
        self.put(&error::connection_close(error, NO_METHOD));
        self.drop_silently(now);
    }

    /// Ends the socket after a while, without a word.
    pub(super) fn drop_silently(&mut self, now: Millis) {
        let until = now.plus(settings::SILENT_DROP_MILLIS);
        self.phase = Phase::Draining { until };
        self.heartbeat = Heartbeat::default();
        self.deadline = Some(until);
    }

    /// Ends the socket as soon as what there is was written.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Over;
        self.heartbeat = Heartbeat::default();
        self.deadline = None;
    }

    pub(super) fn end_silently(&mut self, reason: EndReason) -> Tick {
        self.heartbeat = Heartbeat::default();
        self.deadline = None;
        self.forced = None;
        Tick::Close(reason)
    }

    /// How long a peer may take for its part of a close.
    pub(super) fn close_timeout_millis(&self) -> u64 {
        match self.heartbeat_secs {
            0 => settings::CLOSE_TIMEOUT_MILLIS,
            secs => settings::CLOSE_TIMEOUT_MILLIS.min(u64::from(secs) * 1000),
        }
    }
}

/// Class and method at the start of a method frame's payload.
fn ids_of(payload: &[u8]) -> Option<MethodIds> {
    let &[c1, c0, m1, m0] = payload.first_chunk()?;
    Some((
        ClassId::from_be_bytes([c1, c0]),
        MethodId::from_be_bytes([m1, m0]),
    ))
}
