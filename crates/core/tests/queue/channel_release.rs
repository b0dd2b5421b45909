//! What a channel holds goes back when it ends or recovers.

use leveret_core::{
    ids::{ChannelKey, ConsumerId},
    queue::{Answer, Command},
};

use crate::scenario::{QueueScenario, channel, prefetch};

#[test]
fn an_ended_channel_gives_back_everything_in_order() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(0));
    queue.publish(1..=3);
    queue.expect_deliveries(alice, 1..=3);
    queue.ack("2");

    queue.end_channel(alice);
    queue.publish([4]);
    queue.expect_depth(3, 0);
    assert_eq!(queue.queue().consumer_count(), 0);

    let bob = queue.subscribe(prefetch(2));
    queue.expect_redeliveries(bob, [1, 3]);
    queue.ack("1");
    queue.expect_deliveries(bob, [4]);
}

#[test]
fn no_consumer_of_a_connection_that_is_gone_gets_what_another_one_held() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    let bob = on_another_channel(alice);
    assert_eq!(queue.ask_subscribe(bob, prefetch(0)), Answer::Subscribed);
    let carol = queue.subscribe_paused(prefetch(0));
    queue.publish([1]);
    queue.expect_deliveries(alice, [1]);
    queue.resume(bob);

    queue.together(vec![Command::Disconnect {
        connection: alice.channel.connection,
    }]);
    queue.expect_nothing_more();
    assert_eq!(queue.queue().consumer_count(), 1);
    queue.resume(carol);
    queue.expect_redeliveries(carol, [1]);
}

const fn on_another_channel(of: ConsumerId) -> ConsumerId {
    ConsumerId {
        channel: ChannelKey {
            channel: of.channel.channel + 1,
            ..of.channel
        },
        number: 1,
    }
}

#[test]
fn others_keep_what_they_hold() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(1));
    let bob = queue.subscribe(prefetch(1));
    queue.publish([1, 2]);
    queue.expect_deliveries(alice, [1]);
    queue.expect_deliveries(bob, [2]);

    queue.end_channel(alice);
    queue.expect_depth(1, 1);
    queue.ack("2");
    queue.expect_redeliveries(bob, [1]);
}

#[test]
fn recover_delivers_again_also_to_the_same_consumer() {
    let mut queue = QueueScenario::durable();
    let alice = queue.subscribe(prefetch(2));
    queue.publish([1, 2, 3]);
    queue.expect_deliveries(alice, [1, 2]);

    queue.recover_channel(alice);
    queue.expect_redeliveries(alice, [1, 2]);
    queue.expect_depth(1, 2);
}

#[test]
fn gets_of_the_channel_go_back_too() {
    let mut queue = QueueScenario::durable();
    queue.publish([1, 2]);
    let got = queue.ask_get_on(channel(5), false);
    assert_eq!(queue.take_got(got), Some(("1".to_owned(), false, 1)));
    queue.together(vec![Command::Release {
        channel: channel(5),
        ended: true,
    }]);
    assert_eq!(queue.get(), Some(("1".to_owned(), true, 1)));
}

#[test]
fn all_consumers_of_the_channel_go_and_only_those() {
    let mut queue = QueueScenario::durable();
    let first = queue.subscribe(prefetch(0));
    let _second = queue.subscribe_beside(first, prefetch(0));
    let other = queue.subscribe(prefetch(0));
    queue.end_channel(first);
    queue.publish([1, 2]);
    queue.expect_deliveries(other, [1, 2]);
    queue.expect_nothing_more();
}

/// The channel's number is free at once; what comes late for the old channel must not meet the new.
#[test]
fn a_later_opening_of_the_same_number_is_another_channel() {
    let mut queue = QueueScenario::durable();
    queue.publish([1]);
    let old = channel(5);
    let new = ChannelKey { opening: 2, ..old };
    let got = queue.ask_get_on(new, false);
    assert!(queue.take_got(got).is_some());
    queue.together(vec![Command::Release {
        channel: old,
        ended: true,
    }]);
    queue.expect_depth(0, 1);
}
