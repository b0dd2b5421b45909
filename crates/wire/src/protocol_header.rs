//! The eight bytes that open a connection.
//!
//! ```text
//!   'A' 'M' 'Q' 'P'   0   0   9   1
//! ```

/// What a client sends first, and what the broker answers to anything else before it closes the socket.
///
/// RabbitMQ answers most wrong headers with AMQP 1.0's SASL header, which it speaks; a broker without AMQP 1.0 names what
/// it does speak.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// What old clients of AMQP 0-9 send. RabbitMQ goes on with 0-9-1, and so do we.
const PROTOCOL_HEADER_0_9: [u8; 8] = *b"AMQP\x01\x01\x00\x09";

/// What to make of the opening bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// The client speaks AMQP 0-9-1: connection.start follows.
    Accepted,
    /// The client speaks something else: answer [`PROTOCOL_HEADER`] and close the socket.
    Refused,
}

/// Judges the opening bytes of a client.
pub fn check(header: &[u8; 8]) -> Greeting {
    if *header == PROTOCOL_HEADER || *header == PROTOCOL_HEADER_0_9 {
        Greeting::Accepted
    } else {
        Greeting::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::{Greeting, check};

    #[test]
    fn only_0_9_1_and_its_predecessor_are_spoken() {
        assert_eq!(check(b"AMQP\x00\x00\x09\x01"), Greeting::Accepted);
        assert_eq!(check(b"AMQP\x01\x01\x00\x09"), Greeting::Accepted);
        for refused in [
            b"AMQP\x00\x00\x09\x00",
            b"AMQP\x00\x00\x0a\x01",
            b"AMQP\x03\x01\x00\x00",
            b"AMQP\x00\x01\x00\x00",
            b"AMQP\x01\x01\x08\x00",
            b"GET / HT",
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
        ] {
            assert_eq!(check(refused), Greeting::Refused);
        }
    }
}
