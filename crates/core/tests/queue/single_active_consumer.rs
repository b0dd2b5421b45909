//! `x-single-active-consumer`: one consumer is served, the next takes over.

use leveret_core::{
    arguments::QueueSettings,
    queue::{Answer, ConsumerSettings},
};

use crate::scenario::{QueueScenario, exclusive, no_ack, prefetch};

fn single_active() -> QueueScenario {
    QueueScenario::with(QueueSettings {
        single_active_consumer: true,
        ..QueueSettings::default()
    })
}

#[test]
fn only_the_first_consumer_is_served() {
    let mut queue = single_active();
    let alice = queue.subscribe(prefetch(2));
    queue.subscribe(prefetch(2));
    queue.publish(["one", "two", "three"]);
    queue.expect_deliveries(alice, ["one", "two"]);
    queue.expect_nothing_more();
    assert_eq!(queue.queue().consumer_count(), 2);
}

#[test]
fn the_next_takes_over_with_what_was_unacked() {
    let mut queue = single_active();
    let alice = queue.subscribe(prefetch(0));
    let bob = queue.subscribe(prefetch(0));
    let carol = queue.subscribe(no_ack());
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.end_channel(alice);
    queue.expect_redeliveries(bob, ["one"]);
    queue.unsubscribe(bob);
    queue.publish(["two"]);
    queue.expect_deliveries(carol, ["two"]);
}

#[test]
fn a_higher_priority_takes_over_first_but_drives_nobody_away() {
    let mut queue = single_active();
    let alice = queue.subscribe(no_ack());
    queue.subscribe(no_ack());
    let important = ConsumerSettings {
        priority: 1,
        ..no_ack()
    };
    let carol = queue.subscribe(important);
    queue.publish(["one"]);
    queue.expect_deliveries(alice, ["one"]);
    queue.unsubscribe(alice);
    queue.publish(["two"]);
    queue.expect_deliveries(carol, ["two"]);
}

#[test]
fn a_waiting_consumer_may_leave() {
    let mut queue = single_active();
    let alice = queue.subscribe(no_ack());
    let bob = queue.subscribe(no_ack());
    let carol = queue.subscribe(no_ack());
    queue.unsubscribe(bob);
    queue.unsubscribe(alice);
    queue.publish(["one"]);
    queue.expect_deliveries(carol, ["one"]);
}

#[test]
fn nobody_may_have_such_a_queue_for_himself() {
    let mut queue = single_active();
    assert_eq!(queue.try_subscribe(exclusive()), Answer::ExclusiveUse);
}

mod of_a_quorum_queue {
    use leveret_core::queue::Outcome;
    use leveret_wire::value::{FieldTable, FieldValue};

    use super::*;
    use crate::quorum::quorum;

    fn single() -> QueueScenario {
        let key = "x-single-active-consumer";
        quorum(FieldTable::new().with(key, FieldValue::Bool(true)))
    }

    fn of_priority(priority: i64) -> ConsumerSettings {
        ConsumerSettings {
            priority,
            ..prefetch(2)
        }
    }

    #[test]
    fn an_idle_one_gives_way_to_a_higher_priority_at_once() {
        let mut queue = single();
        let low = queue.subscribe(of_priority(0));
        let high = queue.subscribe(of_priority(5));
        let equal = queue.subscribe(of_priority(5));
        queue.publish(["1"]);
        queue.expect_deliveries(high, ["1"]);
        queue.expect_nothing_more();
        queue.end_channel(high);
        queue.expect_redeliveries(equal, ["1"]);
        queue.end_channel(equal);
        queue.expect_redeliveries(low, ["1"]);
    }

    #[test]
    fn a_busy_one_settles_what_it_has_and_gets_no_more() {
        let mut queue = single();
        let low = queue.subscribe(of_priority(0));
        queue.publish(["1", "2", "3", "4"]);
        queue.expect_deliveries(low, ["1", "2"]);
        let high = queue.subscribe(of_priority(5));
        queue.ack("1");
        queue.expect_nothing_more();
        queue.ack("2");
        queue.expect_deliveries(high, ["3", "4"]);
        queue.expect_nothing_more();
    }

    #[test]
    fn a_busy_one_goes_on_when_the_other_goes_first_and_all_is_settled() {
        let mut queue = single();
        let low = queue.subscribe(of_priority(0));
        queue.publish(["1", "2", "3"]);
        queue.expect_deliveries(low, ["1", "2"]);
        let high = queue.subscribe(of_priority(5));
        queue.ack("1");
        queue.expect_nothing_more();
        queue.unsubscribe(high);
        queue.publish(["4"]);
        queue.expect_nothing_more();
        queue.ack("2");
        queue.expect_deliveries(low, ["3", "4"]);
    }

    #[test]
    fn what_a_busy_one_gives_back_goes_to_the_next() {
        let mut queue = single();
        let low = queue.subscribe(of_priority(0));
        queue.publish(["1"]);
        queue.expect_deliveries(low, ["1"]);
        let high = queue.subscribe(of_priority(5));
        queue.settle("1", Outcome::Returned);
        queue.expect_redeliveries(high, ["1"]);
    }
}
