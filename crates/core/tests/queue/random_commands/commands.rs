//! Commands, to the queue and to the list.

use bytes::Bytes;
use leveret_core::{
    arguments::{AttemptCounting, QueueType},
    ids::{ChannelKey, ConsumerId, Handout, Seq},
    message::{Message, MessageParts},
    queue::{Answer, Command, Confirm, ConsumerSettings, Outcome},
    record::Attempts,
};
use proptest::sample::Index;

use super::{Entry, ModelConsumer, Place, Request, World, ZEROS};
use crate::scenario::channel;

impl World {
    pub(super) const fn is_quorum(&self) -> bool {
        matches!(self.settings.queue_type, QueueType::Quorum)
    }

    /// The priority that counts here.
    pub(super) fn effective(&self, priority: Option<u8>) -> u8 {
        let priority = priority.unwrap_or(self.settings.default_priority);
        priority.min(self.settings.max_priority)
    }

    /// Puts a message that is ready into its place.
    pub(super) fn insert(&mut self, entry: Entry) {
        let stands_behind = |other: &Entry| {
            if other.place != Place::Ready {
                return false;
            }
            let is_turned = other.has_turn;
            let is_lower = other.priority < entry.priority;
            let is_later = other.priority == entry.priority && other.number > entry.number;
            if entry.has_turn {
                !is_turned
            } else {
                !is_turned && (is_lower || is_later)
            }
        };
        let at = self.messages.iter().position(stands_behind);
        let at = at.unwrap_or(self.messages.len());
        self.messages.insert(at, entry);
    }

    /// A message was handed out and is not done with.
    pub(super) fn come_back(&mut self, at: usize, is_failure: bool) {
        let mut entry = self.messages.remove(at);
        self.late.extend(entry.held.take());
        if let Some(counting) = self.settings.attempt_counting {
            let counts = is_failure || counting == AttemptCounting::All;
            let mut attempts = entry.attempts;
            attempts.all += 1;
            attempts.failed += u32::from(is_failure);
            let counted = counting.counted(attempts);
            let limit = self.settings.delivery_limit.unwrap_or(u64::MAX);
            if counts && u64::from(counted) > limit {
                return;
            }
            entry.attempts = attempts;
        }
        entry.place = Place::Ready;
        entry.is_flagged = true;
        entry.has_turn = self.is_quorum();
        self.insert(entry);
    }

    pub(super) fn publish(&mut self, persistent: bool, body_bytes: usize, priority: Option<u8>) {
        self.last_message += 1;
        let number = self.last_message;
        let body = Bytes::from_static(&ZEROS[..body_bytes]);
        let persists = persistent || self.is_quorum();
        let is_stored = self.durable && persists && !self.is_deleted;
        if !self.is_deleted {
            self.insert(Entry {
                number,
                priority: self.effective(priority),
                held: None,
                has_turn: false,
                attempts: Attempts::default(),
                is_stored,
                is_flagged: false,
                place: Place::Ready,
            });
        }
        let confirm = Confirm {
            channel: channel(100),
            number,
        };
        let command = Command::Enqueue {
            message: Message::new(MessageParts {
                exchange: b"",
                routing_key: number.to_string().as_bytes(),
                properties: &[0, 0],
                body,
                persistent,
                priority,
            }),
            confirm: Some(confirm),
        };
        let promised_before = self.effects.promises.len();
        self.apply(command);
        // Promised exactly when it is to be stored, accepted otherwise.
        let promised = &self.effects.promises[promised_before..];
        assert_eq!(promised.contains(&confirm), is_stored, "{self:#?}");
        assert_eq!(
            self.effects.accepted,
            if is_stored { vec![] } else { vec![confirm] }
        );
        self.effects.accepted.clear();
        self.twin_effects.accepted.clear();
    }

    pub(super) fn subscribe(&mut self, number: u16, mut settings: ConsumerSettings) -> ConsumerId {
        if !self.is_quorum() && self.rooms.contains_key(&channel(number)) {
            settings.shared_else = Some(9);
        }
        self.announce_consumers();
        self.last_consumer += 1;
        let consumer = ConsumerId {
            channel: channel(number),
            number: self.last_consumer,
        };
        let mut others = self.consumers.values();
        let is_refused = !self.is_quorum()
            && (others.any(|other| other.settings.exclusive)
                || (settings.exclusive && !self.consumers.is_empty()));
        let answer = if self.is_deleted {
            Answer::Deleted(0)
        } else if is_refused {
            Answer::ExclusiveUse
        } else {
            let is_paused = true;
            let model = ModelConsumer {
                settings,
                is_paused,
                waits_for_room: false,
            };
            self.consumers.insert(consumer, model);
            Answer::Subscribed
        };
        self.ask(Request::AtOnce(answer), |request| Command::Subscribe {
            request,
            consumer,
            settings,
        });
        consumer
    }

    pub(super) fn pick_consumer(&self, index: &Index) -> Option<ConsumerId> {
        let ids: Vec<ConsumerId> = self.consumers.keys().copied().collect();
        (!ids.is_empty()).then(|| *index.get(&ids))
    }

    pub(super) fn set_paused(&mut self, consumer: ConsumerId, is_paused: bool) {
        if let Some(model) = self.consumers.get_mut(&consumer) {
            model.is_paused = is_paused;
        }
        self.apply(if is_paused {
            Command::Pause { consumer }
        } else {
            Command::Resume { consumer }
        });
    }

    pub(super) fn unsubscribe(&mut self, consumer: ConsumerId) {
        self.consumers.remove(&consumer);
        self.apply(Command::Unsubscribe { consumer });
        self.expect_unused(self.consumers.is_empty());
    }

    pub(super) fn get(&mut self, channel: ChannelKey, no_ack: bool) {
        self.announce_consumers();
        self.ask(Request::Get { channel, no_ack }, |request| Command::Get {
            request,
            channel,
            no_ack,
        });
    }

    pub(super) fn settle_one(&mut self, index: &Index, outcome: Outcome) {
        let is_held = |entry: &&Entry| entry.place != Place::Ready;
        let held: Vec<(Seq, Handout)> = self
            .messages
            .iter()
            .filter(is_held)
            .filter_map(|entry| entry.held)
            .collect();
        if !held.is_empty() {
            self.settle(*index.get(&held), outcome);
        }
    }

    pub(super) fn settle(&mut self, (seq, handout): (Seq, Handout), outcome: Outcome) {
        let is_meant =
            |entry: &Entry| entry.held == Some((seq, handout)) && entry.place != Place::Ready;
        if let Some(at) = self.messages.iter().position(is_meant) {
            match outcome {
                Outcome::Returned => self.come_back(at, false),
                Outcome::Failed => self.come_back(at, true),
                Outcome::Acked | Outcome::Discarded | Outcome::Rejected => {
                    self.messages.remove(at);
                }
            }
        }
        self.apply(Command::Settle {
            seq,
            handout,
            outcome,
            more: false,
        });
    }

    pub(super) fn release(&mut self, channel: ChannelKey, ended: bool) {
        let is_meant = |entry: &&Entry| match entry.place {
            Place::Ready => false,
            Place::HeldBy(consumer) => consumer.channel == channel,
            Place::GotBy(by) => by == channel,
        };
        let held = self.messages.iter().filter(is_meant);
        // In the order in which they came to the queue; or by consumers, behind which stands what was got, and as they
        // were handed out.
        let handed_out = |entry: &Entry| {
            let (_, handout) = entry.held.filter(|_| self.is_quorum())?;
            let consumer = match entry.place {
                Place::HeldBy(consumer) => consumer.number,
                Place::Ready | Place::GotBy(_) => u32::MAX,
            };
            Some((consumer, handout.since(Handout::default())))
        };
        let mut held: Vec<_> = held
            .map(|entry| (handed_out(entry), entry.number))
            .collect();
        held.sort_unstable();
        for (_, number) in held {
            let mut messages = self.messages.iter();
            let at = messages.position(|entry| entry.number == number);
            self.come_back(at.expect("it is there"), ended);
        }
        let before = self.consumers.len();
        if ended {
            self.consumers.retain(|id, _| id.channel != channel);
            for request in self.requests.values_mut() {
                if matches!(request, Request::Get { channel: by, .. } if *by == channel) {
                    *request = Request::AtOnce(Answer::Got(None));
                }
            }
        }
        self.apply(Command::Release { channel, ended });
        self.expect_unused(before > 0 && self.consumers.is_empty());
        let is_late = |request: &Request| matches!(request, Request::AtOnce(_));
        assert!(
            !self.requests.values().any(is_late),
            "not answered: {self:#?}"
        );
    }

    pub(super) fn purge(&mut self) {
        let ready = self.ready();
        self.messages.retain(|entry| entry.place != Place::Ready);
        self.ask(Request::AtOnce(Answer::Purged(ready)), |request| {
            Command::Purge { request }
        });
        assert!(
            self.requests.is_empty(),
            "gets on an empty queue wait: {self:#?}"
        );
    }

    pub(super) fn delete(&mut self, if_unused: bool, if_empty: bool) {
        let ready = self.ready();
        let answer = if if_empty && ready > 0 {
            Answer::NotEmpty
        } else if if_unused && !self.consumers.is_empty() {
            Answer::InUse
        } else {
            Answer::Deleted(ready)
        };
        let mut cancelled = Vec::new();
        if let Answer::Deleted(_) = answer {
            self.is_deleted = true;
            self.messages.clear();
            cancelled = std::mem::take(&mut self.consumers).into_keys().collect();
        }
        self.ask(Request::AtOnce(answer), |request| Command::Delete {
            request,
            if_unused,
            if_empty,
        });
        assert_eq!(std::mem::take(&mut self.cancelled), cancelled);
    }
}
