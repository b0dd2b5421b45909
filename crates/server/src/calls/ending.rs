//! What is left behind when a channel or the connection ends.

use std::{collections::BTreeSet, ops::RangeInclusive};

use leveret_core::{
    ids::{ChannelKey, ConsumerId, QueueId},
    queue::Command,
};
use leveret_session::ChannelEnd;
use tracing::{info, warn};

use super::Calls;

impl Calls {
    /// The connection is over: channels are released, exclusive queues go.
    pub(crate) fn end(&mut self, channels: &[ChannelEnd]) {
        for end in channels {
            self.forget_channel(end.channel);
        }
        // Queue by queue, and not channel by channel: those that still stand would get what the first ones held.
        let queues: BTreeSet<QueueId> = channels
            .iter()
            .flat_map(|end| end.queues.iter().copied())
            .chain(self.asked.take())
            .collect();
        for queue in queues.into_iter().filter_map(|id| self.broker.queue(id)) {
            queue.submit(&mut vec![Command::Disconnect {
                connection: self.id,
            }]);
        }
        for end in channels {
            self.forget_consumers_of(end.channel);
            if let Some(facts) = &self.facts {
                self.broker.end_channel(facts, end.channel.channel);
            }
        }
        if let Some(vhost) = &self.vhost {
            vhost.connection_gone(self.id);
        }
        if let Some(facts) = &self.facts {
            self.broker.close_connection(facts);
        }
    }

    pub(super) fn release(&mut self, end: &ChannelEnd) {
        let ChannelEnd { channel, queues } = end;
        self.forget_channel(*channel);
        for queue in queues.iter().filter_map(|&id| self.broker.queue(id)) {
            queue.submit(&mut vec![Command::Release {
                channel: *channel,
                ended: true,
            }]);
        }
        self.forget_consumers_of(*channel);
    }

    /// What is known here of a channel that ends.
    fn forget_channel(&mut self, channel: ChannelKey) {
        self.tell_consumers_gone(channel.consumers());
        self.reply_addresses.remove(&channel);
        let arguments = &mut self.consumer_arguments;
        arguments
            .extract_if(channel.consumers(), |_, _| true)
            .for_each(drop);
    }

    fn forget_consumers_of(&self, channel: ChannelKey) {
        self.outbox.remove_consumers(channel.consumers());
    }

    pub(super) fn tell_consumers_gone(&mut self, gone: RangeInclusive<ConsumerId>) {
        let Some(vhost) = &self.vhost else {
            return;
        };
        let gone = self.told_consumers.extract_if(gone, |_, _| true);
        for (id, (tag, queue)) in gone {
            self.broker
                .tell_consumer_gone(id.channel, &tag, &queue, vhost.name());
        }
    }

    /// Says that the connection ends, if it was open: in order, or because of what went wrong.
    pub(crate) fn log_end(&self, wrong: Option<&str>) {
        let Some(facts) = &self.facts else {
            return;
        };
        let millis = self
            .broker
            .now()
            .get()
            .saturating_sub(facts.connected_at.get());
        let what = format!(
            "closing AMQP connection ({}, vhost: '{}', user: '{}', duration: '{}')",
            self.called_so(facts),
            facts.vhost,
            facts.user,
            duration(millis)
        );
        match wrong {
            None => info!("{what}"),
            Some(wrong) => warn!("{what}: {wrong}"),
        }
    }
}

/// A time as RabbitMQ's lines have it: `350ms`, `10s`, `2M, 5s`, `1H, 2M`, `3D, 4H`.
fn duration(millis: u64) -> String {
    let secs = millis / 1000;
    let (minutes, hours, days) = (secs / 60, secs / 3600, secs / 86_400);
    let two = |one: u64, unit: &str, rest: u64, of_rest: &str| match rest {
        0 => format!("{one}{unit}"),
        _ => format!("{one}{unit}, {rest}{of_rest}"),
    };
    match () {
        () if days > 0 => two(days, "D", hours % 24, "H"),
        () if hours > 0 => two(hours, "H", minutes % 60, "M"),
        () if minutes > 0 => two(minutes, "M", secs % 60, "s"),
        () if secs > 0 => format!("{secs}s"),
        () => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn a_time_is_told_in_its_two_largest_units() {
        for (millis, expected) in [
            (0, "0ms"),
            (350, "350ms"),
            (10_999, "10s"),
            (60_000, "1M"),
            (125_000, "2M, 5s"),
            (3_720_000, "1H, 2M"),
            (273_600_000, "3D, 4H"),
        ] {
            assert_eq!(duration(millis), expected);
        }
    }
}
