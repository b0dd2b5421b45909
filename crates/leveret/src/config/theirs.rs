//! RabbitMQ's own keys of rabbitmq.conf and what it takes as their values.
//!
//! `theirs/keys.txt` names all that RabbitMQ 4.3 and its plugins have, under kinds of values. What stands in a file of that
//! syntax must be of its key's kind before anything here makes sense of it, whether the key has an effect or not: RabbitMQ
//! does not start with it otherwise, and an operator who wrote it meant something else. Whether a file that is named is
//! there is no matter of its name: who needs it tells.

use std::{net::IpAddr, str::FromStr, sync::LazyLock};

use super::setting::key as pattern_of;

/// The keys under their kinds.
const KEYS: &str = include_str!("theirs/keys.txt");

/// A key of RabbitMQ's.
#[derive(Debug)]
struct Entry {
    pattern: &'static str,
    /// What it takes; of several any.
    kinds: &'static str,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut entries = Vec::new();
    let mut kinds = "";
    for line in KEYS.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(pattern) => entries.push(Entry { pattern, kinds }),
            None => kinds = line,
        }
    }
    entries
});

/// All keys there are.
pub(crate) fn patterns() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.pattern)
}

/// The value as it is read here; the error is what is allowed. `None` when RabbitMQ has no such key.
pub(crate) fn read(key: &str, value: &str) -> Option<Result<String, String>> {
    let first = |text: &'_ str| text.split('.').next().map(str::len);
    let begins_alike = |pattern: &str| {
        let end = first(pattern).unwrap_or_default();
        pattern.starts_with('$') || key.get(..end) == Some(&pattern[..end])
    };
    let mut fitting = ENTRIES.iter().filter(|entry| {
        begins_alike(entry.pattern) && pattern_of(entry.pattern).matches(key).is_some()
    });
    let entry = fitting.next()?;
    let kinds = || entry.kinds.split(" | ").filter_map(Kind::read);
    let taken = kinds().find_map(|kind| kind.take(value));
    Some(taken.ok_or_else(|| {
        let allowed: Vec<String> = kinds().map(|kind| kind.allowed()).collect();
        allowed.join(", or ")
    }))
}

/// A kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Anything at all: names, paths, expressions.
    Text,
    Boolean,
    /// One of these, with spaces between them.
    Word(&'static str),
    Integer(Bounds),
    /// A number with a point.
    Float,
    /// The same between 0 and 1, and neither of them.
    Share,
    /// Bytes; `kB`, `MB` and `GB` count by 1024.
    Bytesize(Bounds),
    /// Numbers with a unit each.
    Duration,
    /// Address and port.
    Endpoint,
    /// An IP address.
    Address,
    /// Bytes with or without a unit, which counts by 1000 unless it has an `i`.
    Size,
    /// An address of https.
    Https,
    /// A key that RabbitMQ has done away with.
    Nothing,
}

/// Least and most; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bounds {
    least: Option<i128>,
    most: Option<i128>,
}

impl Bounds {
    fn read(text: &str) -> Self {
        let (least, most) = text.split_once("..").unwrap_or_default();
        Self {
            least: least.parse().ok(),
            most: most.parse().ok(),
        }
    }

    fn has(self, number: i128) -> bool {
        self.least.is_none_or(|least| least <= number)
            && self.most.is_none_or(|most| number <= most)
    }

    fn words(self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" from {least} on"),
            _ => String::new(),
        }
    }
}

impl Kind {
    /// As it stands in the list of keys.
    fn read(text: &'static str) -> Option<Self> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match name {
            "text" => Self::Text,
            "boolean" => Self::Boolean,
            "word" => Self::Word(rest),
            "integer" => Self::Integer(Bounds::read(rest)),
            "float" if rest.is_empty() => Self::Float,
            "float" => Self::Share,
            "bytesize" => Self::Bytesize(Bounds::read(rest)),
            "duration" => Self::Duration,
            "endpoint" => Self::Endpoint,
            "address" => Self::Address,
            "size" => Self::Size,
            "https" => Self::Https,
            "nothing" => Self::Nothing,
            _ => return None,
        })
    }

    /// The value if it is of this kind, in a form that the settings of the table read too.
    fn take(self, value: &str) -> Option<String> {
        let as_it_is = |is_taken: bool| is_taken.then(|| value.to_owned());
        match self {
            Self::Text => as_it_is(true),
            Self::Boolean => as_it_is(matches!(value, "true" | "false")),
            Self::Word(words) => as_it_is(words.split(' ').any(|word| word == value)),
            Self::Integer(bounds) => integer(value)
                .filter(|number| bounds.has(*number))
                .map(|number| number.to_string()),
            Self::Float => as_it_is(float(value).is_some()),
            Self::Share => as_it_is(float(value).is_some_and(|share| share > 0.0 && share < 1.0)),
            Self::Bytesize(bounds) => bytesize(value, bounds),
            Self::Duration => duration(value).map(|millis| millis.to_string()),
            Self::Endpoint => {
                let (ip, port) = value.rsplit_once(':')?;
                as_it_is(is_ip(ip) && is_digits(port))
            }
            Self::Address => as_it_is(is_ip(value)),
            Self::Size => integer(value)
                .map(|number| number.to_string())
                .or_else(|| as_it_is(has_unit(value))),
            Self::Https => as_it_is(value.starts_with("https://")),
            Self::Nothing => None,
        }
    }

    /// As in "allowed is ...".
    fn allowed(self) -> String {
        match self {
            Self::Text => "any text".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Word(words) => words.replace(' ', ", "),
            Self::Integer(bounds) => format!("a whole number{}", bounds.words()),
            Self::Float => "a number with a point, such as 0.4".to_owned(),
            Self::Share => "a number with a point between 0 and 1, such as 0.4".to_owned(),
            Self::Bytesize(bounds) => {
                format!("bytes, or a size like 16MB or 64kb{}", bounds.words())
            }
            Self::Duration => "a time with units, like 500ms, 30s, 1h30m".to_owned(),
            Self::Endpoint => "ADDRESS:PORT".to_owned(),
            Self::Address => "an IPv4 or IPv6 address".to_owned(),
            Self::Size => "bytes, or a size like 512MB or 512MiB".to_owned(),
            Self::Https => "a URL that begins with https://".to_owned(),
            Self::Nothing => "no value any more: RabbitMQ has done away with this key".to_owned(),
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number, as long as it may be: what does not fit is beyond every bound.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    is_digits(digits).then(|| sign * digits.parse().unwrap_or(i128::MAX))
}

/// A number with a point and digits on both of its sides.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = unsigned.split_once('.')?;
    let fraction = rest.split(['e', 'E']).next().unwrap_or_default();
    (is_digits(whole) && is_digits(fraction)).then(|| text.parse().ok())?
}

fn bytesize(text: &str, bounds: Bounds) -> Option<String> {
    let units = [("kb", 1_u64 << 10), ("mb", 1 << 20), ("gb", 1 << 30)];
    let found = units.iter().find_map(|(unit, factor)| {
        let upper = unit.to_ascii_uppercase();
        let number = text
            .strip_suffix(unit)
            .or_else(|| text.strip_suffix(&upper))?;
        Some((number, *factor))
    });
    let (number, factor) = found.unwrap_or((text, 1));
    if let Some(number) = integer(number) {
        let bytes = number.checked_mul(factor.into())?;
        return bounds.has(bytes).then(|| bytes.to_string());
    }
    // RabbitMQ multiplies fractions; where there are bounds it takes whole numbers only.
    let fraction = number.strip_prefix('-').unwrap_or(number);
    let (whole, behind) = fraction.split_once('.')?;
    let is_number = (whole.is_empty() || is_digits(whole)) && is_digits(behind);
    let has_bounds = bounds != Bounds::default();
    (is_number && !has_bounds).then(|| times(number, factor))?
}

/// A number with a point, multiplied, to the whole number above.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "sizes and times of people, who write no more digits than a number with a point keeps"
)]
fn times(number: &str, factor: u64) -> Option<String> {
    let number: f64 = number.parse().ok()?;
    Some(((number * factor as f64).ceil() as i128).to_string())
}

/// Milliseconds of a text like `1h30m`, in which each number has a unit and may have a point.
fn duration(text: &str) -> Option<i128> {
    let text = text.to_ascii_lowercase();
    let mut rest = text.as_str();
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let (number, behind) = rest.split_at(rest.find(|c| !is_part(c))?);
        let end = behind.find(is_part).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "f" => 1_209_600_000,
            _ => return None,
        };
        if number.ends_with('.') || number.is_empty() {
            return None;
        }
        let millis = i128::from_str(&times(number, factor)?).ok()?;
        sum = sum.checked_add(millis)?;
        rest = behind;
    }
    (!text.is_empty()).then_some(sum)
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether it ends in digits and a unit. RabbitMQ looks no further.
fn has_unit(text: &str) -> bool {
    let text = text.trim_end_matches(' ').to_ascii_lowercase();
    let units = ["k", "m", "g", "t", "p"];
    let letters = text.len()
        - text
            .trim_end_matches(|c: char| c.is_ascii_lowercase())
            .len();
    let (before, unit) = text.split_at(text.len() - letters);
    let is_unit = units.iter().any(|one| {
        ["", "i", "b", "ib"]
            .iter()
            .any(|end| unit.strip_suffix(end).is_some_and(|unit| unit == *one))
    });
    is_unit && before.ends_with(|c: char| c.is_ascii_digit())
}

/// What RabbitMQ did with values.
#[cfg(test)]
const OBSERVED: &str = include_str!("theirs/observed.txt");

/// The values that were given, and for each key those that RabbitMQ took.
#[cfg(test)]
pub(crate) fn observed() -> (Vec<&'static str>, Vec<(&'static str, Vec<&'static str>)>) {
    let mut lines = OBSERVED.lines().filter(|line| !line.starts_with('#'));
    let values = lines.next().expect("the values").split('\t').collect();
    let keys = lines.map(|line| {
        let mut words = line.split('\t');
        (
            words.next().expect("a key"),
            words.filter(|word| !word.is_empty()).collect(),
        )
    });
    (values, keys.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that no operator writes and that are one all the same to RabbitMQ: `5` is 0.0.0.5.
    fn is_odd_address(kinds: &str, value: &str) -> bool {
        kinds == "address" && !value.contains(':')
    }

    #[test]
    fn every_kind_in_the_list_is_one() {
        assert!(ENTRIES.len() > 1000, "{}", ENTRIES.len());
        for entry in ENTRIES.iter() {
            for kind in entry.kinds.split(" | ") {
                assert!(Kind::read(kind).is_some(), "{kind} of {}", entry.pattern);
            }
        }
    }

    #[test]
    fn values_are_taken_and_refused_as_rabbitmq_does() {
        let (values, keys) = observed();
        let mut wrong = Vec::new();
        for (pattern, taken) in &keys {
            let kinds = ENTRIES.iter().find(|entry| entry.pattern == *pattern);
            let kinds = kinds.expect("a key of the list").kinds;
            let key = pattern.replace('$', "");
            let all = values
                .iter()
                .chain(taken.iter().filter(|one| !values.contains(one)));
            for value in all {
                let is_taken = read(&key, value).expect("a key").is_ok();
                if is_taken != taken.contains(value) && !is_odd_address(kinds, value) {
                    wrong.push(format!("{key} = {value}: taken is {is_taken}"));
                }
            }
        }
        assert!(values.len() > 100 && keys.len() > 50);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_value_is_told_as_the_table_reads_it() {
        for (key, value, expected) in [
            ("frame_max", "64kb", "65536"),
            ("frame_max", "1.5MB", "1572864"),
            ("max_channels_per_connection", "0128", "128"),
            ("default_policies.operator.p.expires", "1.5h", "5400000"),
            ("default_policies.operator.p.expires", "1h30m", "5400000"),
            ("disk_free_limit.absolute", "1GB", "1GB"),
            ("listeners.tcp.default", "+5672", "5672"),
        ] {
            assert_eq!(
                read(key, value),
                Some(Ok(expected.to_owned())),
                "{key} = {value}"
            );
        }
        assert_eq!(read("heartbeet", "1"), None);
    }

    #[test]
    fn what_is_refused_says_what_is_allowed() {
        let refused = |key, value| read(key, value).expect("a key").expect_err("refused");
        assert_eq!(refused("mqtt.prefetch", "x"), "a whole number");
        assert_eq!(refused("consumer_timeout", "0"), "a whole number from 1 on");
        assert_eq!(
            refused("max_connections", "x"),
            "infinity, or a whole number"
        );
        assert_eq!(refused("proxy_protocol", "yes"), "true or false");
    }
}
