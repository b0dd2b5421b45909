//! What a connection keeps of contents that are half received.

use leveret_session::Settings;
use leveret_wire::{RawProperties, method::channel};

use crate::support::{
    Scenario, body_frame, header_frame, method_frame, publish_frames, publish_method, tune_ok,
};

const TOO_MUCH: &str =
    "PRECONDITION_FAILED - unfinished messages on this connection exceed 10000 bytes";

fn bounded(channels: u16) -> Scenario {
    let settings = Settings {
        message_size_max: 8000,
        unfinished_content_max: 10_000,
        ..Settings::default()
    };
    let mut scenario = Scenario::open_with(settings, tune_ok(2047, 131_072, 0));
    for channel in 1..=channels {
        scenario.open_channel(channel);
    }
    scenario.forget();
    scenario
}

fn begin(scenario: &mut Scenario, channel: u16, size: u64, part: &[u8]) {
    let mut bytes = method_frame(channel, publish_method("", "q"));
    bytes.extend_from_slice(&header_frame(channel, size, &RawProperties::EMPTY));
    bytes.extend_from_slice(&body_frame(channel, part));
    scenario.send_bytes(&bytes);
}

#[test]
fn announced_bodies_cost_nothing() {
    let mut scenario = bounded(2047);
    for channel in 1..=2047 {
        let mut bytes = method_frame(channel, publish_method("", ""));
        bytes.extend_from_slice(&header_frame(channel, 8000, &RawProperties::EMPTY));
        scenario.send_bytes(&bytes);
    }
    scenario.expect_nothing();
    for channel in 1..=2047 {
        scenario.send_bytes(&body_frame(channel, &[1; 8000]));
        assert_eq!(scenario.the_publish().body.len(), 8000);
    }
}

#[test]
fn the_channel_that_exceeds_the_bound_is_closed_and_the_others_go_on() {
    let mut scenario = bounded(3);
    begin(&mut scenario, 1, 8000, &[1; 4900]);
    begin(&mut scenario, 2, 8000, &[2; 4900]);
    scenario.expect_nothing();
    begin(&mut scenario, 3, 8000, &[3; 300]);
    scenario.expect_unanswered_channel_close(3, 406, TOO_MUCH, (60, 40));
    scenario.forget();
    scenario.send_bytes(&body_frame(1, &[1; 3100]));
    assert_eq!(scenario.the_publish().body.len(), 8000);
    scenario.send_bytes(&body_frame(2, &[2; 3100]));
    assert_eq!(scenario.the_publish().body.len(), 8000);
    scenario.expect_nothing();
}

#[test]
fn what_was_given_up_is_still_read_to_its_end() {
    let mut scenario = bounded(2);
    begin(&mut scenario, 1, 8000, &[1; 7900]);
    begin(&mut scenario, 2, 8000, &[2; 7900]);
    scenario.expect_unanswered_channel_close(2, 406, TOO_MUCH, (60, 40));
    scenario.send_bytes(&body_frame(2, &[2; 100]));
    scenario.send(2, channel::CloseOk {});
    scenario.open_channel(2);
    scenario.expect_nothing();
}

#[test]
fn what_is_finished_or_closed_does_not_count() {
    let mut scenario = bounded(2);
    for _ in 0..20 {
        begin(&mut scenario, 1, 8000, &[1; 7900]);
        scenario.send_bytes(&body_frame(1, &[1; 100]));
    }
    assert_eq!(scenario.events().len(), 20);
    scenario.expect_nothing();
}

#[test]
fn names_and_properties_of_half_contents_count() {
    let mut scenario = bounded(100);
    let mut is_closed = false;
    for channel in 1..=100 {
        scenario.send(channel, publish_method("x", &"k".repeat(255)));
        is_closed |= scenario.next().is_some();
    }
    assert!(is_closed);
}

#[test]
fn a_body_too_large_is_not_kept() {
    let mut scenario = bounded(10);
    for channel in 1..=10 {
        begin(&mut scenario, channel, 1_000_000, &[1; 5000]);
    }
    scenario.expect_nothing();
}

#[test]
fn a_content_in_one_read_stays_where_it_was_received_and_one_in_several_does_not() {
    let mut scenario = Scenario::with_channel();
    let body = vec![1; 5000];
    scenario.send_bytes(&publish_frames(
        1,
        "exchange",
        "key",
        &RawProperties::EMPTY,
        &body,
    ));
    let publish = scenario.the_publish();
    let (name, body_at) = (publish.exchange.as_bytes().as_ptr(), publish.body.as_ptr());
    let distance = (body_at as usize).abs_diff(name as usize);
    assert!(distance < 100, "slices of one read buffer");

    scenario.send(1, publish_method("exchange", "key"));
    scenario.send_bytes(&header_frame(1, 5000, &RawProperties::EMPTY));
    scenario.send_bytes(&body_frame(1, &body[..2000]));
    scenario.send_bytes(&body_frame(1, &body[2000..]));
    let publish = scenario.the_publish();
    assert_eq!(
        (&publish.exchange, publish.body.len()),
        (&crate::support::short("exchange"), 5000)
    );
}
