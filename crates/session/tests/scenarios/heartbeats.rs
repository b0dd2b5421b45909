//! Signs of life, both ways.

use leveret_session::{EndReason, Settings, Tick};
use leveret_wire::method::channel;

use crate::support::{Scenario, Seen, raw_frame, tune_ok};

fn beating(secs: u16) -> Scenario {
    Scenario::open_with(Settings::default(), tune_ok(9, 8192, secs))
}

#[test]
fn a_heartbeat_goes_out_every_half_interval_without_traffic() {
    let mut scenario = beating(2);
    for _ in 0..3 {
        assert_eq!(
            scenario.connection.next_deadline(),
            Some(scenario.now.plus(1000))
        );
        assert_eq!(scenario.advance(1000), Tick::Flush);
        assert_eq!(scenario.next(), Some(Seen::Heartbeat));
        scenario.send_bytes(&raw_frame(8, 0, b""));
    }
}

#[test]
fn traffic_spares_heartbeats() {
    let mut scenario = beating(2);
    scenario.connection.wrote();
    assert_eq!(scenario.advance(1000), Tick::Wait);
    scenario.expect_nothing();
    assert_eq!(scenario.advance(1000), Tick::Flush);
}

#[test]
fn a_silent_client_is_gone_after_three_intervals_at_most() {
    let mut scenario = beating(1);
    scenario.send_bytes(&raw_frame(8, 0, b""));
    let mut ticks = Vec::new();
    for _ in 0..6 {
        ticks.push(scenario.advance(500));
    }
    assert_eq!(ticks.pop(), Some(Tick::Close(EndReason::MissedHeartbeats)));
    assert!(ticks.iter().all(|tick| *tick == Tick::Flush), "{ticks:?}");
    assert_eq!(scenario.connection.next_deadline(), None);
}

#[test]
fn any_byte_is_a_sign_of_life() {
    let mut scenario = beating(1);
    let frame = raw_frame(8, 0, b"");
    for octet in frame.iter().cycle().take(40) {
        scenario.send_bytes(&[*octet]);
        assert_ne!(
            scenario.advance(900),
            Tick::Close(EndReason::MissedHeartbeats)
        );
    }
}

#[test]
fn an_answer_that_is_late_is_not_the_clients_silence() {
    let mut scenario = beating(1);
    scenario.is_holding_answers = true;
    scenario.send(1, channel::Open::default());
    for _ in 0..20 {
        assert_eq!(scenario.advance(500), Tick::Flush);
    }
    scenario.answer(leveret_session::Answer::Done);
    assert_eq!(scenario.advance(500), Tick::Flush);
}

#[test]
fn while_the_server_does_not_read_nobody_is_silent() {
    let mut scenario = beating(1);
    scenario.connection.pause_reading(true);
    for _ in 0..20 {
        assert_eq!(scenario.advance(500), Tick::Flush);
    }
    scenario.connection.pause_reading(false);
    let ticks: Vec<_> = (0..7).map(|_| scenario.advance(500)).collect();
    assert!(ticks.contains(&Tick::Close(EndReason::MissedHeartbeats)));
}

#[test]
fn none_were_agreed_and_none_are_expected() {
    let mut scenario = beating(0);
    assert_eq!(scenario.connection.next_deadline(), None);
    assert_eq!(scenario.advance(1_000_000), Tick::Wait);
    scenario.expect_nothing();
}
