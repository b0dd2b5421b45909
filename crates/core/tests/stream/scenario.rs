//! One stream among surroundings that are played: publishers, readers, and a store that is strict.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use leveret_core::{
    ids::{ChannelKey, ConnectionId, ConsumerId, Handout, QueueId, Seq, Timestamp},
    message::{Message, MessageParts},
    queue::{
        Answer, Command, Confirm, Depth, Effects, Outcome, Refilled, RequestId, StoredMessage,
    },
    record::{MetaChange, QueueState, Write},
    stream::{Ask, Stream, StreamFilter, StreamSettings, StreamStart, StreamSubscription, Told},
};
use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::FieldValue,
};

pub(crate) const QUEUE: QueueId = QueueId::new(7);

/// The store's priority of messages.
const MESSAGES: u8 = 0;

/// What a reader got: the offset it was told, and the body.
pub(crate) type Got = (i64, String);

/// The stored rows and counters. Refuses a place that is put twice, and a row that is removed and not
/// there.
#[derive(Debug, Default)]
pub(crate) struct Store {
    rows: BTreeMap<Seq, StoredMessage>,
    /// Rows of any other priority.
    others: BTreeMap<Seq, StoredMessage>,
    /// Messages that went and nobody knows.
    lost: u64,
    used: BTreeSet<(u8, Seq)>,
    state: QueueState,
    pub(crate) is_deleted: bool,
}

impl Store {
    fn commit(&mut self, writes: Vec<Write>) {
        for write in writes {
            assert!(!self.is_deleted, "after the stream is gone: {write:?}");
            match write {
                Write::Put {
                    priority,
                    seq,
                    enqueued_at,
                    due,
                    message,
                    ..
                } => {
                    assert!(self.used.insert((priority, seq)), "{seq} is put again");
                    let row = StoredMessage {
                        seq,
                        enqueued_at,
                        due: Some(due),
                        message,
                    };
                    self.of(priority).insert(seq, row);
                }
                Write::Forget { priority, seq, .. } => {
                    let row = self.of(priority).remove(&seq);
                    assert!(row.is_some(), "{seq} has no row");
                }
                Write::ForgetRange {
                    priority,
                    from,
                    until,
                    ..
                } => self
                    .of(priority)
                    .retain(|seq, _| !(from..until).contains(seq)),
                Write::State { state, .. } => self.state = state,
                Write::Meta(MetaChange::DeleteQueue(_)) => self.is_deleted = true,
                other
                @ (Write::Attempts { .. } | Write::ForgetAttempts { .. } | Write::Meta(_)) => {
                    panic!("not of a stream: {other:?}")
                }
            }
        }
        if self.is_deleted {
            return;
        }
        let QueueState {
            head,
            next,
            messages,
            ..
        } = self.state;
        let rows = self.rows.len() as u64 + self.lost;
        assert_eq!(rows, messages);
        assert_eq!(next.get() - head.get(), messages, "the log has no gaps");
        let bounds = (self.rows.keys().next(), self.rows.keys().next_back());
        let (Some(&first), Some(last)) = bounds else {
            return;
        };
        assert!(head <= first && last.next() <= next, "{bounds:?}");
    }

    fn of(&mut self, priority: u8) -> &mut BTreeMap<Seq, StoredMessage> {
        match priority {
            MESSAGES => &mut self.rows,
            _ => &mut self.others,
        }
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &StoredMessage> {
        self.rows.values()
    }

    pub(crate) fn lose(&mut self, offset: u64) {
        assert!(self.rows.remove(&Seq::new(offset)).is_some());
        self.lost += 1;
    }

    fn read(&self, priority: u8, from: Seq, until: Seq, rows: usize, bytes: usize) -> Refilled {
        let mut page = Refilled::default();
        let mut read = 0;
        if from >= until {
            return page;
        }
        let stored = match priority {
            MESSAGES => &self.rows,
            _ => &self.others,
        };
        for (seq, row) in stored.range(from..until) {
            if page.rows.len() >= rows || (read >= bytes && !page.rows.is_empty()) {
                page.next = Some(*seq);
                break;
            }
            read += row.message.memory_bytes();
            page.rows.push(row.clone());
        }
        page
    }

    fn answer(&self, ask: Ask) -> Told {
        match ask {
            Ask::Stored { until } => Told::Stored { until },
            Ask::Pause { reader, .. } => Told::Paused { reader },
            Ask::Rows {
                reader,
                from,
                until,
                rows_max,
                bytes_max,
            } => Told::Rows {
                reader,
                rows: self.read(MESSAGES, from, until, rows_max, bytes_max),
            },
            Ask::Since {
                reader,
                from,
                until,
                at,
            } => Told::Since {
                reader,
                found: self
                    .rows
                    .range(from.min(until)..until)
                    .find(|(_, row)| row.enqueued_at >= at)
                    .map(|(seq, _)| *seq),
            },
            Ask::Segments {
                priority,
                from,
                until,
            } => Told::Segments(self.read(priority, from, until, usize::MAX, usize::MAX)),
        }
    }
}

/// A stream, who talks to it, and what came of that so far. Every verb is one batch.
#[derive(Debug)]
pub(crate) struct StreamScenario {
    pub(crate) stream: Stream,
    settings: StreamSettings,
    effects: Effects,
    pub(crate) store: Store,
    /// Units on their way to the store, with what is to be asked behind them.
    units: VecDeque<(Vec<Write>, Vec<Confirm>, Vec<Ask>)>,
    pub(crate) commits_late: bool,
    pub(crate) asks: VecDeque<Ask>,
    pub(crate) reads_late: bool,
    pub(crate) got: BTreeMap<ConsumerId, Vec<Got>>,
    /// Unsettled deliveries of each reader, the oldest first.
    pub(crate) held: BTreeMap<ConsumerId, VecDeque<Seq>>,
    pub(crate) confirmed: Vec<u64>,
    pub(crate) missing: u64,
    last: u64,
    pub(crate) now: u64,
}

impl StreamScenario {
    pub(crate) fn new() -> Self {
        Self::with(StreamSettings::default())
    }

    pub(crate) fn with(settings: StreamSettings) -> Self {
        Self {
            stream: Stream::new(QUEUE, settings.clone()),
            settings,
            effects: Effects::default(),
            store: Store::default(),
            units: VecDeque::new(),
            commits_late: false,
            asks: VecDeque::new(),
            reads_late: false,
            got: BTreeMap::new(),
            held: BTreeMap::new(),
            confirmed: Vec::new(),
            missing: 0,
            last: 0,
            now: 1_000_000,
        }
    }

    pub(crate) fn reader(number: u16) -> ConsumerId {
        ConsumerId {
            channel: ChannelKey {
                connection: ConnectionId::new(1),
                channel: number,
                opening: 1,
            },
            number: 1,
        }
    }

    /// A batch of commands and everything that follows from it.
    pub(crate) fn submit(&mut self, commands: Vec<Command>) {
        let now = Timestamp::new(self.now);
        for command in commands {
            self.stream.apply(now, command, &mut self.effects);
        }
        while self.stream.hand_out(&mut self.effects) {}
        self.stream.seal(&mut self.effects);
        self.stream.check().unwrap();
        let Effects {
            writes,
            promises,
            accepted,
            deliveries,
            answers,
            asks,
            cancelled,
            missing,
            ..
        } = std::mem::take(&mut self.effects);
        self.confirmed.extend(accepted.iter().map(|it| it.number));
        self.missing += missing;
        for (_, answer) in answers {
            assert!(matches!(answer, Answer::Subscribed | Answer::Deleted(_)));
        }
        for gone in cancelled {
            self.held.remove(&gone);
        }
        for delivery in deliveries {
            assert!(!delivery.redelivered);
            let body = String::from_utf8(delivery.message.body().to_vec()).unwrap();
            let offset = offset_of(&delivery.message);
            let seen = (offset, body);
            self.got.entry(delivery.consumer).or_default().push(seen);
            self.held
                .entry(delivery.consumer)
                .or_default()
                .push_back(delivery.seq);
        }
        self.units.push_back((writes, promises, asks));
        if !self.commits_late {
            self.commit();
        }
    }

    /// Everything on its way reaches the store.
    pub(crate) fn commit(&mut self) {
        while let Some((writes, promises, asks)) = self.units.pop_front() {
            self.store.commit(writes);
            self.confirmed.extend(promises.iter().map(|it| it.number));
            self.asks.extend(asks);
        }
        if !self.reads_late {
            self.answer_all();
        }
    }

    pub(crate) fn answer_all(&mut self) {
        while let Some(ask) = self.asks.pop_front() {
            self.answer(ask);
        }
    }

    pub(crate) fn answer(&mut self, ask: Ask) {
        let told = self.store.answer(ask);
        self.submit(vec![Command::Told(Box::new(told))]);
    }

    pub(crate) fn publish<'a>(&mut self, bodies: impl IntoIterator<Item = &'a str>) {
        let commands = bodies
            .into_iter()
            .map(|body| {
                self.last += 1;
                Command::Enqueue {
                    message: message(body, &[0, 0]),
                    confirm: Some(Confirm {
                        channel: Self::reader(99).channel,
                        number: self.last,
                    }),
                }
            })
            .collect();
        self.submit(commands);
    }

    /// Publishes numbers, each in a batch of its own.
    pub(crate) fn publish_each(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.publish([number.to_string().as_str()]);
        }
    }

    pub(crate) fn subscribe(
        &mut self,
        number: u16,
        prefetch: u16,
        start: StreamStart,
    ) -> ConsumerId {
        self.subscribe_filtered(number, prefetch, start, None)
    }

    pub(crate) fn subscribe_filtered(
        &mut self,
        number: u16,
        prefetch: u16,
        start: StreamStart,
        filter: Option<StreamFilter>,
    ) -> ConsumerId {
        let consumer = Self::reader(number);
        self.last += 1;
        let subscription = StreamSubscription {
            request: RequestId(self.last),
            consumer,
            prefetch,
            start,
            filter,
        };
        self.submit(vec![Command::SubscribeStream(Box::new(subscription))]);
        self.submit(vec![Command::Resume { consumer }]);
        consumer
    }

    /// Settles the `count` oldest deliveries of the reader.
    pub(crate) fn settle(&mut self, reader: ConsumerId, count: usize, outcome: Outcome) {
        let held = self.held.entry(reader).or_default();
        let count = count.min(held.len());
        let settles = held
            .drain(..count)
            .map(|seq| Command::Settle {
                seq,
                handout: Handout::default(),
                outcome,
                more: false,
            })
            .collect();
        self.submit(settles);
    }

    /// What the reader got since the last look: the offsets.
    pub(crate) fn take_offsets(&mut self, reader: ConsumerId) -> Vec<i64> {
        let got = self.got.remove(&reader).unwrap_or_default();
        got.into_iter().map(|(offset, _)| offset).collect()
    }

    pub(crate) fn depth(&self) -> Depth {
        self.stream.depth()
    }

    pub(crate) fn segment_rows(&self) -> usize {
        self.store.others.len()
    }

    /// What is not committed is lost, and so is everybody who was connected.
    pub(crate) fn crash(&mut self) {
        self.units.clear();
        self.asks.clear();
        self.held.clear();
        self.got.clear();
        let state = self.store.state;
        self.stream = Stream::recovered(QUEUE, self.settings.clone(), state);
        self.effects = Effects::default();
    }
}

pub(crate) fn message(body: &str, properties: &[u8]) -> Message {
    Message::new(MessageParts {
        exchange: b"ex",
        routing_key: b"key",
        properties,
        body: Bytes::copy_from_slice(body.as_bytes()),
        persistent: false,
        priority: None,
    })
}

/// What the header says.
pub(crate) fn offset_of(message: &Message) -> i64 {
    let raw = RawProperties::from_wire(Bytes::copy_from_slice(message.properties())).unwrap();
    let headers = BasicProperties::decode(&raw).unwrap().headers.unwrap();
    let offset = headers.get(b"x-stream-offset");
    let Some(FieldValue::Long(offset)) = offset else {
        panic!("no offset in {headers:?}");
    };
    *offset
}
