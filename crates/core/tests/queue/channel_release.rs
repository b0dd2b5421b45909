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

/// As many as make it worth to write down who holds what.
#[test]
fn of_many_channels_that_end_one_after_the_other_each_gives_back_its_own() {
    let (channels, each) = (60_u64, 100_u64);
    let mut queue = QueueScenario::durable();
    let consumers: Vec<ConsumerId> = (0..channels)
        .map(|_| queue.subscribe(prefetch(u16::try_from(each).expect("few"))))
        .collect();
    queue.publish_transient(0..channels * each);
    // Round robin: the first one holds 0, 60, 120 and so on.
    for (number, consumer) in (0..).zip(&consumers).step_by(3) {
        queue.end_channel(*consumer);
        let back: Vec<u64> = (0..each).map(|turn| number + turn * channels).collect();
        let bob = queue.subscribe(prefetch(2));
        queue.expect_redeliveries(bob, &back[..2]);
        queue.ack(&back[0].to_string());
        queue.expect_redeliveries(bob, &back[2..3]);
        // One that came to hold them meanwhile gives them back as well.
        queue.end_channel(bob);
        let carol = queue.subscribe(prefetch(99));
        queue.expect_redeliveries(carol, &back[1..]);
        queue.pause(carol);
    }
    let left = channels * each - channels / 3;
    queue.expect_depth(0, left);
    for consumer in consumers {
        queue.end_channel(consumer);
    }
    let still_held = (channels / 3) * (each - 1);
    queue.expect_depth(left - still_held, still_held);
}
