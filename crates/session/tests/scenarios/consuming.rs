//! `basic.qos`, `consume` and `cancel`.

use leveret_core::{ids::ConsumerId, refusal::Refusal};
use leveret_session::{Answer, Call, Cancel, Consume};
use leveret_wire::{
    method::basic,
    value::{FieldTable, FieldValue},
};

use crate::support::{Event, MISSING, Scenario, key, queue_id, short};

fn consume(queue: &str, tag: &str) -> basic::Consume {
    basic::Consume {
        queue: short(queue),
        consumer_tag: short(tag),
        ..basic::Consume::default()
    }
}

fn qos(prefetch_size: u32, prefetch_count: u16, global: bool) -> basic::Qos {
    basic::Qos {
        prefetch_size,
        prefetch_count,
        global,
    }
}

fn ack(tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag: tag.into(),
        multiple,
    }
}

fn consumer(number: u32) -> ConsumerId {
    ConsumerId {
        channel: key(1, 1),
        number,
    }
}

#[test]
fn a_consume_reaches_the_broker_whole() {
    let mut scenario = Scenario::with_channel();
    let arguments = FieldTable::new().with("x-priority", FieldValue::Int(5));
    let method = basic::Consume {
        exclusive: true,
        no_local: true,
        arguments: arguments.clone(),
        ..consume("q", "t")
    };
    scenario.send(1, qos(0, 10, false));
    scenario.send(1, method);
    let expected = Consume {
        consumer: consumer(1),
        queue: short("q"),
        tag: short("t"),
        no_ack: false,
        exclusive: true,
        prefetch: 10,
        shared_else: None,
        arguments,
    };
    assert_eq!(scenario.the_call(), Call::Consume(expected));
    scenario.expect(1, basic::QosOk {});
    scenario.expect(
        1,
        basic::ConsumeOk {
            consumer_tag: short("t"),
        },
    );
}

/// The prefetch that a new consumer gets, and the one it gets where the queue has no part in a shared one.
fn prefetch_of(scenario: &mut Scenario, tag: &str) -> (u16, Option<u16>) {
    scenario.send(1, consume("q", tag));
    let Call::Consume(consume) = scenario.the_call() else {
        panic!("no consume")
    };
    (consume.prefetch, consume.shared_else)
}

#[test]
fn prefetch_counts_for_consumers_that_come_later() {
    let mut scenario = Scenario::with_channel();
    assert_eq!(prefetch_of(&mut scenario, "a"), (0, None));
    scenario.send(1, qos(0, 5, false));
    assert_eq!(prefetch_of(&mut scenario, "b"), (5, None));
    assert_eq!(prefetch_of(&mut scenario, "c"), (5, None));
    scenario.send(1, qos(0, 0, false));
    assert_eq!(prefetch_of(&mut scenario, "d"), (0, None));
}

#[test]
fn a_shared_prefetch_leaves_that_of_each_consumer_but_where_it_cannot_be_shared() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, qos(0, 5, false));
    scenario.send(1, qos(0, 7, true));
    scenario.events();
    assert_eq!(prefetch_of(&mut scenario, "a"), (5, Some(7)));
    scenario.send(1, qos(0, 3, false));
    scenario.events();
    assert_eq!(prefetch_of(&mut scenario, "b"), (3, Some(3)));
}

/// What was asked about the shared prefetch: bound, deliveries, number of queues.
fn asked_to_share(scenario: &mut Scenario) -> (Option<u16>, u64, usize) {
    let Call::SharePrefetch(asked) = scenario.the_call() else {
        panic!("nothing is shared")
    };
    assert_eq!(asked.channel, key(1, 1));
    (asked.max, asked.held, asked.queues.len())
}

#[test]
fn a_shared_prefetch_counts_what_is_out() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    for seq in 1..=4 {
        scenario.deliver(consumer, "q", seq, b"x");
    }
    scenario.send(1, ack(2, false));
    scenario.forget();
    scenario.send(1, qos(0, 7, true));
    // What was not read yet when it was asked is counted by the outgoing side.
    assert_eq!(asked_to_share(&mut scenario), (Some(7), 3, 1));
    scenario.expect(1, basic::QosOk {});
    scenario.send(1, qos(0, 0, true));
    assert_eq!(asked_to_share(&mut scenario), (None, 3, 1));
    scenario.expect(1, basic::QosOk {});
    scenario.send(1, qos(0, 0, true));
    scenario.expect(1, basic::QosOk {});
    assert_eq!(scenario.events(), []);
}

#[test]
fn where_a_prefetch_is_never_shared_it_is_one_of_each_consumer() {
    let settings = leveret_session::Settings {
        has_own_prefetch_only: true,
        ..leveret_session::Settings::default()
    };
    let mut scenario = Scenario::open_with(settings, crate::support::tune_ok(9, 8192, 0));
    scenario.open_channel(1);
    scenario.forget();
    scenario.send(1, qos(0, 7, true));
    scenario.expect(1, basic::QosOk {});
    assert_eq!(scenario.events(), []);
    assert_eq!(prefetch_of(&mut scenario, "a"), (7, None));
}

#[test]
fn a_prefetch_for_each_ends_a_shared_one() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, qos(0, 7, true));
    assert_eq!(asked_to_share(&mut scenario), (Some(7), 0, 0));
    scenario.send(1, qos(0, 5, false));
    assert_eq!(asked_to_share(&mut scenario), (None, 0, 0));
}

#[test]
fn settled_deliveries_give_back_the_room_they_took() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    for seq in 1..=4 {
        scenario.deliver(consumer, "q", seq, b"x");
    }
    let rooms = |scenario: &mut Scenario| -> Vec<u64> {
        let events = scenario.events().into_iter();
        let rooms = events.filter_map(|event| match event {
            Event::Room(channel, count) => {
                assert_eq!(channel, key(1, 1));
                Some(count)
            }
            _ => None,
        });
        rooms.collect()
    };
    scenario.send(1, ack(1, false));
    assert_eq!(rooms(&mut scenario), [], "nothing is shared yet");
    scenario.send(1, qos(0, 7, true));
    scenario.send(1, ack(3, true));
    assert_eq!(rooms(&mut scenario), [2]);
    scenario.send(1, ack(0, true));
    assert_eq!(rooms(&mut scenario), [1]);
    scenario.send(1, ack(0, true));
    assert_eq!(rooms(&mut scenario), []);
    scenario.deliver(consumer, "q", 9, b"x");
    scenario.send(1, basic::Recover { requeue: true });
    assert_eq!(rooms(&mut scenario), [1]);
}

#[test]
fn a_transaction_gives_back_room_with_its_commit() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    scenario.send(1, leveret_wire::method::tx::Select {});
    for seq in 1..=2 {
        scenario.deliver(consumer, "q", seq, b"x");
    }
    scenario.send(1, ack(1, false));
    scenario.events();
    scenario.send(1, qos(0, 7, true));
    assert_eq!(asked_to_share(&mut scenario), (Some(7), 2, 1));
    scenario.send(1, ack(2, false));
    assert_eq!(scenario.events(), []);
    scenario.send(1, leveret_wire::method::tx::Commit {});
    let events = scenario.events();
    let room = Event::Room(key(1, 1), 2);
    assert!(matches!(events[0], Event::Commit(_)), "{events:?}");
    assert_eq!(events[1], room);
}

#[test]
fn a_prefetch_in_bytes_is_not_implemented() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, qos(4_294_967_295, 1, false));
    let text = "NOT_IMPLEMENTED - prefetch_size!=0 (4294967295)";
    scenario.expect_connection_close(540, text, (60, 10));
}

#[test]
fn an_empty_tag_is_invented_and_told_if_anybody_waits() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, consume("q", ""));
    let tag = short("amq.ctag-0000000000000000000001");
    scenario.expect(1, basic::ConsumeOk { consumer_tag: tag });
    scenario.send(
        1,
        basic::Consume {
            nowait: true,
            ..consume("q", "")
        },
    );
    scenario.expect_nothing();
    assert!(scenario.deliver(consumer(2), "q", 1, b"x"));
    let (_, delivery) = scenario.next_method();
    let leveret_wire::Method::Basic(basic::Basic::Deliver(deliver)) = delivery else {
        panic!("no delivery");
    };
    assert_eq!(
        deliver.consumer_tag,
        short("amq.ctag-0000000000000000000002")
    );
}

#[test]
fn a_tag_names_one_consumer_of_a_channel() {
    let mut scenario = Scenario::with_channels(2);
    scenario.consume(1, "q", "t", false);
    scenario.consume(2, "q", "t", false);
    scenario.send(1, consume(MISSING, "t"));
    let text = "NOT_ALLOWED - attempt to reuse consumer tag 't'";
    scenario.expect_connection_close(530, text, (60, 20));
}

#[test]
fn what_an_empty_name_stands_for_is_asked_before_the_tag() {
    let mut scenario = Scenario::with_channel();
    scenario.consume(1, "q", "t", false);
    scenario.send(1, consume("", "t"));
    let text = "NOT_FOUND - no previously declared queue";
    scenario.expect_channel_close(1, 404, text, (60, 20));
}

#[test]
fn a_tag_is_free_after_a_cancel_or_a_refusal() {
    let mut scenario = Scenario::with_channel();
    let first = scenario.consume(1, "q", "t", false);
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("t"),
            nowait: false,
        },
    );
    scenario.expect(
        1,
        basic::CancelOk {
            consumer_tag: short("t"),
        },
    );
    let second = scenario.consume(1, "q", "t", false);
    assert_eq!((first, second), (consumer(1), consumer(2)));
}

#[test]
fn refusals_close_the_channel_with_the_ids_of_consume() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, consume(MISSING, "t"));
    let text = "NOT_FOUND - no queue 'missing' in vhost '/'";
    scenario.expect_channel_close(1, 404, text, (60, 20));
    scenario.open_channel(1);
    let refusal = Refusal::ExclusiveUse {
        name: short("q"),
        vhost: short("/"),
    };
    scenario.answer_next(Answer::Refused(refusal));
    scenario.send(1, consume("q", "t"));
    let text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use";
    scenario.expect_channel_close(1, 403, text, (60, 20));
}

#[test]
fn a_refusal_of_a_hard_code_closes_the_connection() {
    let mut scenario = Scenario::with_channel();
    let refusal = Refusal::NotImplemented {
        what: "not for this queue".to_owned(),
    };
    scenario.answer_next(Answer::Refused(refusal));
    scenario.send(1, consume("q", "t"));
    scenario.expect_connection_close(540, "NOT_IMPLEMENTED - not for this queue", (60, 20));
}

#[test]
fn a_cancel_names_consumer_and_queue_and_nowait_keeps_quiet() {
    let mut scenario = Scenario::with_channel();
    for nowait in [false, true] {
        let consumer = scenario.consume(1, "q", "t", false);
        scenario.forget();
        scenario.send(
            1,
            basic::Cancel {
                consumer_tag: short("t"),
                nowait,
            },
        );
        let cancel = Cancel {
            consumer,
            queue: queue_id("q"),
        };
        assert_eq!(scenario.the_call(), Call::Cancel(cancel));
        if !nowait {
            scenario.expect(
                1,
                basic::CancelOk {
                    consumer_tag: short("t"),
                },
            );
        }
        scenario.expect_nothing();
    }
}

#[test]
fn a_cancel_of_nobody_is_answered_at_once() {
    let mut scenario = Scenario::with_channels(2);
    scenario.consume(2, "q", "t", false);
    scenario.forget();
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("t"),
            nowait: false,
        },
    );
    scenario.expect(
        1,
        basic::CancelOk {
            consumer_tag: short("t"),
        },
    );
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("t"),
            nowait: true,
        },
    );
    scenario.expect_nothing();
    assert_eq!(scenario.events(), []);
}

#[test]
fn deliveries_before_the_cancel_can_still_be_acked() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "t", false);
    scenario.deliver(consumer, "q", 31, b"x");
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("t"),
            nowait: true,
        },
    );
    scenario.events();
    scenario.send(
        1,
        basic::Ack {
            delivery_tag: 1.into(),
            multiple: false,
        },
    );
    scenario.expect_settled(1, &[31], leveret_core::queue::Outcome::Acked);
}

#[test]
fn a_channel_end_names_each_queue_once() {
    let mut scenario = Scenario::with_channel();
    let first = scenario.consume(1, "q", "a", false);
    let second = scenario.consume(1, "r", "b", false);
    scenario.consume(1, "q", "c", false);
    for seq in 0..100 {
        scenario.deliver(first, "q", seq, b"x");
        scenario.deliver(second, "r", seq, b"x");
    }
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("b"),
            nowait: true,
        },
    );
    scenario.forget();
    scenario.send(1, leveret_wire::channel::Close::default());
    let Some(Event::Call(Call::CloseChannel(end))) = scenario.events().pop() else {
        panic!("no close");
    };
    assert_eq!(end.queues, [queue_id("q"), queue_id("r")]);
}
