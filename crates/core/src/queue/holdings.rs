//! Which channel holds what, known while channels end one after the other.
//!
//! A channel that ends looks at every unacked message, since an index would cost each delivery more than that saves. But where
//! thousands of channels hold something and all of them end, each would look at what the others hold. So a look that finds
//! little among much writes down what it sees of all channels, and those that end soon after it look there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Holder, Queue};
use crate::ids::{ChannelKey, Channels, Handout, Seq, Timestamp};

/// Unacked messages among which a look is not worth writing down.
const WORTH_IT_MIN: usize = 4096;
/// What is written down goes so long after the last channel that ended.
const KEPT_MILLIS: u64 = 1000;

/// What channels held at one moment, and were handed since.
#[derive(Debug)]
pub(super) struct Holdings {
    by_channel: BTreeMap<ChannelKey, Vec<(Seq, Handout)>>,
    /// How much there may be in it: as much again as at first.
    room: usize,
    until: Timestamp,
}

impl Queue {
    /// What these channels hold, by position; it is about to come back.
    pub(super) fn held_by(&mut self, channels: Channels) -> Vec<(Seq, Holder)> {
        if let Some(holdings) = &mut self.holdings {
            holdings.until = self.now.plus_millis(KEPT_MILLIS);
            let of_channels = holdings.by_channel.extract_if(channels.keys(), |_, _| true);
            let known = of_channels.flat_map(|(_, known)| known);
            let held = known.filter_map(|(seq, handout)| {
                count_steps(1);
                let holder = self.unacked.get(seq)?.holder;
                (holder.handout == handout).then_some((seq, holder))
            });
            let mut held: Vec<(Seq, Holder)> = held.collect();
            held.sort_unstable_by_key(|(seq, _)| *seq);
            return held;
        }
        count_steps(self.unacked.len());
        let unacked = self.unacked.iter();
        let unacked = unacked.map(|(seq, unacked)| (seq, unacked.holder));
        let held = unacked.filter(|(_, holder)| channels.has(holder.channel));
        let held: Vec<(Seq, Holder)> = held.collect();
        if self.unacked.len() > WORTH_IT_MIN && held.len() < self.unacked.len() / 8 {
            self.write_down(channels);
        }
        held
    }

    /// What all others hold.
    fn write_down(&mut self, but: Channels) {
        count_steps(self.unacked.len());
        let mut by_channel: BTreeMap<ChannelKey, Vec<(Seq, Handout)>> = BTreeMap::new();
        for (seq, unacked) in self.unacked.iter() {
            let Holder {
                channel, handout, ..
            } = unacked.holder;
            if !but.has(channel) {
                by_channel.entry(channel).or_default().push((seq, handout));
            }
        }
        self.holdings = Some(Box::new(Holdings {
            by_channel,
            room: self.unacked.len(),
            until: self.now.plus_millis(KEPT_MILLIS),
        }));
    }

    /// A message was handed to a channel while holdings are written down.
    #[cold]
    pub(super) fn note_held(&mut self, channel: ChannelKey, seq: Seq, handout: Handout) {
        let Some(holdings) = &mut self.holdings else {
            return;
        };
        if holdings.room == 0 {
            self.holdings = None;
            return;
        }
        holdings.room -= 1;
        let of_channel = holdings.by_channel.entry(channel).or_default();
        of_channel.push((seq, handout));
    }

    /// When what is written down is to go.
    pub(super) fn holdings_end(&self) -> Option<Timestamp> {
        self.holdings.as_ref().map(|holdings| holdings.until)
    }

    pub(super) fn end_holdings(&mut self) {
        if self.holdings_end().is_some_and(|until| until <= self.now) {
            self.holdings = None;
        }
    }

    /// Everything that is unacked is written down, if anything is.
    pub(super) fn check_holdings(&self) -> Result<(), String> {
        let Some(holdings) = &self.holdings else {
            return Ok(());
        };
        let mut known: BTreeMap<(ChannelKey, Seq), Handout> = BTreeMap::new();
        for (&channel, held) in &holdings.by_channel {
            known.extend(held.iter().map(|&(seq, handout)| ((channel, seq), handout)));
        }
        let returning = self.returning.iter();
        let returning: BTreeSet<Seq> = returning.flat_map(|each| each.seqs()).collect();
        let is_known = |seq: Seq, holder: &Holder| {
            known.get(&(holder.channel, seq)) == Some(&holder.handout) || returning.contains(&seq)
        };
        let mut unacked = self.unacked.iter();
        match unacked.find(|(seq, held)| !is_known(*seq, &held.holder)) {
            Some((seq, held)) => Err(format!("nobody wrote down {seq}: {:?}", held.holder)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
fn count_steps(steps: usize) {
    tests::STEPS.set(tests::STEPS.get() + steps);
}

#[cfg(not(test))]
const fn count_steps(_: usize) {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{
        super::{Command, ConsumerSettings, Effects, RequestId},
        *,
    };
    use crate::{
        ids::{ConnectionId, ConsumerId, QueueId},
        message::{Message, MessageParts},
    };

    thread_local! {
        /// Unacked messages that were looked at.
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    const CHANNELS: u16 = 5000;
    const EACH: u16 = 2;

    fn channel(number: u16) -> ChannelKey {
        ChannelKey {
            connection: ConnectionId::new(number.into()),
            channel: 1,
            opening: 1,
        }
    }

    /// A queue of which each of many channels holds some messages.
    fn queue() -> (Queue, Effects) {
        let mut queue = Queue::new(QueueId::new(1), false);
        let mut effects = Effects::default();
        let now = Timestamp::new(1);
        for number in 0..CHANNELS {
            let consumer = ConsumerId {
                channel: channel(number),
                number: 1,
            };
            let settings = ConsumerSettings {
                prefetch: EACH,
                ..ConsumerSettings::default()
            };
            let subscribe = Command::Subscribe {
                request: RequestId(1),
                consumer,
                settings,
            };
            queue.apply(now, subscribe, &mut effects);
            queue.apply(now, Command::Resume { consumer }, &mut effects);
        }
        let message = Message::new(MessageParts {
            exchange: b"",
            routing_key: b"",
            properties: &[0, 0],
            body: bytes::Bytes::new(),
            persistent: false,
            priority: None,
        });
        for _ in 0..u64::from(CHANNELS) * u64::from(EACH) {
            let enqueue = Command::Enqueue {
                message: message.clone(),
                confirm: None,
            };
            queue.apply(now, enqueue, &mut effects);
        }
        while queue.hand_out(&mut effects) {}
        (queue, effects)
    }

    #[test]
    fn channels_that_end_one_by_one_look_at_what_they_hold() {
        let (mut queue, mut effects) = queue();
        let total = usize::from(CHANNELS) * usize::from(EACH);
        assert_eq!(queue.unacked.len(), total);
        let before = STEPS.get();
        for number in 0..CHANNELS {
            let release = Command::Release {
                channel: channel(number),
                ended: true,
            };
            queue.apply(Timestamp::new(2), release, &mut effects);
            let left = usize::from(CHANNELS - number - 1) * usize::from(EACH);
            assert_eq!(queue.unacked.len(), left);
        }
        let steps = STEPS.get() - before;
        assert!(steps <= 4 * total, "{steps} steps for {total} messages");
    }

    #[test]
    fn what_is_known_of_channels_goes_when_none_ends_any_more() {
        let (mut queue, mut effects) = queue();
        let release = Command::Release {
            channel: channel(1),
            ended: true,
        };
        queue.apply(Timestamp::new(2), release, &mut effects);
        assert!(queue.holdings.is_some());
        let end = queue.next_due().expect("it has to go");
        queue.apply(end, Command::Tick, &mut effects);
        assert!(queue.holdings.is_none());
        assert_eq!(queue.next_due(), None);
    }
}
