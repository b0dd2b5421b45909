//! When a message is due, as its headers and the arguments of its exchange say.

use leveret_wire::{
    content::{BasicProperties, RawProperties},
    value::{FieldTable, FieldValue, ShortString, Timestamp as Seconds},
};

use crate::{
    ids::Timestamp,
    message::Message,
    refusal::{ObjectKind, Refusal},
};

/// Milliseconds to wait.
const X_DELAY: &str = "x-delay";
/// When to leave.
const X_DELIVER_AT: &str = "x-deliver-at";

/// Exchange arguments of this broker: any type delays, and which header says until when.
const DELAYED_EXCHANGE: &str = "x-delayed-exchange";
const DELAY_UNTIL_HEADER: &str = "x-delay-until-header";

/// Nobody waits longer: ten years, as of every time a message can have.
const WAIT_MAX_MILLIS: u64 = 315_360_000_000;

/// Which headers delay a message on one exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DelayRules {
    x_delay: bool,
    deliver_at: bool,
    until_header: Option<ShortString>,
}

/// How long a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// When it is due.
    pub due: Timestamp,
    /// The header `x-delay` said so, and is to be turned.
    pub by_x_delay: bool,
}

impl DelayRules {
    /// Whether the arguments that concern delays are of their types.
    pub(crate) fn check(
        name: &ShortString,
        vhost: &ShortString,
        arguments: &FieldTable,
    ) -> Result<(), Refusal> {
        let is_wrong = |key: &str, is_right: fn(&FieldValue) -> bool| {
            let value = arguments.get(key.as_bytes())?;
            (!is_right(value)).then(|| Refusal::InvalidArgumentType {
                kind: ObjectKind::Exchange,
                name: name.clone(),
                vhost: vhost.clone(),
                arg: key.to_owned(),
                type_name: value.type_name(),
            })
        };
        let flag = is_wrong(DELAYED_EXCHANGE, |value| value.as_bool().is_some());
        let header = is_wrong(DELAY_UNTIL_HEADER, |value| {
            let name = value.as_bytes();
            name.is_some_and(|name| ShortString::try_from(name).is_ok())
        });
        flag.or(header).map_or(Ok(()), Err)
    }

    /// Reads arguments of an exchange; `None` when it delays nothing.
    pub(crate) fn of(is_delayed_type: bool, arguments: &FieldTable) -> Option<Self> {
        let is_asked = arguments.get(DELAYED_EXCHANGE.as_bytes()) == Some(&FieldValue::Bool(true));
        let until_header = arguments
            .get(DELAY_UNTIL_HEADER.as_bytes())
            .and_then(FieldValue::as_bytes)
            .and_then(|name| ShortString::try_from(name).ok())
            .map(|name| name.detach());
        let rules = Self {
            x_delay: is_delayed_type || is_asked,
            deliver_at: is_asked,
            until_header,
        };
        (rules != Self::default()).then_some(rules)
    }

    /// How long a message with these headers waits; `None` when it goes on at once. What is past or
    /// cannot be read does not count.
    pub(crate) fn wait(&self, headers: &FieldTable, now: Timestamp) -> Option<Wait> {
        if self.x_delay
            && let Some(millis) = headers
                .get(X_DELAY.as_bytes())
                .and_then(FieldValue::as_integer)
            && let Ok(millis @ 1..) = u64::try_from(millis)
        {
            return Some(Wait {
                due: now.plus_millis(millis.min(WAIT_MAX_MILLIS)),
                by_x_delay: true,
            });
        }
        let at = |name: &[u8]| headers.get(name).and_then(moment);
        let deliver_at = self
            .deliver_at
            .then(|| at(X_DELIVER_AT.as_bytes()))
            .flatten();
        let until = self.until_header.as_ref();
        let due = deliver_at.or_else(|| until.and_then(|name| at(name.as_bytes())))?;
        (due > now).then_some(Wait {
            due: due.min(now.plus_millis(WAIT_MAX_MILLIS)),
            by_x_delay: false,
        })
    }
}

impl Wait {
    /// The message as it is held and will be delivered: a header `x-delay` that was obeyed has its sign
    /// turned, so that nobody obeys it twice.
    #[must_use]
    pub fn held(self, message: &Message) -> Message {
        if !self.by_x_delay {
            return message.clone();
        }
        let raw = RawProperties::from_wire(message.properties().to_vec().into());
        let Ok(mut properties) = raw.and_then(|raw| BasicProperties::decode(&raw)) else {
            return message.clone();
        };
        if let Some(headers) = &mut properties.headers
            && let Some(turned) = headers.get(X_DELAY.as_bytes()).and_then(turned)
        {
            headers.set(ShortString::from_static(X_DELAY), turned);
        }
        let properties = properties.encode();
        message.with_properties(properties.as_bytes())
    }
}

/// The negative of an integer, of the same type where it has one.
fn turned(value: &FieldValue) -> Option<FieldValue> {
    Some(match value {
        FieldValue::Byte(number) => FieldValue::Byte(number.checked_neg()?),
        FieldValue::Short(number) => FieldValue::Short(number.checked_neg()?),
        FieldValue::Int(number) => FieldValue::Int(number.checked_neg()?),
        FieldValue::UnsignedByte(number) => FieldValue::Short(-i16::from(*number)),
        FieldValue::UnsignedShort(number) => FieldValue::Int(-i32::from(*number)),
        FieldValue::Long(_) | FieldValue::UnsignedInt(_) => {
            FieldValue::Long(value.as_integer()?.checked_neg()?)
        }
        FieldValue::LongString(_)
        | FieldValue::Bytes(_)
        | FieldValue::Bool(_)
        | FieldValue::Float(_)
        | FieldValue::Double(_)
        | FieldValue::Decimal(_)
        | FieldValue::Timestamp(_)
        | FieldValue::Void
        | FieldValue::Table(_)
        | FieldValue::Array(_) => return None,
    })
}

/// A timestamp in seconds, an integer in milliseconds, or text in the manner of RFC 3339.
fn moment(value: &FieldValue) -> Option<Timestamp> {
    if let FieldValue::Timestamp(Seconds(seconds)) = value {
        return Some(Timestamp::new(seconds.checked_mul(1000)?));
    }
    if let FieldValue::LongString(text) = value {
        return written(text.as_bytes());
    }
    u64::try_from(value.as_integer()?).ok().map(Timestamp::new)
}

/// `2026-11-30T12:00:00.250+01:00`. As the task libraries write it, a space may stand for the `T`, parts
/// of a second may be of any length, and no offset means UTC.
fn written(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (date, time) = text.split_at_checked(10)?;
    let mut date = date.split('-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = time.strip_prefix(['T', 't', ' '])?;
    let offset_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, offset) = time.split_at(offset_at);
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut clock = clock.split(':').map(digits);
    let (hour, minute) = (clock.next()??, clock.next()??);
    let second = clock.next().unwrap_or(Some(0))?;
    let is_odd = !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
        || date.next().is_some()
        || clock.next().is_some();
    if is_odd || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis = format!("{fraction:0<3}").get(..3).and_then(digits)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let millis = (seconds - offset_secs(offset)?) * 1000 + millis;
    u64::try_from(millis).ok().map(Timestamp::new)
}

/// `Z`, `+01:00`, `-0530`, `+02` or nothing.
fn offset_secs(text: &str) -> Option<i64> {
    let Some(sign) = text.chars().next() else {
        return Some(0);
    };
    let rest = text.get(1..)?;
    if matches!(sign, 'Z' | 'z') {
        return rest.is_empty().then_some(0);
    }
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None => rest.split_at_checked(2)?,
    };
    let minutes = if minutes.is_empty() {
        0
    } else {
        digits(minutes)?
    };
    let hours = digits(hours)?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let secs = hours * 3600 + minutes * 60;
    Some(if sign == '-' { -secs } else { secs })
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Days since 1970 of a day of the Gregorian calendar.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the odd day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageParts;

    const NOW: Timestamp = Timestamp::new(1_000_000);

    fn due(rules: &DelayRules, key: &'static str, value: FieldValue) -> Option<u64> {
        let wait = rules.wait(&FieldTable::new().with(key, value), NOW);
        wait.map(|wait| wait.due.get())
    }

    fn any() -> DelayRules {
        let arguments = FieldTable::new()
            .with(DELAYED_EXCHANGE, FieldValue::Bool(true))
            .with(DELAY_UNTIL_HEADER, FieldValue::text("eta"));
        DelayRules::of(false, &arguments).unwrap()
    }

    #[test]
    fn x_delay_is_a_positive_integer_of_any_type() {
        let rules = DelayRules::of(true, &FieldTable::new()).unwrap();
        for value in [
            FieldValue::Byte(5),
            FieldValue::UnsignedByte(5),
            FieldValue::Short(5),
            FieldValue::UnsignedShort(5),
            FieldValue::Int(5),
            FieldValue::UnsignedInt(5),
            FieldValue::Long(5),
        ] {
            assert_eq!(due(&rules, X_DELAY, value), Some(1_000_005));
        }
        for value in [
            FieldValue::Int(0),
            FieldValue::Long(-5),
            FieldValue::text("5"),
            FieldValue::Void,
        ] {
            assert_eq!(due(&rules, X_DELAY, value), None);
        }
        let forever = due(&rules, X_DELAY, FieldValue::Long(i64::MAX));
        assert_eq!(forever, Some(1_000_000 + WAIT_MAX_MILLIS));
        // Only where it was asked for.
        assert_eq!(due(&rules, X_DELIVER_AT, FieldValue::Long(2_000_000)), None);
        assert_eq!(DelayRules::of(false, &FieldTable::new()), None);
    }

    #[test]
    fn a_moment_is_seconds_milliseconds_or_text() {
        for (value, expected) in [
            (FieldValue::Timestamp(Seconds(2000)), Some(2_000_000)),
            (FieldValue::Timestamp(Seconds(999)), None),
            (FieldValue::Long(2_000_001), Some(2_000_001)),
            (FieldValue::Long(-1), None),
            (FieldValue::text("1970-01-01T00:33:20Z"), Some(2_000_000)),
            (FieldValue::text("soon"), None),
        ] {
            for key in [X_DELIVER_AT, "eta"] {
                assert_eq!(due(&any(), key, value.clone()), expected, "{value:?}");
            }
        }
    }

    #[test]
    fn texts_of_times_are_read_as_libraries_write_them() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:30:15.5+01:00", 951_823_815_500),
            ("2026-11-30T01:02:03.123456+00:00", 1_796_000_523_123),
            ("2026-11-30 01:02:03", 1_796_000_523_000),
            ("2026-11-30t01:02z", 1_796_000_520_000),
            ("2026-11-29T20:32:03-0430", 1_796_000_523_000),
            ("2026-11-30T03:02:03+02", 1_796_000_523_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(
                written(text.as_bytes()),
                Some(Timestamp::new(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "2026-11-30",
            "2026-13-01T00:00:00Z",
            "2026-11-30T25:00:00Z",
            "2026-11-30T01:60:00Z",
            "2026-11-30T01:02:03.x",
            "2026-11-30T01:02:03Zulu",
            "26-11-30T01:02:03Z",
            "1969-12-31T23:59:59Z",
            "2026-11-30T01:02:03:04Z",
            "2026-11-30T01:02:03+24:00",
            "2026-11-30T01:02:03+01:60",
            "2026-11-30T01:02:03+9223372036854775807:00",
            "2026-11-30T01:02:03-00:9223372036854775807",
            "\u{fc}026-11-30T01:02:03Z",
        ] {
            assert_eq!(written(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_sign_is_turned_in_place_and_in_its_type() {
        for (value, expected) in [
            (FieldValue::Int(5), FieldValue::Int(-5)),
            (FieldValue::UnsignedByte(200), FieldValue::Short(-200)),
            (
                FieldValue::UnsignedInt(u32::MAX),
                FieldValue::Long(-4_294_967_295),
            ),
        ] {
            let headers = |value| {
                let table = FieldTable::new().with("a", FieldValue::Bool(true));
                table.with(X_DELAY, value).with("z", FieldValue::Int(1))
            };
            let properties = |value| BasicProperties {
                headers: Some(headers(value)),
                ..BasicProperties::default()
            };
            let sent = properties(value.clone()).encode();
            let parts = MessageParts {
                exchange: b"x",
                routing_key: b"k",
                properties: sent.as_bytes(),
                body: b"body".as_slice().into(),
                persistent: true,
                priority: None,
            };
            let hidden = [ShortString::from_static("b")];
            let message =
                Message::with_hidden_keys(parts, crate::message::Life::default(), &hidden);
            let rules = DelayRules::of(true, &FieldTable::new()).unwrap();
            let wait = rules.wait(&headers(value), NOW).unwrap();
            let held = wait.held(&message);
            assert_eq!(held.properties(), properties(expected).encode().as_bytes());
            assert_eq!(held.hidden_keys().collect::<Vec<_>>(), hidden);
            assert_eq!(held.body(), b"body");
            // It waits once.
            assert_eq!(
                rules.wait(&held.decoded_properties().headers.unwrap(), NOW),
                None
            );
        }
    }
}
