//! Messages on their way to consumers: tags, contents, and who gets nothing any more.

use bytes::Bytes;
use leveret_core::{
    ids::ConsumerId,
    message::{Message, MessageParts, SHARED_BODY_MIN},
};
use leveret_session::{News, Outgoing, Settings};
use leveret_wire::{
    BasicProperties, RawProperties,
    ids::DeliveryTag,
    method::{Method, basic, channel},
};

use crate::support::{
    MISSING, Scenario, Seen, at, key, message, passive, publish_frames, queue_id, short, tune_ok,
};

fn deliver(consumer_tag: &str, tag: u64) -> basic::Deliver {
    basic::Deliver {
        consumer_tag: short(consumer_tag),
        delivery_tag: DeliveryTag::new(tag),
        redelivered: false,
        exchange: short("exchange"),
        routing_key: short("key"),
    }
}

#[test]
fn tags_count_all_deliveries_of_a_channel() {
    let mut scenario = Scenario::with_channels(2);
    let first = scenario.consume(1, "q", "a", false);
    let second = scenario.consume(1, "r", "b", true);
    let other = scenario.consume(2, "q", "a", false);
    for (consumer, queue, consumer_tag, channel, tag) in [
        (first, "q", "a", 1, 1),
        (second, "r", "b", 1, 2),
        (first, "q", "a", 1, 3),
        (other, "q", "a", 2, 1),
        (second, "r", "b", 1, 4),
    ] {
        assert!(scenario.deliver(consumer, queue, tag, b"body"));
        scenario.expect(channel, deliver(consumer_tag, tag));
        scenario.expect_body(channel, b"body");
    }
}

#[test]
fn a_message_goes_out_as_it_came() {
    let properties = BasicProperties {
        content_type: Some(short("text/plain")),
        delivery_mode: Some(2),
        ..BasicProperties::default()
    }
    .encode();
    let message = Message::new(MessageParts {
        exchange: b"x",
        routing_key: b"\xff\xfe",
        properties: properties.as_bytes(),
        body: Bytes::new(),
        persistent: true,
        priority: None,
    });
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    assert!(
        scenario
            .outgoing
            .deliver(consumer, at("q", 1), true, &message)
    );
    scenario.flush();
    let Some(Seen::Method(1, Method::Basic(basic::Basic::Deliver(deliver)))) = scenario.next()
    else {
        panic!("no delivery");
    };
    assert!(deliver.redelivered);
    assert_eq!(
        (deliver.exchange.as_bytes(), deliver.routing_key.as_bytes()),
        (&b"x"[..], &b"\xff\xfe"[..])
    );
    let Some(Seen::Header(1, header)) = scenario.next() else {
        panic!("no header")
    };
    assert_eq!((header.body_size, header.properties), (0, properties));
    scenario.expect_nothing();
}

#[test]
fn bodies_are_cut_to_the_agreed_frames() {
    for size in [1, 4088, 4089, 8176, 8177, 20_000] {
        let mut scenario = Scenario::open_with(Settings::default(), tune_ok(9, 4096, 0));
        scenario.open_channel(1);
        let consumer = scenario.consume(1, "q", "a", false);
        let body: Vec<u8> = (0..size).map(|at| at as u8).collect();
        scenario.deliver(consumer, "q", 1, &body);
        scenario.expect(1, deliver("a", 1));
        scenario.expect_body(1, &body);
        scenario.expect_nothing();
        // Twice, so that segments of both kinds follow each other.
        scenario.deliver(consumer, "q", 2, &body);
        scenario.deliver(consumer, "q", 3, b"small");
        scenario.expect(1, deliver("a", 2));
        scenario.expect_body(1, &body);
        scenario.expect(1, deliver("a", 3));
        scenario.expect_body(1, b"small");
    }
}

#[test]
fn large_bodies_are_not_copied_and_small_things_share_a_segment() {
    let mut outgoing = Outgoing::new();
    outgoing.set_frame_max(131_072);
    outgoing.open_channel(key(1, 1));
    let consumer = ConsumerId {
        channel: key(1, 1),
        number: 1,
    };
    outgoing.add_consumer(consumer, short("a"), true, true);
    for seq in 0..10 {
        outgoing.deliver(consumer, at("q", seq), false, &message("x", "k", b"small"));
    }
    let large = message("x", "k", &vec![1; SHARED_BODY_MIN]);
    outgoing.deliver(consumer, at("q", 11), false, &large);
    let pending = outgoing.pending_bytes();
    let mut segments = Vec::new();
    outgoing.take(&mut segments);
    assert_eq!(segments.iter().map(Bytes::len).sum::<usize>(), pending);
    assert_eq!(outgoing.pending_bytes(), 0);
    assert_eq!(
        segments.len(),
        3,
        "small things, the body, the end of its frame"
    );
    let body = large.shared_body().expect("a large body");
    assert_eq!(segments[1].as_ptr(), body.as_ptr());
}

#[test]
fn a_consumer_that_is_gone_gets_nothing() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    let never = ConsumerId {
        number: 99,
        ..consumer
    };
    assert!(!scenario.deliver(never, "q", 1, b"x"));
    scenario.send(
        1,
        basic::Cancel {
            consumer_tag: short("a"),
            nowait: false,
        },
    );
    scenario.expect(
        1,
        basic::CancelOk {
            consumer_tag: short("a"),
        },
    );
    assert!(!scenario.deliver(consumer, "q", 1, b"x"));
    scenario.expect_nothing();
}

#[test]
fn a_channel_that_was_closed_or_opened_anew_gets_nothing_of_before() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    scenario.send(1, passive(MISSING));
    assert!(matches!(
        scenario.next_method().1,
        Method::Channel(channel::Channel::Close(_))
    ));
    assert!(!scenario.deliver(consumer, "q", 1, b"x"));
    scenario.expect_nothing();
    scenario.send(1, channel::CloseOk {});
    scenario.open_channel(1);
    let again = scenario.consume(1, "q", "a", false);
    assert!(!scenario.deliver(consumer, "q", 1, b"x"));
    assert!(scenario.deliver(again, "q", 1, b"x"));
    scenario.expect(1, deliver("a", 1));
}

#[test]
fn after_the_end_of_a_connection_nothing_is_written() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    scenario.send(0, leveret_wire::connection::Close::default());
    scenario.forget();
    assert!(!scenario.deliver(consumer, "q", 1, b"x"));
    scenario.expect_nothing();
}

#[test]
fn the_news_tell_what_is_to_be_settled() {
    let mut outgoing = Outgoing::new();
    outgoing.open_channel(key(1, 1));
    let acking = ConsumerId {
        channel: key(1, 1),
        number: 1,
    };
    let trusting = ConsumerId {
        channel: key(1, 1),
        number: 2,
    };
    outgoing.add_consumer(acking, short("a"), false, true);
    outgoing.add_consumer(trusting, short("b"), true, true);
    let message = message("x", "k", b"x");
    for (consumer, seq) in [(acking, 10), (trusting, 20), (acking, 11)] {
        outgoing.deliver(consumer, at("q", seq), false, &message);
    }
    let mut news = News::default();
    outgoing.take_delivered(&mut news);
    let tags: Vec<_> = news
        .delivered()
        .iter()
        .map(|known| (known.tag.get(), known.at.seq.get()))
        .collect();
    assert_eq!(tags, [(1, 10), (3, 11)]);
    outgoing.deliver(acking, at("q", 12), false, &message);
    outgoing.take_delivered(&mut news);
    assert_eq!(news.delivered().len(), 3);
}

#[test]
fn a_cancelled_consumer_is_told_and_its_tag_is_free() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "a", false);
    scenario.outgoing.cancel_consumer(consumer);
    scenario.outgoing.cancel_consumer(consumer);
    scenario.flush();
    scenario.expect(
        1,
        basic::Cancel {
            consumer_tag: short("a"),
            nowait: true,
        },
    );
    scenario.expect_nothing();
    assert!(!scenario.deliver(consumer, "q", 1, b"x"));
    let again = scenario.consume(1, "q", "a", false);
    assert_ne!(again, consumer);
}

#[test]
fn a_client_that_cannot_take_a_cancel_is_not_told() {
    let mut scenario = Scenario::accepted();
    scenario.send_bytes(&leveret_wire::PROTOCOL_HEADER);
    scenario.send(0, crate::support::start_ok("PLAIN", b"\0guest\0guest", &[]));
    scenario.send(0, tune_ok(9, 8192, 0));
    scenario.send(0, crate::support::open_vhost("/"));
    scenario.forget();
    scenario.open_channel(1);
    let consumer = scenario.consume(1, "q", "a", false);
    scenario.outgoing.cancel_consumer(consumer);
    scenario.outgoing.tell_blocked("low on memory");
    scenario.outgoing.tell_unblocked();
    scenario.flush();
    scenario.expect_nothing();
    scenario.consume(1, "q", "a", false);
}

#[test]
fn a_consumer_cancelled_before_it_was_answered_ends_behind_consume_ok() {
    let mut scenario = Scenario::with_channel();
    scenario.is_holding_answers = true;
    let consume = basic::Consume {
        queue: short("q"),
        consumer_tag: short("a"),
        ..basic::Consume::default()
    };
    scenario.send(1, consume);
    let consumer = ConsumerId {
        channel: key(1, 1),
        number: 1,
    };
    scenario.outgoing.cancel_consumer(consumer);
    scenario.is_holding_answers = false;
    scenario.answer(leveret_session::Answer::ConsumeOk {
        queue: queue_id("q"),
        takes_room: true,
    });
    scenario.expect(
        1,
        basic::ConsumeOk {
            consumer_tag: short("a"),
        },
    );
    scenario.expect(
        1,
        basic::Cancel {
            consumer_tag: short("a"),
            nowait: true,
        },
    );
    scenario.consume(1, "q", "a", false);
}

#[test]
fn blocked_and_unblocked_are_told() {
    let mut scenario = Scenario::open();
    scenario.outgoing.tell_blocked("low on memory");
    scenario.outgoing.tell_unblocked();
    scenario.flush();
    scenario.expect(
        0,
        leveret_wire::connection::Blocked {
            reason: short("low on memory"),
        },
    );
    scenario.expect(0, leveret_wire::connection::Unblocked {});
}

#[test]
fn replies_come_before_what_they_made_possible() {
    let mut scenario = Scenario::with_channel();
    let mut bytes = crate::support::method_frame(1, basic::Qos::default());
    bytes.extend_from_slice(&publish_frames(1, "", "q", &RawProperties::EMPTY, b"x"));
    let consume = basic::Consume {
        queue: short("q"),
        consumer_tag: short("a"),
        ..basic::Consume::default()
    };
    bytes.extend_from_slice(&crate::support::method_frame(1, consume));
    scenario.send_bytes(&bytes);
    scenario.expect(1, basic::QosOk {});
    scenario.expect(
        1,
        basic::ConsumeOk {
            consumer_tag: short("a"),
        },
    );
    scenario.expect_nothing();
}

/// Two consumers of a channel whose deliveries take room.
fn two_that_share(max: u16, learned: u64) -> (Outgoing, [ConsumerId; 2]) {
    let channel = key(1, 1);
    let mut outgoing = Outgoing::new();
    outgoing.open_channel(channel);
    let consumers = [1, 2].map(|number| ConsumerId { channel, number });
    for consumer in consumers {
        outgoing.add_consumer(consumer, short("a"), false, true);
    }
    outgoing.set_room(channel, Some(max), learned);
    (outgoing, consumers)
}

#[test]
fn room_is_kept_from_the_question_to_the_settlement() {
    let (mut outgoing, [first, second]) = two_that_share(2, 0);
    assert!(outgoing.reserve(first));
    assert!(outgoing.reserve(second));
    assert!(!outgoing.reserve(second));
    outgoing.deliver(first, at("q", 1), false, &message("x", "k", b"x"));
    assert!(!outgoing.reserve(first));
    assert_eq!(outgoing.next_waiting(key(1, 1)), None);
    outgoing.give_back_room(key(1, 1), 1);
    // Who waited longest is asked first, and waits last when it is refused again.
    assert_eq!(outgoing.next_waiting(key(1, 1)), Some(second));
    assert!(outgoing.reserve(second));
    assert_eq!(outgoing.next_waiting(key(1, 1)), None);
}

#[test]
fn a_bound_counts_deliveries_that_nobody_has_learned_of() {
    let (mut outgoing, [first, second]) = two_that_share(9, 0);
    outgoing.deliver(first, at("q", 1), false, &message("x", "k", b"x"));
    outgoing.set_room(key(1, 1), Some(3), 1);
    assert!(outgoing.reserve(second));
    assert!(!outgoing.reserve(second));
    outgoing.set_room(key(1, 1), None, 0);
    assert_eq!(outgoing.next_waiting(key(1, 1)), Some(second));
    for _ in 0..10 {
        assert!(outgoing.reserve(second));
    }
}

#[test]
fn a_consumer_that_ended_waits_for_no_room() {
    let (mut outgoing, [first, second]) = two_that_share(1, 1);
    assert!(!outgoing.reserve(first));
    assert!(!outgoing.reserve(second));
    outgoing.remove_consumer(first);
    outgoing.give_back_room(key(1, 1), 1);
    assert_eq!(outgoing.next_waiting(key(1, 1)), Some(second));
    assert_eq!(outgoing.next_waiting(key(1, 1)), None);
}

#[test]
fn of_many_consumers_that_end_in_any_order_the_others_are_served() {
    let channel = key(1, 1);
    let mut outgoing = Outgoing::new();
    outgoing.open_channel(channel);
    let consumers = (1..=200).map(|number| ConsumerId { channel, number });
    let mut left: Vec<ConsumerId> = consumers.collect();
    for &consumer in &left {
        outgoing.add_consumer(consumer, short("a"), true, false);
    }
    let deliver = |outgoing: &mut Outgoing, to| {
        outgoing.deliver(to, at("q", 1), false, &message("x", "k", b"x"))
    };
    while !left.is_empty() {
        let gone = left.remove(left.len() * 3 / 7);
        assert!(outgoing.remove_consumer(gone));
        assert!(!outgoing.remove_consumer(gone), "it is gone");
        assert!(!deliver(&mut outgoing, gone));
        for &consumer in &left {
            assert!(deliver(&mut outgoing, consumer));
        }
    }
}
