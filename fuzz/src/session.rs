//! What must hold for any bytes that a client sends over one connection, from the protocol header to the end.

use std::collections::BTreeMap;

use leveret_session::{Call, Settings};
use leveret_wire::{PROTOCOL_HEADER, method::channel};

use crate::support::{CAPABILITIES, Event, Scenario, method_frame, open_vhost, start_ok, tune_ok};

/// Small enough for short inputs to reach.
const MESSAGE_SIZE_MAX: u64 = 64;
const UNFINISHED_CONTENT_MAX: u64 = 256;

/// Channels that are open when the input has its say, if it does not begin with the protocol header itself.
const CHANNELS: u16 = 2;

/// Whole conversations. The first octet says whether they begin behind the handshake, the second how they are cut.
///
/// * Where bytes are cut makes no difference to what is answered, asked and published.
/// * What is answered is frames.
/// * Only what was handed out is settled, and once.
pub fn session(input: &[u8]) {
    let Some((&[how, size], bytes)) = input.split_first_chunk() else {
        return;
    };
    let size = usize::from(size).max(1);
    let whole = outcome(how, &[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
    let cut = outcome(how, &pieces);
    assert_eq!(whole, cut, "cut into pieces of {size}");
    with_deliveries(how, &pieces);
}

/// What was written and asked, and whether it is the end.
fn outcome(how: u8, pieces: &[&[u8]]) -> (Vec<u8>, Vec<Event>, bool) {
    let mut scenario = begun(how);
    for piece in pieces {
        if scenario.close.is_none() {
            scenario.send_bytes(piece);
        }
    }
    let transcript = scenario.transcript.to_vec();
    let events = scenario.events();
    while scenario.next().is_some() {}
    let _ = scenario.connection.open_channels();
    (transcript, events, scenario.close.is_some())
}

/// Behind every piece each consumer that there is gets a message, and time passes.
fn with_deliveries(how: u8, pieces: &[&[u8]]) {
    let mut scenario = begun(how);
    let mut consumers = Vec::new();
    let mut seq = 0;
    // Whether it is unacked.
    let mut handed_out = BTreeMap::new();
    for piece in pieces {
        if scenario.close.is_some() {
            break;
        }
        scenario.send_bytes(piece);
        for event in scenario.events() {
            match event {
                Event::Call(Call::Consume(consume)) => {
                    let queue = String::from_utf8_lossy(consume.queue.as_bytes()).into_owned();
                    consumers.push((consume.consumer, queue, consume.no_ack));
                }
                Event::Settle(settle) => {
                    let was = handed_out.insert(settle.at.seq.get(), false);
                    assert_eq!(was, Some(true), "{settle:?} was not out");
                }
                _ => {}
            }
        }
        if scenario.close.is_none() {
            for (consumer, queue, no_ack) in &consumers {
                seq += 1;
                if scenario.deliver(*consumer, queue, seq, b"body") && !no_ack {
                    handed_out.insert(seq, true);
                }
            }
        }
        scenario.advance(1);
    }
}

fn begun(how: u8) -> Scenario {
    let settings = Settings {
        message_size_max: MESSAGE_SIZE_MAX,
        unfinished_content_max: UNFINISHED_CONTENT_MAX,
        ..Settings::default()
    };
    let mut scenario = Scenario::with_settings(settings);
    if how & 1 == 1 {
        scenario.send_bytes(&PROTOCOL_HEADER);
        scenario.send(0, start_ok("PLAIN", b"\0guest\0guest", &CAPABILITIES));
        scenario.send(0, tune_ok(8, 8192, 0));
        scenario.send(0, open_vhost("/"));
        for number in 1..=CHANNELS {
            scenario.send_bytes(&method_frame(number, channel::Open::default()));
        }
    }
    scenario
}
