//! An open connection: its frames, channel by channel.

use bytes::{Bytes, BytesMut};
use leveret_core::{
    ids::{ChannelKey, ConnectionId},
    queue::Outcome,
};
use leveret_wire::{
    content::ContentHeader,
    frame::{Frame, FrameKind},
    ids::ChannelId,
    method::{Method, MethodError, channel, connection},
    value::ShortString,
};

use super::{
    Peer, Tuned, Waiting,
    channels::Channels,
    quick::{self, Quick},
};
use crate::{
    call::{Call, ChannelEnd, Password},
    channel::{ACK, Channel, Finished, Next, PUBLISH, Publisher},
    error::{ChannelError, ConnectionError, Fault, MethodIds, NO_METHOD},
    outgoing::{News, put_return},
    settings::Settings,
    sink::{Routed, Sink},
    status::ConnectionStatus,
};

/// What an open connection knows.
#[derive(Debug)]
pub(super) struct Running {
    connection: ConnectionId,
    user: ShortString,
    is_impersonator: bool,
    channels: Channels,
    channel_max: u16,
    /// Agreed size of a frame. Payloads may have all of it, eight octets more than strictly agreed.
    frame_max: usize,
    /// Channels opened so far.
    openings: u32,
    message_size_max: u64,
    /// The next frame of a content is the last one that is taken.
    holds_publishers: bool,
    unfinished_max: u64,
    /// Bytes of half-received contents, over all channels.
    unfinished_bytes: u64,
    transaction_max: u64,
    has_own_prefetch_only: bool,
    /// Bytes that wait for commits, over all channels.
    transaction_bytes: u64,
    /// Channels whose content may still be slices of a chunk.
    unparked: Vec<u16>,
    /// Channels that had a message for so many milliseconds, which is too long.
    overdue: Vec<(ChannelKey, u64)>,
}

/// A fault, and where it happened.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) fault: Fault,
    pub(super) channel: u16,
    pub(super) blamed: MethodIds,
}

impl Trouble {
    fn new(fault: impl Into<Fault>, channel: ChannelId, blamed: MethodIds) -> Self {
        Self {
            fault: fault.into(),
            channel: channel.get(),
            blamed,
        }
    }
}

/// A call, and what its answer leads to.
type Asked = Box<(Call, Waiting)>;

impl Running {
    pub(super) fn new(
        connection: ConnectionId,
        settings: &Settings,
        Peer {
            user,
            is_impersonator,
        }: Peer,
        Tuned {
            channel_max,
            frame_max,
        }: Tuned,
    ) -> Self {
        Self {
            connection,
            user,
            is_impersonator,
            channels: Channels::default(),
            channel_max,
            frame_max: frame_max as usize,
            openings: 0,
            message_size_max: settings.message_size_max,
            holds_publishers: false,
            unfinished_max: settings
                .unfinished_content_max
                .max(settings.message_size_max),
            unfinished_bytes: 0,
            transaction_max: settings.transaction_max,
            has_own_prefetch_only: settings.has_own_prefetch_only,
            transaction_bytes: 0,
            unparked: Vec::new(),
            overdue: Vec::new(),
        }
    }

    pub(super) const fn hold_publishers(&mut self, holds: bool) {
        self.holds_publishers = holds;
    }

    pub(super) const fn holds_publishers(&self) -> bool {
        self.holds_publishers
    }

    pub(super) const fn payload_max(&self) -> usize {
        self.frame_max
    }

    pub(super) fn channel(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        self.channels
            .find(key.channel)
            .filter(|channel| channel.key() == key)
    }

    pub(super) fn add_channel(&mut self, key: ChannelKey) {
        self.channels
            .add(Channel::new(key, self.has_own_prefetch_only));
    }

    pub(super) fn remove_channel(&mut self, key: ChannelKey) {
        let channel = self.channels.remove(key.channel);
        // A channel ends between two contents.
        debug_assert!(
            channel
                .as_ref()
                .is_none_or(|channel| channel.counted_bytes() == 0)
        );
        self.transaction_bytes -= channel.map_or(0, |channel| channel.counted_transaction());
    }

    /// The server closes a channel: it waits for `close-ok`.
    pub(super) fn begin_close(&mut self, key: ChannelKey) {
        if let Some(channel) = self.channel(key) {
            channel.begin_close();
        }
        self.recount(key.channel);
    }

    /// Every open channel with its queues.
    pub(super) fn ends(&self) -> Vec<ChannelEnd> {
        self.channels
            .iter()
            .filter(|channel| channel.is_open())
            .map(Channel::end)
            .collect()
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        let open = self.channels.iter().filter(|channel| channel.is_open());
        ConnectionStatus {
            channel_max: self.channel_max,
            frame_max: u32::try_from(self.frame_max).unwrap_or(u32::MAX),
            heartbeat_secs: 0,
            channels: open.map(Channel::status).collect(),
        }
    }

    /// The channel with its queues.
    pub(super) fn end(&mut self, number: u16) -> Option<ChannelEnd> {
        self.channels.find(number).map(|channel| channel.end())
    }

    /// What was delivered and cancelled meanwhile.
    pub(super) fn learn(&mut self, news: &mut News) {
        for delivered in news.delivered.drain(..) {
            if let Some(channel) = self.channel(delivered.channel) {
                channel.delivered(&delivered);
            }
        }
        for consumer in news.cancelled.drain(..) {
            if let Some(channel) = self.channel(consumer.channel) {
                channel.remove_consumer(consumer.number);
            }
        }
        self.overdue.append(&mut news.overdue);
    }

    /// The next channel that had a message for too long and is open still.
    pub(super) fn take_overdue(&mut self) -> Option<Trouble> {
        while let Some((key, timeout_millis)) = self.overdue.pop() {
            if self.channel(key).is_some_and(|channel| channel.is_open()) {
                let channel = ChannelId::new(key.channel);
                let error = ChannelError::AckTimeout {
                    channel: key.channel,
                    timeout_millis,
                };
                return Some(Trouble::new(error, channel, NO_METHOD));
            }
        }
        None
    }

    /// Whether the user may publish under another's id may change with their secret.
    pub(super) const fn set_impersonator(&mut self, is_impersonator: bool) {
        self.is_impersonator = is_impersonator;
    }

    /// Works on one frame, or on a publish with all its frames. `frame` is a part of `chunk` and ends
    /// before `at`, which moves on with what was taken beside it.
    pub(super) fn frame<S: Sink>(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
        at: &mut usize,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<Option<Asked>, Trouble> {
        if frame.channel.is_connection() {
            return self.connection_frame(chunk, frame);
        }
        match frame.kind {
            FrameKind::Method => self.method(chunk, frame, at, sink, replies),
            FrameKind::Header => self.header(chunk, frame, sink, replies).map(|()| None),
            FrameKind::Body => self.body(chunk, frame, sink, replies).map(|()| None),
            FrameKind::Heartbeat => Err(unexpected(frame)),
        }
    }

    /// Copies what is still a slice of a chunk. A channel that then holds too much is at fault.
    pub(super) fn park(&mut self) -> Result<(), Trouble> {
        while let Some(number) = self.unparked.pop() {
            if let Some(channel) = self.channels.find(number) {
                channel.park();
            }
            self.recount(number);
            self.check_unfinished(ChannelId::new(number))?;
        }
        if self.unparked.capacity() > UNPARKED_KEPT {
            self.unparked = Vec::new();
        }
        Ok(())
    }

    fn connection_frame(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
    ) -> Result<Option<Asked>, Trouble> {
        match frame.kind {
            FrameKind::Heartbeat => return Ok(None),
            FrameKind::Method => {}
            FrameKind::Header | FrameKind::Body => return Err(unexpected(frame)),
        }
        let method = decode(chunk, frame)?;
        let blamed = method.ids();
        match method {
            Method::Connection(connection::Connection::Close(_)) => {
                let call = Call::CloseConnection {
                    channels: self.ends(),
                };
                Ok(Some(Box::new((call, Waiting::CloseOk))))
            }
            Method::Connection(connection::Connection::UpdateSecret(update)) => {
                let secret = Password::new(Bytes::copy_from_slice(update.new_secret.as_bytes()));
                let call = Call::UpdateSecret { secret };
                Ok(Some(Box::new((call, Waiting::UpdateSecret { blamed }))))
            }
            Method::Connection(_)
            | Method::Channel(_)
            | Method::Access(_)
            | Method::Exchange(_)
            | Method::Queue(_)
            | Method::Basic(_)
            | Method::Confirm(_)
            | Method::Tx(_) => {
                let error = ConnectionError::UnexpectedMethod { state: "running" };
                Err(Trouble::new(error, frame.channel, blamed))
            }
        }
    }

    fn method<S: Sink>(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
        at: &mut usize,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<Option<Asked>, Trouble> {
        let id = frame.channel;
        let Some(channel) = self.channels.find(id.get()) else {
            return self.method_on_closed_channel(chunk, frame);
        };
        if channel.is_open() && !channel.is_receiving() && !self.holds_publishers {
            match quick::read(chunk, frame, at, self.frame_max, self.message_size_max) {
                Some(Quick::Publish(content)) => {
                    return self.publish(id, content, sink, replies).map(|()| None);
                }
                Some(Quick::Ack { tag, multiple }) => {
                    let settled = channel.settle(tag, multiple, Outcome::Acked, sink);
                    return settled
                        .map(|()| None)
                        .map_err(|error| Trouble::new(error, id, ACK));
                }
                None => {}
            }
        }
        channel
            .expects_method()
            .map_err(|error| Trouble::new(error, id, channel.receiving()))?;
        let method = decode(chunk, frame)?;
        let blamed = method.ids();
        let next = channel
            .method(method, sink, replies)
            .map_err(|fault| Trouble {
                fault,
                channel: id.get(),
                blamed,
            })?;
        let (was, is) = channel.recount_transaction();
        self.transaction_bytes = self.transaction_bytes - was + is;
        match next {
            Next::Go => {
                if channel.is_receiving() && self.unparked.last() != Some(&id.get()) {
                    self.unparked.push(id.get());
                }
                Ok(None)
            }
            Next::Call(asked) => {
                let (call, then) = *asked;
                let channel = channel.key();
                Ok(Some(Box::new((
                    call,
                    Waiting::Method {
                        channel,
                        blamed,
                        then,
                    },
                ))))
            }
            Next::Close => {
                let end = channel.end();
                let channel = end.channel;
                let call = Call::CloseChannel(end);
                Ok(Some(Box::new((call, Waiting::ChannelCloseOk { channel }))))
            }
            Next::Free => {
                let key = channel.key();
                self.remove_channel(key);
                Ok(None)
            }
        }
    }

    /// Only `channel.open` makes sense here. What has a content is read to its end all the same.
    fn method_on_closed_channel(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
    ) -> Result<Option<Asked>, Trouble> {
        self.check_channel_count(frame.channel)?;
        let method = decode(chunk, frame)?;
        let blamed = method.ids();
        let is_open = matches!(method, Method::Channel(channel::Channel::Open(_)));
        if !is_open && !method.has_content() {
            let error = ConnectionError::ExpectedChannelOpen;
            return Err(Trouble::new(error, frame.channel, blamed));
        }
        self.openings = self.openings.wrapping_add(1);
        let key = ChannelKey {
            connection: self.connection,
            channel: frame.channel.get(),
            opening: self.openings,
        };
        if !is_open {
            self.channels.add(Channel::unopened(key, blamed));
            return Ok(None);
        }
        Ok(Some(Box::new((
            Call::OpenChannel(key),
            Waiting::OpenChannel { channel: key },
        ))))
    }

    fn header<S: Sink>(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<(), Trouble> {
        let id = frame.channel;
        let Some(channel) = self.channels.find(id.get()) else {
            self.check_channel_count(id)?;
            return Err(Trouble::new(ConnectionError::ExpectedMethod, id, NO_METHOD));
        };
        let blamed = channel.receiving();
        let trouble = |error: ConnectionError| Trouble::new(error, id, blamed);
        channel.expects_header().map_err(trouble)?;
        let header = ContentHeader::decode(chunk, frame.payload)
            .map_err(|error| trouble(ConnectionError::Content(error)))?;
        match channel
            .header(header, self.message_size_max)
            .map_err(trouble)?
        {
            Some(content) => self.publish(id, content, sink, replies),
            None => {
                if self.unparked.last() != Some(&id.get()) {
                    self.unparked.push(id.get());
                }
                Ok(())
            }
        }
    }

    fn body<S: Sink>(
        &mut self,
        chunk: &Bytes,
        frame: Frame<'_>,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<(), Trouble> {
        let id = frame.channel;
        let Some(channel) = self.channels.find(id.get()) else {
            self.check_channel_count(id)?;
            return Err(Trouble::new(ConnectionError::ExpectedMethod, id, NO_METHOD));
        };
        let blamed = channel.receiving();
        let trouble = |error: ConnectionError| Trouble::new(error, id, blamed);
        match channel.body(chunk, frame.payload).map_err(trouble)? {
            Some(content) => self.publish(id, content, sink, replies),
            None => {
                self.recount(id.get());
                self.check_unfinished(id)
            }
        }
    }

    /// A content is complete.
    fn publish<S: Sink>(
        &mut self,
        id: ChannelId,
        content: Finished,
        sink: &mut S,
        replies: &mut BytesMut,
    ) -> Result<(), Trouble> {
        if self.unparked.last() == Some(&id.get()) {
            self.unparked.pop();
        }
        let Some(channel) = self.channels.find(id.get()) else {
            return Ok(());
        };
        if channel.counted_bytes() > 0 {
            let (was, is) = channel.recount();
            self.unfinished_bytes = self.unfinished_bytes - was + is;
        }
        let publisher = Publisher {
            channel: channel.key(),
            user: &self.user,
            is_impersonator: self.is_impersonator,
            message_size_max: self.message_size_max,
            reply_address: None,
        };
        let blamed = content.head.method;
        let routed = channel
            .publish(content, publisher, sink)
            .map_err(|fault| Trouble {
                fault,
                channel: id.get(),
                blamed,
            })?;
        if let Routed::Returned(message) = routed {
            let out = channel.held_returns().unwrap_or(replies);
            put_return(out, id, &message, self.frame_max);
        }
        let (was, is) = channel.recount_transaction();
        self.transaction_bytes = self.transaction_bytes - was + is;
        let max = self.transaction_max;
        if is > was && self.transaction_bytes > max {
            let error = ChannelError::TransactionTooLarge { max };
            return Err(Trouble::new(error, id, PUBLISH));
        }
        Ok(())
    }

    fn check_channel_count(&self, id: ChannelId) -> Result<(), Trouble> {
        let max = self.channel_max;
        // Where neither side wants a limit, the numbers of channels are one.
        if max == 0 || self.channels.len() < usize::from(max) {
            return Ok(());
        }
        Err(Trouble::new(
            ConnectionError::TooManyChannels { max },
            id,
            NO_METHOD,
        ))
    }

    fn check_unfinished(&self, id: ChannelId) -> Result<(), Trouble> {
        let max = self.unfinished_max;
        if self.unfinished_bytes <= max {
            return Ok(());
        }
        Err(Trouble::new(
            ChannelError::TooMuchUnfinished { max },
            id,
            PUBLISH,
        ))
    }

    fn recount(&mut self, number: u16) {
        if let Some(channel) = self.channels.find(number) {
            let (was, is) = channel.recount();
            self.unfinished_bytes = self.unfinished_bytes - was + is;
            let (was, is) = channel.recount_transaction();
            self.transaction_bytes = self.transaction_bytes - was + is;
        }
    }
}

/// Entries whose memory the list of unparked channels keeps.
const UNPARKED_KEPT: usize = 256;

fn decode(chunk: &Bytes, frame: Frame<'_>) -> Result<Method, Trouble> {
    Method::decode(chunk, frame.payload).map_err(|error| {
        // Only a method of the connection itself is named where a string of it is at fault.
        let is_string = matches!(error, MethodError::MalformedUtf8 { .. });
        let blamed = if is_string && !frame.channel.is_connection() {
            NO_METHOD
        } else {
            error.ids()
        };
        Trouble::new(ConnectionError::Method(error), frame.channel, blamed)
    })
}

fn unexpected(frame: Frame<'_>) -> Trouble {
    let description = frame.unexpected_text();
    Trouble::new(
        ConnectionError::UnexpectedFrame { description },
        frame.channel,
        NO_METHOD,
    )
}
