//! Messages that were taken back because they were not acked in time.

use leveret_core::{
    ids::ConsumerId,
    queue::{Outcome, Overdue},
};
use leveret_wire::method::{basic, channel};

use crate::support::{Scenario, key, short, tune_ok};

const TEXT: &str = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value \
                    used: 1000 ms. This timeout value can be configured, see consumers doc guide to \
                    learn more";

/// A client that cannot be told that a consumer ended.
fn old_client() -> Scenario {
    let mut scenario = Scenario::accepted();
    scenario.send_bytes(&leveret_wire::PROTOCOL_HEADER);
    scenario.send(0, crate::support::start_ok("PLAIN", b"\0guest\0guest", &[]));
    scenario.send(0, tune_ok(9, 8192, 0));
    scenario.send(0, crate::support::open_vhost("/"));
    scenario.forget();
    scenario.open_channel(1);
    scenario
}

fn overdue(consumer: ConsumerId) -> Overdue {
    Overdue {
        channel: consumer.channel,
        consumer: Some(consumer),
        timeout_millis: 1000,
    }
}

#[test]
fn the_consumer_is_cancelled_and_a_late_ack_is_no_error() {
    let mut scenario = Scenario::with_channel();
    let consumer = scenario.consume(1, "q", "t", false);
    scenario.deliver(consumer, "q", 10, b"x");
    scenario.forget();
    assert!(!scenario.outgoing.take_back(overdue(consumer)));
    scenario.flush();
    scenario.expect(
        1,
        basic::Cancel {
            consumer_tag: short("t"),
            nowait: true,
        },
    );
    let ack = basic::Ack {
        delivery_tag: 1.into(),
        multiple: false,
    };
    scenario.send(1, ack.clone());
    // Whether it still means anything is for the queue to say.
    scenario.expect_settled(1, &[10], Outcome::Acked);
    scenario.send(1, ack);
    let unknown = "PRECONDITION_FAILED - unknown delivery tag 1";
    scenario.expect_channel_close(1, 406, unknown, (60, 80));
}

#[test]
fn without_a_cancel_the_channel_ends() {
    let mut scenario = old_client();
    let consumer = scenario.consume(1, "q", "t", false);
    scenario.deliver(consumer, "q", 10, b"x");
    scenario.forget();
    assert!(scenario.outgoing.take_back(overdue(consumer)));
    scenario.turn();
    scenario.expect_channel_close(1, 406, TEXT, (0, 0));
}

#[test]
fn a_get_has_no_consumer_to_be_cancelled() {
    let mut scenario = Scenario::with_channels(2);
    let of_get = Overdue {
        channel: key(1, 1),
        consumer: None,
        timeout_millis: 1000,
    };
    assert!(scenario.outgoing.take_back(of_get));
    assert!(scenario.outgoing.take_back(of_get), "another message of it");
    scenario.turn();
    scenario.expect_channel_close(1, 406, TEXT, (0, 0));
    // Once, and only that one.
    scenario.expect_nothing();
    scenario.send(2, channel::Flow { active: true });
    scenario.expect(2, channel::FlowOk { active: true });
}

#[test]
fn a_channel_that_was_closed_meanwhile_is_not_closed_again() {
    let mut scenario = old_client();
    let consumer = scenario.consume(1, "q", "t", false);
    scenario.send(1, channel::Close::default());
    scenario.forget();
    scenario.open_channel(1);
    scenario.outgoing.take_back(overdue(consumer));
    scenario.turn();
    scenario.expect_nothing();
}
