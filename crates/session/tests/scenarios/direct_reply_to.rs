//! Replies without a queue: `amq.rabbitmq.reply-to`.

use leveret_core::ids::{ConsumerId, HandedOut};
use leveret_session::Call;
use leveret_wire::{
    BasicProperties, RawProperties,
    method::basic,
    value::{FieldTable, FieldValue},
};

use crate::support::{REPLY_ADDRESS, Scenario, key, message, short};

const REPLY_TO: &str = "amq.rabbitmq.reply-to";
const CONSUME: (u16, u16) = (60, 20);
const PUBLISH: (u16, u16) = (60, 40);

fn consume(tag: &str, no_ack: bool) -> basic::Consume {
    basic::Consume {
        queue: short(REPLY_TO),
        consumer_tag: short(tag),
        no_ack,
        ..basic::Consume::default()
    }
}

fn consume_ok(tag: &str) -> basic::ConsumeOk {
    let consumer_tag = short(tag);
    basic::ConsumeOk { consumer_tag }
}

fn reply_to(address: &str) -> RawProperties {
    BasicProperties {
        headers: Some(FieldTable::new().with("h", FieldValue::Int(1))),
        correlation_id: Some(short("c")),
        reply_to: Some(short(address)),
        ..BasicProperties::default()
    }
    .encode()
}

/// A channel that consumes replies, and its consumer.
fn requester() -> (Scenario, ConsumerId) {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, consume("replies", true));
    let Call::ConsumeReplies(consumer) = scenario.the_call() else {
        panic!("replies are consumed");
    };
    assert_eq!(consumer.channel, key(1, 1));
    scenario.expect(1, consume_ok("replies"));
    (scenario, consumer)
}

#[test]
fn a_request_carries_the_address_and_all_else_as_it_came() {
    let (mut scenario, _) = requester();
    scenario.publish_with(1, "x", &reply_to(REPLY_TO));
    let publish = scenario.the_publish();
    assert_eq!(publish.properties, reply_to(REPLY_ADDRESS));
    let headers = FieldTable::decode_all(&publish.headers.expect("headers"));
    assert_eq!(headers, Ok(FieldTable::new().with("h", FieldValue::Int(1))));
}

#[test]
fn another_reply_to_is_left_alone() {
    let (mut scenario, _) = requester();
    scenario.publish_with(1, "x", &reply_to("q"));
    assert_eq!(scenario.the_publish().properties, reply_to("q"));
}

#[test]
fn a_reply_is_delivered_and_asks_for_no_ack() {
    let (mut scenario, consumer) = requester();
    let reply = message("", REPLY_ADDRESS, b"reply");
    assert!(
        scenario
            .outgoing
            .deliver(consumer, HandedOut::default(), false, &reply)
    );
    scenario.turn();
    scenario.expect(
        1,
        basic::Deliver {
            consumer_tag: short("replies"),
            delivery_tag: leveret_wire::DeliveryTag::new(1),
            redelivered: false,
            exchange: short(""),
            routing_key: short(REPLY_ADDRESS),
        },
    );
    scenario.expect_body(1, b"reply");
    let ack = basic::Ack {
        delivery_tag: leveret_wire::DeliveryTag::new(1),
        multiple: false,
    };
    scenario.send(1, ack);
    let text = "PRECONDITION_FAILED - unknown delivery tag 1";
    scenario.expect_channel_close(1, 406, text, (60, 80));
}

#[test]
fn a_tag_is_made_up_and_nowait_is_not_answered() {
    let mut scenario = Scenario::with_channel();
    scenario.send(1, consume("", true));
    scenario.expect(1, consume_ok("amq.ctag-0000000000000000000001"));
    let mut scenario = Scenario::with_channel();
    let silent = basic::Consume {
        nowait: true,
        ..consume("t", true)
    };
    scenario.send(1, silent);
    scenario.expect_nothing();
}

#[test]
fn a_reply_consumer_cannot_acknowledge() {
    let text = "PRECONDITION_FAILED - reply consumer cannot acknowledge";
    let (mut scenario, _) = requester();
    for _ in 0..2 {
        scenario.send(1, consume("two", false));
        scenario.expect_channel_close(1, 406, text, CONSUME);
        scenario.open_channel(1);
    }
}

#[test]
fn a_channel_has_one_reply_consumer() {
    for tag in ["two", "replies"] {
        let (mut scenario, _) = requester();
        scenario.send(1, consume(tag, true));
        let text = "PRECONDITION_FAILED - reply consumer already set";
        scenario.expect_channel_close(1, 406, text, CONSUME);
    }
}

#[test]
fn its_tag_is_taken() {
    let (mut scenario, _) = requester();
    let other = basic::Consume {
        queue: short("q"),
        ..consume("replies", true)
    };
    scenario.send(1, other);
    let text = "NOT_ALLOWED - attempt to reuse consumer tag 'replies'";
    scenario.expect_connection_close(530, text, CONSUME);
}

#[test]
fn after_a_cancel_there_may_be_another() {
    let (mut scenario, consumer) = requester();
    let cancel = basic::Cancel {
        consumer_tag: short("replies"),
        nowait: false,
    };
    scenario.send(1, cancel);
    assert_eq!(scenario.the_call(), Call::CancelReplies(consumer));
    let consumer_tag = short("replies");
    scenario.expect(1, basic::CancelOk { consumer_tag });
    let late = message("", REPLY_ADDRESS, b"late");
    assert!(
        !scenario
            .outgoing
            .deliver(consumer, HandedOut::default(), false, &late)
    );
    scenario.send(1, consume("again", true));
    scenario.expect(1, consume_ok("again"));
}

#[test]
fn without_a_reply_consumer_on_the_channel_a_request_is_refused() {
    let text = "PRECONDITION_FAILED - fast reply consumer does not exist";
    let (mut scenario, _) = requester();
    scenario.open_channel(2);
    scenario.publish_with(2, "x", &reply_to(REPLY_TO));
    scenario.expect_channel_close(2, 406, text, PUBLISH);
    let cancel = basic::Cancel {
        consumer_tag: short("replies"),
        nowait: true,
    };
    scenario.send(1, cancel);
    scenario.publish_with(1, "x", &reply_to(REPLY_TO));
    scenario.expect_channel_close(1, 406, text, PUBLISH);
}
