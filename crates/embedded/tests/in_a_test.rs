//! What a test sees of the broker inside it.

mod common;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use leveret_embedded::{Embedded, Options, StartError};
use tempfile::TempDir;

use crate::common::Client;

const JOBS: &str = r#"{"queues": [{"name": "jobs", "vhost": "/", "durable": true}]}"#;

#[test]
fn what_is_published_is_there() {
    let broker = Options::new()
        .definitions_text(JOBS)
        .start()
        .expect("starts");
    let mut client = Client::guest(&broker);
    client.publish("jobs", b"one");
    assert_eq!(client.get("jobs").expect("a message"), b"one");
    assert_eq!(client.get("jobs"), None);
}

#[test]
fn several_live_side_by_side_and_share_nothing() {
    let brokers: Vec<Embedded> = (0..4)
        .map(|_| {
            Options::new()
                .definitions_text(JOBS)
                .start()
                .expect("starts")
        })
        .collect();
    for (number, broker) in brokers.iter().enumerate() {
        Client::guest(broker).publish("jobs", number.to_string().as_bytes());
    }
    for (number, broker) in brokers.iter().enumerate() {
        let mut client = Client::guest(broker);
        let found = client.get("jobs").expect("a message");
        assert_eq!(found, number.to_string().into_bytes());
        assert_eq!(client.get("jobs"), None);
    }
}

#[test]
fn nobody_listens_where_a_dropped_one_was() {
    let broker = Embedded::start().expect("starts");
    let address = broker.address();
    let _idle = Client::guest(&broker);
    drop(broker);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn who_is_connected_is_told_of_a_stop() {
    let broker = Embedded::start().expect("starts");
    let mut client = Client::guest(&broker);
    let told = thread::spawn(move || client.closed());
    broker.stop().expect("stops");
    assert_eq!(told.join().expect("told"), 320);
}

#[test]
fn messages_are_there_before_the_first_client() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("messages.jsonl");
    let lines = r#"{"queue": "jobs", "payload": "text"}

{"exchange": "amq.direct", "routing_key": "k", "payload": "AAE=", "payload_encoding": "base64"}
{"queue": "jobs", "payload": {"id": 7}, "properties": {"delivery_mode": 2, "headers": {"n": 1}}}
"#;
    fs::write(&file, lines).expect("written");
    let bound = r#"{"queues": [{"name": "jobs", "vhost": "/", "durable": true}],
        "bindings": [{"source": "amq.direct", "vhost": "/", "destination": "jobs",
                      "destination_type": "queue", "routing_key": "k", "arguments": {}}]}"#;
    let options = Options::new().definitions_text(bound).messages(&file);
    let broker = options.start().expect("starts");
    let mut client = Client::guest(&broker);
    for expected in [&b"text"[..], b"\x00\x01", br#"{"id":7}"#] {
        assert_eq!(client.get("jobs").expect("a message"), expected);
    }
    assert_eq!(client.get("jobs"), None);
}

#[test]
fn a_line_that_is_wrong_is_named_and_there_is_no_broker() {
    for (line, expected) in [
        ("nothing", "(messages):2: it is not JSON, at column 2"),
        ("[]", "(messages):2: it is not a JSON object"),
        ("{\"queue\": \"jobs\"}", "(messages):2: it has no payload"),
        (
            "{\"queue\": \"jbos\", \"payload\": \"\"}",
            "(messages):2: there is no queue 'jbos' in vhost '/'",
        ),
        (
            "{\"exchange\": \"amq.fanout\", \"payload\": \"\"}",
            "(messages):2: exchange 'amq.fanout' in vhost '/' has no queue for the key ''",
        ),
        (
            "{\"exchange\": \"nowhere\", \"payload\": \"\"}",
            "(messages):2: no exchange 'nowhere' in vhost '/'",
        ),
        (
            "{\"vhost\": \"other\", \"queue\": \"jobs\", \"payload\": \"\"}",
            "(messages):2: there is no vhost 'other'",
        ),
        (
            "{\"queue\": \"jobs\", \"routing_key\": \"k\", \"payload\": \"\"}",
            "(messages):2: it has a queue, so that exchange and routing_key have no meaning",
        ),
        (
            "{\"payload\": \"\"}",
            "(messages):2: it has neither a queue nor an exchange",
        ),
        (
            "{\"queue\": \"jobs\", \"payload\": \"\", \"body\": \"\"}",
            "(messages):2: there is no key \"body\"",
        ),
        (
            "{\"queue\": \"jobs\", \"payload\": \"\", \"properties\": {\"priority\": \"high\"}}",
            "not_int",
        ),
    ] {
        let lines = format!("{{\"queue\": \"jobs\", \"payload\": \"fine\"}}\n{line}\n");
        let options = Options::new().definitions_text(JOBS).messages_text(lines);
        let error = options.start().expect_err("refused");
        assert!(matches!(error, StartError::Messages(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }
}

#[test]
fn definitions_that_are_wrong_are_named() {
    let options = Options::new().definitions_text("[]");
    let error = options.start().expect_err("refused").to_string();
    assert!(
        error.contains("(definitions): it is not a JSON object"),
        "{error}"
    );
}

#[test]
fn the_http_api_has_a_port_of_its_own() {
    assert_eq!(Embedded::start().expect("starts").http_url(), None);
    let broker = Options::new().http().start().expect("starts");
    let url = broker.http_url().expect("asked for");
    let address = url
        .strip_prefix("http://guest:guest@")
        .expect("credentials");
    let mut socket = TcpStream::connect(address).expect("it listens");
    // guest:guest
    let request = "GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
                   Connection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn user_and_vhost_are_in_the_url_as_urls_have_them() {
    let options = Options::new().user("ann", "a b/c").vhost("my/app").start();
    let broker = options.expect("starts");
    let expected = format!("amqp://ann:a%20b%2Fc@{}/my%2Fapp", broker.address());
    assert_eq!(broker.url(), expected);
    Client::connect(&broker, ("ann", "a b/c"), "my/app");
}

#[test]
fn a_data_directory_carries_over_to_the_next_broker() {
    let dir = TempDir::new().expect("a directory");
    let options = Options::new().data_dir(dir.path()).definitions_text(JOBS);
    let persistent = r#"{"queue": "jobs", "payload": "kept", "properties": {"delivery_mode": 2}}"#;
    let first = options.clone().messages_text(persistent).start();
    drop(first.expect("starts"));
    let second = options.start().expect("starts again");
    let mut client = Client::guest(&second);
    assert_eq!(client.get("jobs").expect("a message"), b"kept");
    assert_eq!(client.get("jobs"), None);
}

#[test]
fn lists_of_many_queues_hold_up_no_amqp_client() {
    const QUEUES: usize = 4000;
    let names =
        (0..QUEUES).map(|n| format!(r#"{{"name": "q{n}", "vhost": "/", "durable": true}}"#));
    let queues = names.collect::<Vec<_>>().join(",");
    let options = Options::new().http();
    let options = options.definitions_text(format!(r#"{{"queues": [{queues}]}}"#));
    let broker = options.start().expect("starts");
    let mut client = Client::guest(&broker);
    let url = broker.http_url().expect("asked for");
    let address = url
        .strip_prefix("http://guest:guest@")
        .expect("with credentials");
    let list = || {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket
            .write_all(
                b"GET /api/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
                  Connection: close\r\n\r\n",
            )
            .expect("written");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("answered");
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    };
    let began = Instant::now();
    let (took, longest) = thread::scope(|scope| {
        // As many as the broker has threads for AMQP.
        let lists = [scope.spawn(list), scope.spawn(list)];
        let mut longest = Duration::ZERO;
        while lists.iter().any(|list| !list.is_finished()) {
            let asked = Instant::now();
            assert_eq!(client.get("q0"), None);
            longest = longest.max(asked.elapsed());
        }
        (began.elapsed(), longest)
    });
    assert!(longest < took / 4, "{longest:?} of {took:?}");
}
