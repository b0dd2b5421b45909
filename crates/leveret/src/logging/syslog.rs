//! Lines for syslog, as datagrams or over one connection, and for the journal of systemd.

use std::{
    fmt::Write as _,
    io::{self, Write},
    net::{TcpStream, ToSocketAddrs, UdpSocket},
    os::unix::net::UnixDatagram,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tracing::Level;

use super::{
    carried::{Carried, carry},
    outlet::Entry,
};
use crate::config::{SyslogProtocol, SyslogTransport};

/// How long a receiver may take to accept a connection or a line.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the journal listens.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// How messages are sent and by whom.
#[derive(Debug, Clone)]
pub(crate) struct Syslog {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) transport: SyslogTransport,
    pub(crate) protocol: SyslogProtocol,
    pub(crate) facility: u8,
    pub(crate) identity: String,
    /// The name of this machine.
    pub(crate) own_host: String,
}

/// Starts to carry lines to syslog.
pub(super) fn syslog(to: Syslog) -> io::Result<Carried> {
    let mut connection = None;
    carry("log to syslog", move |entry| {
        let message = to.message(entry, SystemTime::now());
        to.send(&mut connection, &message)
    })
}

/// Starts to carry lines to the journal.
pub(super) fn journal(identity: String) -> io::Result<Carried> {
    let socket = UnixDatagram::unbound()?;
    carry("log to the journal", move |entry| {
        socket.send_to(&journal_entry(entry, &identity), Path::new(JOURNAL))?;
        Ok(())
    })
}

/// The numbers of syslog, which the journal has too.
const fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

impl Syslog {
    fn message(&self, entry: &Entry, now: SystemTime) -> String {
        let priority = self.facility * 8 + severity(entry.level);
        let time = Moment::of(now);
        let (identity, process) = (&self.identity, std::process::id());
        let host = &self.own_host;
        let mut message = match self.protocol {
            SyslogProtocol::Rfc3164 => format!(
                "<{priority}>{} {host} {identity}[{process}]: ",
                time.as_rfc3164()
            ),
            SyslogProtocol::Rfc5424 => format!(
                "<{priority}>1 {} {host} {identity} {process} - - ",
                time.as_rfc5424()
            ),
        };
        message.push_str(&entry.line);
        message
    }

    fn send(&self, connection: &mut Option<TcpStream>, message: &str) -> io::Result<()> {
        let address = || {
            let mut found = (self.host.as_str(), self.port).to_socket_addrs()?;
            let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            found.next().ok_or_else(nowhere)
        };
        if self.transport == SyslogTransport::Udp {
            let to = address()?;
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            UdpSocket::bind(any)?.send_to(message.as_bytes(), to)?;
            return Ok(());
        }
        if connection.is_none() {
            let stream = TcpStream::connect_timeout(&address()?, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            *connection = Some(stream);
        }
        let Some(stream) = connection else {
            return Ok(());
        };
        // One message a line, which is what receivers of both protocols understand.
        let sent = stream.write_all(format!("{message}\n").as_bytes());
        if sent.is_err() {
            *connection = None;
        }
        sent
    }
}

/// Fields of the journal, one a line. No line that is logged has an end of line within it.
fn journal_entry(entry: &Entry, identity: &str) -> Vec<u8> {
    let mut fields = String::new();
    for (name, value) in [
        ("MESSAGE", entry.said.as_str()),
        ("PRIORITY", &severity(entry.level).to_string()),
        ("SYSLOG_IDENTIFIER", identity),
    ] {
        // A string takes everything.
        let _ = writeln!(fields, "{name}={value}");
    }
    fields.into_bytes()
}

/// A moment as a date, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    second: u8,
    micros: u32,
    /// Sunday is 0.
    pub(super) weekday: u8,
}

impl Moment {
    pub(super) fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // Of a calendar whose years begin in March, so that the day that may be missing is the last one.
        let shifted = i64::try_from(days).unwrap_or(0) + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let small = |number: i64| u8::try_from(number).unwrap_or(0);
        let part = |number: u64| u8::try_from(number).unwrap_or(0);
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: small(month),
            day: small(day),
            hour: part(rest / 3600),
            minute: part(rest / 60 % 60),
            second: part(rest % 60),
            micros: since.subsec_micros(),
            weekday: part((days + 4) % 7),
        }
    }

    fn as_rfc3164(self) -> String {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let month = MONTHS[usize::from(self.month - 1)];
        let Self {
            day,
            hour,
            minute,
            second,
            ..
        } = self;
        format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02}")
    }

    fn as_rfc5424(self) -> String {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
            ..
        } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::{super::outlet::Outlet, *};

    fn entry() -> Entry {
        Entry {
            level: Level::WARN,
            said: "text".to_owned(),
            line: "the line".to_owned(),
        }
    }

    fn to(port: u16, transport: SyslogTransport, protocol: SyslogProtocol) -> Syslog {
        Syslog {
            host: "127.0.0.1".to_owned(),
            port,
            transport,
            protocol,
            facility: 3,
            identity: "rabbitmq-server".to_owned(),
            own_host: "here".to_owned(),
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |secs: u64| Moment::of(UNIX_EPOCH + Duration::from_secs(secs));
        let leap = at(1_709_164_800);
        assert_eq!(
            (leap.year, leap.month, leap.day, leap.weekday),
            (2024, 2, 29, 4)
        );
        assert_eq!(at(0).as_rfc5424(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(1_796_039_999).as_rfc3164(), "Nov 30 11:59:59");
    }

    #[test]
    fn a_datagram_has_priority_time_and_name() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let port = receiver.local_addr().expect("bound").port();
        let carried = syslog(to(port, SyslogTransport::Udp, SyslogProtocol::Rfc3164));
        carried.expect("a thread").take(entry());
        let mut buffer = [0; 1024];
        receiver
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("set");
        let length = receiver.recv(&mut buffer).expect("a datagram");
        let message = String::from_utf8_lossy(&buffer[..length]);
        assert!(message.starts_with("<28>"), "{message}");
        assert!(message.contains(" here rabbitmq-server["), "{message}");
        assert!(message.ends_with("]: the line"), "{message}");
    }

    #[test]
    fn over_a_connection_every_message_is_a_line() {
        let receiver = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = receiver.local_addr().expect("bound").port();
        let carried = syslog(to(port, SyslogTransport::Tcp, SyslogProtocol::Rfc5424));
        let carried = carried.expect("a thread");
        carried.take(entry());
        carried.take(entry());
        let (stream, _) = receiver.accept().expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("set");
        for line in BufReader::new(stream).lines().take(2) {
            let line = line.expect("a line");
            assert!(line.starts_with("<28>1 "), "{line}");
            assert!(line.ends_with(" - - the line"), "{line}");
        }
    }

    #[test]
    fn the_journal_gets_fields() {
        let text = String::from_utf8(journal_entry(&entry(), "mq")).expect("text");
        assert_eq!(text, "MESSAGE=text\nPRIORITY=4\nSYSLOG_IDENTIFIER=mq\n");
    }
}
