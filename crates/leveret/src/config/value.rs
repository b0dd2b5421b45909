//! What a setting may be: each type reads itself from text and says what is allowed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use leveret_runtime::Amount;
use leveret_server::Network;

/// Least and most, of a number or of the length of a text.
pub(crate) type Range = (u64, u64);

/// No bound beside the one of the type.
pub(crate) const ANY: Range = (0, u64::MAX);

/// The type of a setting.
pub(crate) trait Value: Sized {
    /// Whether the flag may be given several times, and a comma stands between members.
    const IS_LIST: bool = false;

    /// Whether the flag alone means true.
    const IS_SWITCH: bool = false;

    /// From what stands in a file, in a variable or behind a flag; `None` when it is not allowed.
    fn read(text: &str, range: Range) -> Option<Self>;

    /// What is allowed, as in "allowed is ...".
    fn allowed(range: Range) -> String;
}

macro_rules! whole_numbers {
    ($($type:ident)*) => { $(
        impl Value for $type {
            fn read(text: &str, (least, most): Range) -> Option<Self> {
                let number: u64 = text.parse().ok()?;
                (least..=most).contains(&number).then(|| number.try_into().ok())?
            }

            fn allowed((least, most): Range) -> String {
                match u64::try_from(Self::MAX).unwrap_or(u64::MAX).min(most) {
                    u64::MAX => format!("a whole number from {least} on"),
                    most => format!("a whole number from {least} to {most}"),
                }
            }
        }
    )* };
}

whole_numbers!(u16 u32 u64);

impl Value for bool {
    const IS_SWITCH: Self = true;

    fn read(text: &str, _range: Range) -> Option<Self> {
        match text {
            "true" | "on" | "yes" => Some(true),
            "false" | "off" | "no" => Some(false),
            _ => None,
        }
    }

    fn allowed(_range: Range) -> String {
        "true or false".to_owned()
    }
}

/// A text of so many bytes.
impl Value for String {
    fn read(text: &str, (least, most): Range) -> Option<Self> {
        let length = text.len() as u64;
        (least..=most).contains(&length).then(|| text.to_owned())
    }

    fn allowed(range: Range) -> String {
        match range {
            (0, u64::MAX) => "any text".to_owned(),
            (least, u64::MAX) => format!("a text of at least {least} bytes"),
            (least, most) => format!("a text of {least} to {most} bytes"),
        }
    }
}

impl Value for PathBuf {
    fn read(text: &str, _range: Range) -> Option<Self> {
        (!text.is_empty() && !text.contains('\0')).then(|| Self::from(text))
    }

    fn allowed(_range: Range) -> String {
        "a path".to_owned()
    }
}

/// Nothing is said by an empty text.
impl<T: Value> Value for Option<T> {
    const IS_LIST: bool = T::IS_LIST;

    fn read(text: &str, range: Range) -> Option<Self> {
        if text.is_empty() {
            Some(None)
        } else {
            T::read(text, range).map(Some)
        }
    }

    fn allowed(range: Range) -> String {
        T::allowed(range)
    }
}

/// Members with commas between them.
impl<T: Value> Value for Vec<T> {
    const IS_LIST: bool = true;

    fn read(text: &str, range: Range) -> Option<Self> {
        if matches!(text, "" | "none") {
            return Some(Self::new());
        }
        text.split(',')
            .map(|member| T::read(member.trim(), range))
            .collect()
    }

    fn allowed(range: Range) -> String {
        format!(
            "{}, several with commas between them, or none",
            T::allowed(range)
        )
    }
}

impl Value for Amount {
    fn read(text: &str, _range: Range) -> Option<Self> {
        text.parse().ok()
    }

    fn allowed(_range: Range) -> String {
        "bytes, a size like 512MB or 512MiB, or a share of the memory like 0.4 or 40%".to_owned()
    }
}

/// So many bytes, with a unit or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl Value for Bytes {
    fn read(text: &str, (least, most): Range) -> Option<Self> {
        match text.parse() {
            Ok(Amount::Bytes(bytes)) if (least..=most).contains(&bytes) => Some(Self(bytes)),
            _ => None,
        }
    }

    fn allowed(range: Range) -> String {
        let bound = match range {
            (least, u64::MAX) => format!("from {least} on"),
            (least, most) => format!("from {least} to {most}"),
        };
        format!("bytes, or a size like 16MB or 16MiB, {bound}")
    }
}

/// RabbitMQ's word for no bound.
const INFINITY: &str = "infinity";

/// How many there may be, if that has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

impl Value for Limit {
    fn read(text: &str, range: Range) -> Option<Self> {
        match text {
            "" | INFINITY => Some(Self(None)),
            _ => u64::read(text, range).map(|number| Self(Some(number))),
        }
    }

    fn allowed(range: Range) -> String {
        format!("{}, or infinity", u64::allowed(range))
    }
}

/// A time in milliseconds; a number without a unit is one of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) u64);

/// A time in seconds; a number without a unit is one of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secs(pub(crate) u16);

impl Value for Millis {
    fn read(text: &str, (least, most): Range) -> Option<Self> {
        if text == INFINITY && most < u64::MAX {
            return Some(Self(most));
        }
        let millis = text.parse().ok().or_else(|| millis(text))?;
        (least..=most).contains(&millis).then_some(Self(millis))
    }

    fn allowed((least, most): Range) -> String {
        let bound = match most {
            u64::MAX => format!("from {least} on"),
            most => format!("from {least} to {most}"),
        };
        format!("milliseconds {bound}, or a time like 500ms, 30s, 1h30m")
    }
}

impl Value for Secs {
    fn read(text: &str, (least, most): Range) -> Option<Self> {
        let secs = text
            .parse()
            .ok()
            .or_else(|| millis(text).map(|millis| millis / 1000))?;
        (least..=most)
            .contains(&secs)
            .then(|| secs.try_into().ok().map(Self))?
    }

    fn allowed((least, most): Range) -> String {
        let most = most.min(u16::MAX.into());
        format!("seconds from {least} to {most}, or a time like 30s, 5m")
    }
}

/// Numbers with a unit each, one behind the other: `1h30m`.
fn millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let unit_end = behind
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = behind;
    }
    (!text.is_empty()).then_some(sum)
}

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A port of every address, IPv4 and IPv6.
    Port(u16),
    /// One address.
    At(SocketAddr),
}

impl Endpoint {
    /// The addresses: what must be had, and what may be missing on a machine without its family.
    pub(crate) fn addresses(self) -> (SocketAddr, Option<SocketAddr>) {
        match self {
            Self::At(address) => (address, None),
            Self::Port(port) => (
                (Ipv4Addr::UNSPECIFIED, port).into(),
                Some((Ipv6Addr::UNSPECIFIED, port).into()),
            ),
        }
    }
}

impl Value for Endpoint {
    fn read(text: &str, _range: Range) -> Option<Self> {
        // RabbitMQ's files have addresses of IPv6 without brackets too: `::1:5672`.
        let unbracketed = || {
            let (ip, port) = text.rsplit_once(':')?;
            let ip: Ipv6Addr = ip.parse().ok()?;
            Some(Self::At((ip, port.parse().ok()?).into()))
        };
        let port = text.parse().map(Self::Port);
        let endpoint = port.or_else(|_| text.parse().map(Self::At));
        let endpoint = endpoint.ok().or_else(unbracketed)?;
        Some(match endpoint {
            // To RabbitMQ every address of IPv6 is every address of both.
            Self::At(address) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                Self::Port(address.port())
            }
            other => other,
        })
    }

    fn allowed(_range: Range) -> String {
        "a port, ADDR:PORT or [ADDR]:PORT".to_owned()
    }
}

impl Value for Network {
    fn read(text: &str, _range: Range) -> Option<Self> {
        text.parse().ok()
    }

    fn allowed(_range: Range) -> String {
        "an address or a network such as 10.0.0.0/8".to_owned()
    }
}

/// Where to listen, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionalEndpoint {
    /// There.
    At(Endpoint),
    /// Nowhere.
    Off,
}

impl Value for OptionalEndpoint {
    fn read(text: &str, range: Range) -> Option<Self> {
        match text {
            "off" | "none" => Some(Self::Off),
            _ => Endpoint::read(text, range).map(Self::At),
        }
    }

    fn allowed(range: Range) -> String {
        format!("{}, or off", Endpoint::allowed(range))
    }
}

/// Any address of the machine; the texts of RabbitMQ for it are taken too.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    text.trim_matches(['[', ']']).parse().ok()
}

/// An enum whose variants are words. Case does not matter: RabbitMQ's mechanisms are in capitals.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident {
        $($(#[$variant_attribute:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_attribute])* $variant,)+
        }

        impl $crate::config::value::Value for $name {
            fn read(text: &str, _range: $crate::config::value::Range) -> Option<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word $(| $alias)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn allowed(_range: $crate::config::value::Range) -> String {
                [$($word),+].join(", ")
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_have_units() {
        for (text, expected) in [
            ("1800000", Some(1_800_000)),
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("30min", Some(1_800_000)),
            ("1h30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("1w", Some(604_800_000)),
            ("", None),
            ("s", None),
            ("5 s", None),
            ("5y", None),
            ("-5", None),
            ("99999999999999999999w", None),
        ] {
            let read = Millis::read(text, ANY).map(|Millis(millis)| millis);
            assert_eq!(read, expected, "{text}");
        }
        assert_eq!(Secs::read("5m", ANY), Some(Secs(300)));
        assert_eq!(Secs::read("60", ANY), Some(Secs(60)));
        assert_eq!(Secs::read("70000", ANY), None);
    }

    #[test]
    fn a_number_keeps_to_its_range_and_to_its_type() {
        assert_eq!(u16::read("65535", ANY), Some(65535));
        assert_eq!(u16::read("65536", ANY), None);
        assert_eq!(u16::read("0", (1, 9)), None);
        assert_eq!(
            u16::allowed((1, u64::MAX)),
            "a whole number from 1 to 65535"
        );
        assert_eq!(u64::allowed(ANY), "a whole number from 0 on");
    }

    #[test]
    fn no_bound_is_infinity() {
        assert_eq!(Limit::read("infinity", ANY), Some(Limit(None)));
        assert_eq!(Limit::read("7", ANY), Some(Limit(Some(7))));
        assert_eq!(Limit::read("x", ANY), None);
        // What has a longest time of its own takes that.
        assert_eq!(Millis::read("infinity", (1, 60)), Some(Millis(60)));
        assert_eq!(Millis::read("infinity", ANY), None);
    }

    #[test]
    fn a_listener_is_a_port_or_an_address() {
        assert_eq!(Endpoint::read("5672", ANY), Some(Endpoint::Port(5672)));
        let v6 = "[::1]:5672";
        assert_eq!(
            Endpoint::read(v6, ANY),
            Some(Endpoint::At(v6.parse().unwrap()))
        );
        assert_eq!(Endpoint::read("::1:5672", ANY), Endpoint::read(v6, ANY));
        assert_eq!(Endpoint::read("65536", ANY), None);
        assert_eq!(Endpoint::read("127.0.0.1", ANY), None);
        assert_eq!(Vec::<Endpoint>::read("none", ANY), Some(Vec::new()));
    }
}
