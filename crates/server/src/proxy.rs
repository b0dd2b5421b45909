//! The PROXY protocol, versions 1 and 2: a proxy tells before anything else for whom it has connected.
//!
//! ```text
//!   1   PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\r\n       at most 107 bytes
//!   2   12 bytes that no text begins with, version and command 1, family 1, length 2,
//!       both addresses, both ports, and what else the proxy wants to tell
//! ```

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The longest first version, with its line end.
const TEXT_BYTES_MAX: usize = 107;

/// What may follow the fixed part of a second version. Addresses take 36; the rest is what proxies tell of TLS.
const BINARY_BYTES_MAX: usize = 4096;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Reads the header, and not one byte more: for whom the proxy has connected, or `None` when it speaks for itself
/// or does not know.
///
/// # Errors
///
/// When there is no such header, or the socket is lost.
pub(crate) async fn source(
    socket: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<SocketAddr>> {
    let mut start = [0; SIGNATURE.len()];
    socket.read_exact(&mut start).await?;
    if start == SIGNATURE {
        let mut fixed = [0; 4];
        socket.read_exact(&mut fixed).await?;
        let [command, family, l1, l0] = fixed;
        let length = usize::from(u16::from_be_bytes([l1, l0]));
        if length > BINARY_BYTES_MAX {
            return Err(wrong("a PROXY header of this length"));
        }
        let mut rest = vec![0; length];
        socket.read_exact(&mut rest).await?;
        return binary(command, family, &rest);
    }
    if !start.starts_with(b"PROXY ") {
        return Err(wrong("no PROXY header"));
    }
    let mut line = Vec::with_capacity(TEXT_BYTES_MAX);
    line.extend_from_slice(&start);
    while !line.ends_with(b"\r\n") {
        if line.len() == TEXT_BYTES_MAX {
            return Err(wrong("a PROXY line without an end"));
        }
        line.push(socket.read_u8().await?);
    }
    text(&line)
}

fn text(line: &[u8]) -> io::Result<Option<SocketAddr>> {
    let malformed = || wrong("a malformed PROXY line");
    let line = std::str::from_utf8(line).map_err(|_| malformed())?;
    let line = line.strip_suffix("\r\n").ok_or_else(malformed)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(None);
    }
    let words: Vec<&str> = words.collect();
    let (Some(family), &[source, target, source_port, target_port]) = (family, words.as_slice())
    else {
        return Err(malformed());
    };
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let source = address(source).ok_or_else(malformed)?;
    address(target).ok_or_else(malformed)?;
    let port = |text: &str| text.parse::<u16>().map_err(|_| malformed());
    port(target_port)?;
    Ok(Some(SocketAddr::new(source, port(source_port)?)))
}

fn binary(command: u8, family: u8, rest: &[u8]) -> io::Result<Option<SocketAddr>> {
    let too_short = || wrong("a PROXY header without its addresses");
    match (command, family) {
        (LOCAL, _) => Ok(None),
        (PROXY, TCP_OVER_IPV4) => {
            let [s3, s2, s1, s0, _, _, _, _, p1, p0, _, _] =
                *rest.first_chunk::<12>().ok_or_else(too_short)?;
            let source = Ipv4Addr::from([s3, s2, s1, s0]);
            Ok(Some((source, u16::from_be_bytes([p1, p0])).into()))
        }
        (PROXY, TCP_OVER_IPV6) => {
            let addresses = rest.first_chunk::<36>().ok_or_else(too_short)?;
            let source: [u8; 16] = *addresses.first_chunk().ok_or_else(too_short)?;
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            Ok(Some((Ipv6Addr::from(source), port).into()))
        }
        // A family that has no addresses of this kind.
        (PROXY, _) => Ok(None),
        _ => Err(wrong("a PROXY header of an unknown version or command")),
    }
}

fn wrong(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who it is, and what is left for AMQP.
    async fn read(bytes: &[u8]) -> (io::Result<Option<SocketAddr>>, usize) {
        let mut rest = bytes;
        let source = source(&mut rest).await;
        (source, rest.len())
    }

    fn address(text: &str) -> Option<SocketAddr> {
        Some(text.parse().expect("an address"))
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest, b"AMQP"].concat()
    }

    #[tokio::test]
    async fn the_first_version_is_a_line() {
        let (source, rest) = read(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\r\nAMQP").await;
        assert_eq!(
            (source.expect("good"), rest),
            (address("192.0.2.1:56324"), 4)
        );
        let (source, rest) = read(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\nAMQP").await;
        assert_eq!(
            (source.expect("good"), rest),
            (address("[2001:db8::1]:1"), 4)
        );
        let (source, rest) = read(b"PROXY UNKNOWN whatever\r\nAMQP").await;
        assert_eq!((source.expect("good"), rest), (None, 4));
    }

    #[tokio::test]
    async fn the_second_version_is_binary() {
        let ipv4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 0x16, 0x28, 1, 0, 0];
        let (source, rest) = read(&v2(PROXY, TCP_OVER_IPV4, &ipv4)).await;
        assert_eq!(
            (source.expect("good"), rest),
            (address("192.0.2.1:56324"), 4)
        );
        let mut ipv6 = [0; 36];
        (ipv6[15], ipv6[33]) = (7, 9);
        let (source, rest) = read(&v2(PROXY, TCP_OVER_IPV6, &ipv6)).await;
        assert_eq!((source.expect("good"), rest), (address("[::7]:9"), 4));
        let (source, rest) = read(&v2(LOCAL, 0, &[])).await;
        assert_eq!((source.expect("good"), rest), (None, 4));
    }

    #[tokio::test]
    async fn anything_else_is_an_error() {
        for bytes in [
            &b"AMQP\x00\x00\x09\x01AMQPAMQP"[..],
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 65536 5672\r\n",
            b"PROXY TCP9 192.0.2.1 198.51.100.1 1 5672\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 1 5672 6\r\n",
            &[b"PROXY UNKNOWN ", [b'x'; 200].as_slice()].concat(),
            &v2(PROXY, TCP_OVER_IPV4, &[1, 2, 3]),
            &v2(0x11, TCP_OVER_IPV4, &[0; 12]),
            &v2(PROXY, TCP_OVER_IPV4, &[0; BINARY_BYTES_MAX + 1]),
            b"PROXY TCP4",
        ] {
            let (source, _) = read(bytes).await;
            assert!(source.is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
