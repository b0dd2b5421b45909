//! Messages are handed out in portions, so that a reader that falls behind is noticed in between.

use bytes::Bytes;
use leveret_core::{
    ids::{ConsumerId, Timestamp},
    queue::{Command, Effects, HAND_OUT_BYTES_MAX, Queue, RequestId},
};

use crate::scenario::{QUEUE, channel, label, message, prefetch};

const CONSUMER: ConsumerId = ConsumerId {
    channel: channel(1),
    number: 1,
};

/// A queue with a consumer and messages of 100 KiB, nothing handed out yet.
fn loaded(messages: u32) -> Queue {
    let mut queue = Queue::new(QUEUE, false);
    let mut commands = vec![
        Command::Subscribe {
            request: RequestId(1),
            consumer: CONSUMER,
            settings: prefetch(0),
        },
        Command::Resume { consumer: CONSUMER },
    ];
    commands.extend((0..messages).map(|number| Command::Enqueue {
        message: message(&number.to_string(), Bytes::from(vec![0; 100 * 1024]), false),
        confirm: None,
    }));
    let mut effects = Effects::default();
    for command in commands {
        queue.apply(Timestamp::new(1), command, &mut effects);
    }
    assert!(effects.deliveries.is_empty(), "commands hand nothing out");
    queue
}

fn hand_out(queue: &mut Queue) -> (Vec<String>, bool) {
    let mut effects = Effects::default();
    let has_more = queue.hand_out(&mut effects);
    let labels = effects.deliveries.iter();
    let labels = labels.map(|delivery| label(&delivery.message)).collect();
    assert_eq!(queue.check(), Ok(()));
    (labels, has_more)
}

#[test]
fn a_portion_ends_with_the_message_that_fills_it() {
    let per_portion = HAND_OUT_BYTES_MAX.div_ceil(100 * 1024);
    assert_eq!(per_portion, 3);
    let mut queue = loaded(7);
    assert_eq!(
        hand_out(&mut queue),
        (vec!["0".into(), "1".into(), "2".into()], true)
    );
    assert_eq!(
        hand_out(&mut queue),
        (vec!["3".into(), "4".into(), "5".into()], true)
    );
    assert_eq!(hand_out(&mut queue), (vec!["6".into()], false));
    assert_eq!(hand_out(&mut queue), (vec![], false));
}

#[test]
fn an_exactly_emptied_queue_has_no_more() {
    let mut queue = loaded(3);
    assert_eq!(
        hand_out(&mut queue),
        (vec!["0".into(), "1".into(), "2".into()], false)
    );
}

#[test]
fn a_consumer_paused_between_two_portions_gets_no_second_one() {
    let mut queue = loaded(7);
    assert!(hand_out(&mut queue).1);
    let pause = Command::Pause { consumer: CONSUMER };
    queue.apply(Timestamp::new(2), pause, &mut Effects::default());
    assert_eq!(hand_out(&mut queue), (vec![], false));
    assert_eq!((queue.depth().ready, queue.depth().unacked), (4, 3));
}
