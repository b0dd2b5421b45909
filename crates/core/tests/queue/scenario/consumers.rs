//! What consumers and their channels do to a queue.

use leveret_core::{
    ids::ConsumerId,
    queue::{Answer, Command, ConsumerSettings, Outcome},
};

use super::QueueScenario;

impl QueueScenario {
    /// A new consumer on a channel of its own that takes messages from now on.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, settings: ConsumerSettings) -> ConsumerId {
        let consumer = self.subscribe_paused(settings);
        self.resume(consumer);
        consumer
    }

    /// A second consumer on the channel of another one.
    #[track_caller]
    pub(crate) fn subscribe_beside(
        &mut self,
        other: ConsumerId,
        settings: ConsumerSettings,
    ) -> ConsumerId {
        let consumer = ConsumerId {
            number: other.number + 1,
            ..other
        };
        let answer = self.ask_subscribe(consumer, settings);
        self.expect_equal("answer to subscribe", &answer, &Answer::Subscribed);
        self.resume(consumer);
        consumer
    }

    /// A new consumer that waits for its first [`Self::resume`].
    #[track_caller]
    pub(crate) fn subscribe_paused(&mut self, settings: ConsumerSettings) -> ConsumerId {
        let consumer = self.new_consumer();
        let answer = self.ask_subscribe(consumer, settings);
        self.expect_equal("answer to subscribe", &answer, &Answer::Subscribed);
        consumer
    }

    /// What a new consumer is answered.
    #[track_caller]
    pub(crate) fn try_subscribe(&mut self, settings: ConsumerSettings) -> Answer {
        let consumer = self.new_consumer();
        self.ask_subscribe(consumer, settings)
    }

    #[track_caller]
    pub(crate) fn ask_subscribe(
        &mut self,
        consumer: ConsumerId,
        settings: ConsumerSettings,
    ) -> Answer {
        self.announce_consumers();
        let request = self.new_request();
        self.together(vec![Command::Subscribe {
            request,
            consumer,
            settings,
        }]);
        self.take_answer(request)
    }

    #[track_caller]
    pub(crate) fn resume(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Resume { consumer }]);
    }

    #[track_caller]
    pub(crate) fn pause(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Pause { consumer }]);
    }

    /// The consumers of this one's channel share a bound, and have room for so many messages now.
    #[track_caller]
    pub(crate) fn share(&mut self, of: ConsumerId, room: u64) {
        let channel = of.channel;
        self.rooms.insert(channel, room);
        self.together(vec![Command::Share { channel }]);
    }

    /// There is room for so many messages in this consumer's channel, and the queue is told.
    #[track_caller]
    pub(crate) fn make_room(&mut self, consumer: ConsumerId, room: u64) {
        self.rooms.insert(consumer.channel, room);
        let channel = consumer.channel;
        self.together(vec![Command::AskAgain { channel }]);
    }

    #[track_caller]
    pub(crate) fn unsubscribe(&mut self, consumer: ConsumerId) {
        self.together(vec![Command::Unsubscribe { consumer }]);
    }

    #[track_caller]
    pub(crate) fn ack(&mut self, label: &str) {
        self.settle(label, Outcome::Acked);
    }

    /// Ends the delivery of this label in the given way.
    #[track_caller]
    pub(crate) fn settle(&mut self, label: &str, outcome: Outcome) {
        let command = self.settling(label, outcome);
        self.together(vec![command]);
    }

    /// Ends the deliveries of these labels in one step.
    #[track_caller]
    pub(crate) fn settle_together(&mut self, labels: &[&str], outcome: Outcome) {
        let settles = labels.iter().enumerate().map(|(number, label)| {
            let mut command = self.settling(label, outcome);
            if let Command::Settle { more, .. } = &mut command {
                *more = number + 1 < labels.len();
            }
            command
        });
        let settles = settles.collect();
        self.together(settles);
    }

    /// Acks all that is unacked, in one batch.
    #[track_caller]
    pub(crate) fn ack_all(&mut self) {
        let held = std::mem::take(&mut self.unacked).into_values();
        let acks = held.map(|(seq, handout)| Command::Settle {
            seq,
            handout,
            outcome: Outcome::Acked,
            more: false,
        });
        self.together(acks.collect());
    }

    /// The command that ends the delivery of this label.
    #[track_caller]
    pub(crate) fn settling(&self, label: &str, outcome: Outcome) -> Command {
        let Some(&(seq, handout)) = self.unacked.get(label) else {
            panic!("{label} was never handed out: {self:#?}");
        };
        Command::Settle {
            seq,
            handout,
            outcome,
            more: false,
        }
    }

    /// The channel of this consumer is closed.
    #[track_caller]
    pub(crate) fn end_channel(&mut self, of: ConsumerId) {
        self.together(vec![Command::Release {
            channel: of.channel,
            ended: true,
        }]);
    }

    /// `basic.recover` on the channel of this consumer.
    #[track_caller]
    pub(crate) fn recover_channel(&mut self, of: ConsumerId) {
        self.together(vec![Command::Release {
            channel: of.channel,
            ended: false,
        }]);
    }
}
