//! A client of few words.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its part")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Far above what anything here takes; a test that waits this long has failed.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

const CONNECTION_START: [u16; 2] = [10, 10];
const CONNECTION_TUNE: [u16; 2] = [10, 30];
const CONNECTION_CLOSE: [u16; 2] = [10, 50];
const CONNECTION_OPEN_OK: [u16; 2] = [10, 41];
const CHANNEL_OPEN_OK: [u16; 2] = [20, 11];
const CONFIRM_SELECT_OK: [u16; 2] = [85, 11];
const GET_OK: [u16; 2] = [60, 71];
pub const ACK: [u16; 2] = [60, 80];
pub const NACK: [u16; 2] = [60, 120];

/// A connection with channel 1 in confirm mode, as bytes.
pub struct Client {
    socket: TcpStream,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("somebody listens");
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("set");
        let mut client = Self { socket };
        client.write(b"AMQP\x00\x00\x09\x01");
        client.expect(CONNECTION_START);
        let mut start_ok = vec![0, 10, 0, 11, 0, 0, 0, 0];
        start_ok.extend(b"\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US");
        client.frame(METHOD, 0, &start_ok);
        client.expect(CONNECTION_TUNE);
        client.frame(METHOD, 0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]);
        client.frame(METHOD, 0, &[0, 10, 0, 40, 1, b'/', 0, 0]);
        client.expect(CONNECTION_OPEN_OK);
        client.frame(METHOD, 1, &[0, 20, 0, 10, 0]);
        client.expect(CHANNEL_OPEN_OK);
        client.frame(METHOD, 1, &[0, 85, 0, 10, 0]);
        client.expect(CONFIRM_SELECT_OK);
        client
    }

    pub fn publish(&mut self, queue: &str) {
        let mut method = vec![0, 60, 0, 40, 0, 0, 0];
        method.push(queue.len().try_into().expect("short"));
        method.extend(queue.as_bytes());
        method.push(0);
        self.frame(METHOD, 1, &method);
        self.frame(
            HEADER,
            1,
            &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0x10, 0, 2],
        );
        self.frame(BODY, 1, b"body");
    }

    /// Holds a message from here on.
    pub fn get(&mut self, queue: &str) {
        let mut method = vec![0, 60, 0, 70, 0, 0];
        method.push(queue.len().try_into().expect("short"));
        method.extend(queue.as_bytes());
        method.push(0);
        self.frame(METHOD, 1, &method);
        self.expect(GET_OK);
        assert_eq!(self.next().expect("a header").0, HEADER);
        assert_eq!(self.next().expect("a body").0, BODY);
    }

    /// Asks for a durable queue, whose answer waits for the disk.
    pub fn ask_for(&mut self, queue: &str) {
        let mut method = vec![0, 50, 0, 10, 0, 0];
        method.push(queue.len().try_into().expect("short"));
        method.extend(queue.as_bytes());
        method.push(0b10);
        method.extend([0, 0, 0, 0]);
        self.frame(METHOD, 1, &method);
    }

    /// The broker closes the connection with this code; what the client owes it is said.
    #[track_caller]
    pub fn expect_close(&mut self, code: u16) {
        let (kind, payload) = self.next().expect("a frame");
        assert_eq!(
            (kind, &payload[..4]),
            (METHOD, bytes_of(CONNECTION_CLOSE).as_slice())
        );
        assert_eq!(payload[4..6], code.to_be_bytes());
        self.frame(METHOD, 0, &[0, 10, 0, 51]);
        assert_eq!(self.next(), None);
    }

    pub fn frame(&mut self, kind: u8, channel: u8, payload: &[u8]) {
        let len = u32::try_from(payload.len()).expect("small").to_be_bytes();
        let mut frame = vec![kind, 0, channel];
        frame.extend(len);
        frame.extend(payload);
        frame.push(0xCE);
        self.write(&frame);
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the broker reads");
    }

    #[track_caller]
    pub fn expect(&mut self, method: [u16; 2]) {
        let (kind, payload) = self.next().expect("a frame");
        assert_eq!((kind, &payload[..4]), (METHOD, bytes_of(method).as_slice()));
    }

    /// `None` when the broker has hung up.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 7];
        match self.socket.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nothing came: {error}")
            }
            Err(_) => return None,
        }
        let [kind, _, _, len @ ..] = head;
        let mut rest = vec![0; u32::from_be_bytes(len) as usize + 1];
        self.socket.read_exact(&mut rest).expect("a whole frame");
        rest.pop();
        Some((kind, rest))
    }
}

/// As a frame begins with it.
pub fn bytes_of(method: [u16; 2]) -> Vec<u8> {
    method.map(u16::to_be_bytes).concat()
}
