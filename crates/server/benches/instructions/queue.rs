//! A queue alone: messages in, handed out, settled, in batches as a busy connection brings them.

use bytes::Bytes;
use gungraun::library_benchmark;
use leveret_core::{
    ids::{ChannelKey, ConnectionId, ConsumerId, QueueId, Timestamp},
    message::{Message, MessageParts},
    queue::{Command, ConsumerSettings, Effects, Outcome, Queue, RequestId},
};

use crate::MESSAGES;

const BATCH: u64 = 100;
const NOW: Timestamp = Timestamp::new(1_000);
const CONSUMER: ConsumerId = ConsumerId {
    channel: ChannelKey {
        connection: ConnectionId::new(1),
        channel: 1,
        opening: 1,
    },
    number: 1,
};

pub(crate) fn message(persistent: bool) -> Message {
    Message::new(MessageParts {
        exchange: b"",
        routing_key: b"work",
        properties: &[0, 0],
        body: Bytes::from_static(&[0x2A; 16]),
        persistent,
        priority: None,
    })
}

/// A queue, with a consumer if it has settings, and the messages that it is to get.
fn queue(consumer: Option<ConsumerSettings>) -> (Queue, Effects, Vec<Message>) {
    let (mut queue, mut effects) = (Queue::new(QueueId::new(1), false), Effects::default());
    if let Some(settings) = consumer {
        subscribe(&mut queue, settings, &mut effects);
    }
    let messages = (0..MESSAGES).map(|_| message(false)).collect();
    (queue, effects, messages)
}

fn subscribe(queue: &mut Queue, settings: ConsumerSettings, effects: &mut Effects) {
    for command in [
        Command::MarkConsumed,
        Command::Subscribe {
            request: RequestId(1),
            consumer: CONSUMER,
            settings,
        },
        Command::Resume { consumer: CONSUMER },
    ] {
        queue.apply(NOW, command, effects);
    }
    effects.answers.clear();
}

fn settings(prefetch: u16, no_ack: bool) -> ConsumerSettings {
    ConsumerSettings {
        prefetch,
        no_ack,
        exclusive: false,
        priority: 0,
        ack_timeout_millis: None,
        shared_else: None,
    }
}

fn enqueue(queue: &mut Queue, messages: impl Iterator<Item = Message>, effects: &mut Effects) {
    for message in messages {
        let confirm = None;
        queue.apply(NOW, Command::Enqueue { message, confirm }, effects);
    }
}

/// Hands out all that can be, and acks it when `acks`; gives how many it was.
fn hand_out(queue: &mut Queue, acks: bool, effects: &mut Effects) -> u64 {
    let mut handed_out = 0;
    loop {
        let more = queue.hand_out(effects);
        queue.seal(effects);
        let deliveries = std::mem::take(&mut effects.deliveries);
        handed_out += deliveries.len() as u64;
        if acks {
            for delivery in &deliveries {
                let settle = Command::Settle {
                    seq: delivery.seq,
                    handout: delivery.handout,
                    outcome: Outcome::Acked,
                    more: false,
                };
                queue.apply(NOW, settle, effects);
            }
        }
        let done = deliveries.is_empty() || !(more || acks);
        effects.deliveries = deliveries;
        effects.deliveries.clear();
        if done {
            return handed_out;
        }
    }
}

fn in_batches(
    (mut queue, mut effects, messages): (Queue, Effects, Vec<Message>),
    acks: bool,
) -> Queue {
    let mut handed_out = 0;
    let mut messages = messages.into_iter();
    while messages.len() > 0 {
        let batch = messages.by_ref().take(BATCH as usize);
        enqueue(&mut queue, batch, &mut effects);
        handed_out += hand_out(&mut queue, acks, &mut effects);
    }
    assert_eq!(handed_out, MESSAGES);
    queue
}

#[library_benchmark]
#[bench::transient(args = (Some(settings(0, true))), setup = queue)]
fn auto_acked(start: (Queue, Effects, Vec<Message>)) -> Queue {
    in_batches(start, false)
}

#[library_benchmark]
#[bench::transient(args = (Some(settings(100, false))), setup = queue)]
fn each_acked(start: (Queue, Effects, Vec<Message>)) -> Queue {
    in_batches(start, true)
}

#[library_benchmark]
#[bench::transient(args = (None), setup = queue)]
fn backlog_in_and_out((mut queue, mut effects, messages): (Queue, Effects, Vec<Message>)) {
    enqueue(&mut queue, messages.into_iter(), &mut effects);
    queue.seal(&mut effects);
    subscribe(&mut queue, settings(100, false), &mut effects);
    assert_eq!(hand_out(&mut queue, true, &mut effects), MESSAGES);
}
