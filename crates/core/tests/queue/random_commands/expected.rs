//! What must hold.

use leveret_core::{
    ids::{ChannelKey, ConsumerId, Handout, Seq, Timestamp},
    message::Message,
    queue::{Answer, Command, ConsumerSettings, Deaths, Depth, RequestId},
};

use super::{Entry, Place, Request, World, number};
use crate::scenario::counts;

impl World {
    pub(super) fn ask(&mut self, expected: Request, command: impl FnOnce(RequestId) -> Command) {
        self.last_request += 1;
        let request = self.last_request;
        let is_at_once = matches!(expected, Request::AtOnce(_));
        self.requests.insert(request, expected);
        self.apply(command(RequestId(request)));
        if is_at_once {
            assert!(
                !self.requests.contains_key(&request),
                "not answered: {self:#?}"
            );
        }
    }

    pub(super) fn apply(&mut self, command: Command) {
        self.now += 1;
        let now = Timestamp::new(self.now);
        self.queue.apply(now, command.clone(), &mut self.effects);
        self.twin.apply(now, command, &mut self.twin_effects);
        self.take_effects();
        self.expect_model();
    }

    pub(super) fn expect_model(&self) {
        let depth = Depth {
            ready: self.ready(),
            unacked: self.messages.len() as u64 - self.ready(),
        };
        assert_eq!(self.queue.depth(), depth, "{self:#?}");
        assert_eq!(
            self.queue.consumer_count(),
            self.consumers.len(),
            "{self:#?}"
        );
        assert_eq!(self.queue.check(), Ok(()), "{self:#?}");
    }

    pub(super) fn expect_unused(&mut self, expected: bool) {
        assert_eq!(std::mem::take(&mut self.unused), expected, "{self:#?}");
    }

    pub(super) fn compare_effects(&self) {
        assert_eq!(
            format!("{:?}", self.effects),
            format!("{:?}", self.twin_effects)
        );
    }

    pub(super) fn take_effects(&mut self) {
        self.compare_effects();
        for effects in [&mut self.twin_effects, &mut self.effects] {
            self.cancelled = std::mem::take(&mut effects.cancelled);
            self.unused = std::mem::take(&mut effects.unused);
            effects.remains = None;
            assert_eq!(effects.missing, 0);
            // Whoever counts takes them after every batch.
            effects.deaths = Deaths::default();
        }
        self.twin_effects.answers.clear();
        self.twin_effects.deliveries.clear();
        for (RequestId(request), answer) in std::mem::take(&mut self.effects.answers) {
            self.take_answer(request, answer);
        }
        for delivery in std::mem::take(&mut self.effects.deliveries) {
            let consumer = delivery.consumer;
            let model = self.consumers.get(&consumer);
            let ConsumerSettings {
                priority, no_ack, ..
            } = model.expect("it is a consumer").settings;
            assert!(
                self.has_credit(consumer),
                "{consumer:?} has no credit: {self:#?}"
            );
            assert_eq!(Some(priority), self.best_priority(), "{self:#?}");
            let place = Place::HeldBy(consumer);
            let place = (!no_ack).then_some(place);
            let held = (delivery.seq, delivery.handout);
            self.hand_out(&delivery.message, held, delivery.redelivered, place);
        }
    }

    pub(super) fn take_answer(&mut self, request: u64, answer: Answer) {
        let Some(expected) = self.requests.remove(&request) else {
            panic!("{request} is not waiting for {answer:?}: {self:#?}");
        };
        let (channel, no_ack) = match expected {
            Request::AtOnce(expected) => return assert_eq!(answer, expected, "{self:#?}"),
            Request::Get { channel, no_ack } => (channel, no_ack),
        };
        let is_first = self
            .requests
            .keys()
            .next()
            .is_none_or(|other| *other > request);
        assert!(is_first, "an earlier get still waits: {self:#?}");
        match answer {
            Answer::Got(Some(got)) => {
                let place = (!no_ack).then_some(Place::GotBy(channel));
                let held = (got.seq, got.handout);
                self.hand_out(&got.message, held, got.redelivered, place);
                assert_eq!(got.remaining, self.ready(), "{self:#?}");
            }
            Answer::Got(None) => assert_eq!(self.ready(), 0, "{self:#?}"),
            other => panic!("a get is answered by {other:?}"),
        }
    }

    /// The first ready message goes to somebody, and stays with it in `place` or is gone.
    pub(super) fn hand_out(
        &mut self,
        message: &Message,
        held: (Seq, Handout),
        redelivered: bool,
        place: Option<Place>,
    ) {
        let first = self
            .messages
            .iter()
            .position(|entry| entry.place == Place::Ready);
        let Some(first) = first else {
            panic!("nothing is ready: {self:#?}");
        };
        assert_eq!(number(message), self.messages[first].number, "{self:#?}");
        // After a restart of a queue with priorities it may be flagged because a later one was handed out
        // before it.
        let is_alarm = self.settings.max_priority > 0 && self.has_restarted && redelivered;
        let is_flagged = self.messages[first].is_flagged;
        assert!(redelivered == is_flagged || is_alarm, "{self:#?}");
        let attempts = self.messages[first].attempts;
        let counting = self.settings.attempt_counting;
        let counted = counting.map_or(0, |counting| counting.counted(attempts));
        let shown = |count: u32| (count > 0).then_some(i64::from(count));
        assert_eq!(
            counts(message),
            (shown(attempts.all), shown(counted)),
            "{self:#?}"
        );
        let is_lie = !redelivered && self.seen.contains(&number(message));
        assert!(!is_lie, "it was handed out before: {self:#?}");
        self.seen.insert(number(message));
        match place {
            Some(place) => {
                self.messages[first].place = place;
                self.messages[first].held = Some(held);
            }
            None => {
                self.messages.remove(first);
            }
        }
    }

    pub(super) fn ready(&self) -> u64 {
        let ready = self
            .messages
            .iter()
            .filter(|entry| entry.place == Place::Ready);
        ready.count() as u64
    }

    pub(super) fn has_credit(&self, id: ConsumerId) -> bool {
        let held = |entry: &&Entry| entry.place == Place::HeldBy(id);
        self.consumers.get(&id).is_some_and(|consumer| {
            let ConsumerSettings {
                prefetch, no_ack, ..
            } = consumer.settings;
            let held = self.messages.iter().filter(held).count();
            !consumer.is_paused
                && !consumer.waits_for_room
                && (no_ack || prefetch == 0 || held < usize::from(prefetch))
        })
    }

    /// Whether the consumers of the channel may be handed one message more.
    pub(super) fn has_room(&self, channel: ChannelKey) -> bool {
        let held = self.messages.iter().filter(|entry| match entry.place {
            Place::HeldBy(consumer) => consumer.channel == channel,
            Place::Ready | Place::GotBy(_) => false,
        });
        let held = held.count() as u64;
        self.rooms[&channel].is_none_or(|max| held < max)
    }

    pub(super) fn best_priority(&self) -> Option<i64> {
        let with_credit = self
            .consumers
            .iter()
            .filter(|(id, _)| self.has_credit(**id));
        with_credit
            .map(|(_, consumer)| consumer.settings.priority)
            .max()
    }

    pub(super) fn is_reading(&self) -> bool {
        let is_asked = self.batches.iter().any(|batch| batch.refill.is_some());
        is_asked || self.refill.is_some() || self.read.is_some()
    }
}
