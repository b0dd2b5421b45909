//! Where a broker listens and who logs in: `amqp://user:password@host:port/vhost`.

use std::fmt;
use std::str::FromStr;

/// The port of AMQP without TLS.
const DEFAULT_PORT: u16 = 5672;

/// An address with a login. What is absent is what RabbitMQ's clients assume: guest, guest, port 5672, vhost `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerUrl {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) vhost: String,
}

/// Why a text is not the address of a broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("the address must begin with amqp://")]
    Scheme,
    #[error("the address names no host")]
    NoHost,
    #[error("{0:?} is not a port")]
    Port(String),
    #[error("{0:?} has a % that no two hexadecimal digits follow, or is not UTF-8")]
    Escape(String),
}

impl FromStr for BrokerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let rest = text.strip_prefix("amqp://").ok_or(UrlError::Scheme)?;
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, authority),
        };
        let (user, password) = match login {
            None => ("guest", "guest"),
            Some(login) => login.split_once(':').unwrap_or((login, "")),
        };
        let (host, port) = split_port(address)?;
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let vhost = match path {
            None | Some("") => "/".to_owned(),
            Some(path) => unescape(path)?,
        };
        Ok(Self {
            user: unescape(user)?,
            password: unescape(password)?,
            host: host.to_owned(),
            port,
            vhost,
        })
    }
}

impl fmt::Display for BrokerUrl {
    /// Host and port; a report names no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// `host:port`, `host`, `[address of IPv6]:port` or `[address of IPv6]`.
fn split_port(address: &str) -> Result<(&str, u16), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(inner) => {
            let (host, behind) = inner.split_once(']').ok_or(UrlError::NoHost)?;
            (host, behind.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    match port {
        None => Ok((host, DEFAULT_PORT)),
        Some(port) => match port.parse() {
            Ok(number) => Ok((host, number)),
            Err(_) => Err(UrlError::Port(port.to_owned())),
        },
    }
}

fn unescape(text: &str) -> Result<String, UrlError> {
    let broken = || UrlError::Escape(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(broken());
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::{BrokerUrl, UrlError};

    #[track_caller]
    fn parse(text: &str) -> BrokerUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_address_is_taken_apart() {
        let url = parse("amqp://al%40ice:s%3Acret@broker.example:5673/orders%2Feu");
        assert_eq!(url.user, "al@ice");
        assert_eq!(url.password, "s:cret");
        assert_eq!((url.host.as_str(), url.port), ("broker.example", 5673));
        assert_eq!(url.vhost, "orders/eu");
    }

    #[test]
    fn what_is_absent_is_what_clients_assume() {
        let url = parse("amqp://127.0.0.1");
        assert_eq!(
            (url.user.as_str(), url.password.as_str()),
            ("guest", "guest")
        );
        assert_eq!(url.port, 5672);
        assert_eq!(url.vhost, "/");
        assert_eq!(parse("amqp://h/").vhost, "/");
        assert_eq!(parse("amqp://h/%2F").vhost, "/");
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        let url = parse("amqp://guest:guest@[::1]:5673");
        assert_eq!((url.host.as_str(), url.port), ("::1", 5673));
    }

    #[test]
    fn a_broken_address_says_what_is_wrong() {
        let refused = |text: &str| text.parse::<BrokerUrl>().unwrap_err();
        assert_eq!(refused("http://h"), UrlError::Scheme);
        assert_eq!(refused("amqp://:5672"), UrlError::NoHost);
        assert_eq!(refused("amqp://h:x"), UrlError::Port("x".into()));
        assert_eq!(refused("amqp://h/%2"), UrlError::Escape("%2".into()));
    }

    #[test]
    fn a_report_names_no_password() {
        assert_eq!(parse("amqp://u:p@h:1/v").to_string(), "h:1");
    }
}
