//! The checks of a publish whose content is complete.

use leveret_core::ids::ChannelKey;
use leveret_wire::{
    content::{ContentError, PropertyScan, RawProperties},
    value::{RawTable, RawValue, ShortString, raw_values},
};

use super::content::Finished;
use crate::{
    error::{ChannelError, ConnectionError, Fault},
    sink::{Promise, Publish, Routed, Sink},
};

/// The longest a message may live: ten years.
const EXPIRATION_MAX_MILLIS: u64 = 315_360_000_000;

/// The name that stands for the reply consumer of this channel.
pub(super) const REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// Headers with extra routing keys. Nobody who gets the message may see the second.
const CC: &[u8] = b"CC";
const BCC: &[u8] = b"BCC";

/// What a publish is measured by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publisher<'a> {
    pub(crate) channel: ChannelKey,
    pub(crate) user: &'a ShortString,
    pub(crate) is_impersonator: bool,
    pub(crate) message_size_max: u64,
    /// Where replies go; the channel fills it in.
    pub(crate) reply_address: Option<&'a ShortString>,
}

/// What the properties say that the broker acts on.
#[derive(Debug, Default)]
struct Facts {
    /// The reply-to stands for the reply consumer of this channel.
    wants_replies: bool,
    expiration_millis: Option<u64>,
    /// The expiration has a sign or leading zeros, which nobody gets to see.
    is_expiration_odd: bool,
    /// What the headers `CC` and `BCC` hold.
    extra_keys: ExtraKeys,
}

/// Further routing keys, as slices of the properties.
#[derive(Debug, Default)]
struct ExtraKeys {
    keys: Vec<ShortString>,
    /// So many of them, the last ones, are nobody's business.
    hidden: usize,
    /// There is such a header, even if without a key.
    has_bcc: bool,
}

/// Checks a content and hands it to the sink. The order of the checks is RabbitMQ's.
pub(crate) fn publish<S: Sink>(
    content: Finished,
    promise: Promise,
    publisher: Publisher<'_>,
    sink: &mut S,
) -> Result<Routed, Fault> {
    let Finished {
        head,
        properties,
        size,
        body,
    } = content;
    let channel = publisher.channel;
    if head.immediate {
        return Err(ConnectionError::Immediate.into());
    }
    let Some(body) = body else {
        let max = publisher.message_size_max;
        return Err(ChannelError::MessageTooLarge { size, max }.into());
    };
    let scan = properties.scan().map_err(ConnectionError::Content)?;
    let facts = match check(&scan, &properties, publisher) {
        Ok(facts) => facts,
        Err(error) => {
            sink.check_exchange(channel, &head.exchange, &[])?;
            return Err(error.into());
        }
    };
    if let Some(error) = foreign_user(&scan, publisher) {
        let mut keys = facts.extra_keys.keys;
        keys.insert(0, head.routing_key);
        sink.check_exchange(channel, &head.exchange, &keys)?;
        return Err(error.into());
    }
    let (persistent, priority) = (scan.delivery_mode == Some(2), scan.priority);
    let mut headers = scan
        .headers
        .map(|table| properties.clone().into_bytes().slice_ref(table));
    let mut properties = properties;
    let reply_address = publisher.reply_address.filter(|_| facts.wants_replies);
    if reply_address.is_some() || facts.extra_keys.has_bcc || facts.is_expiration_odd {
        properties =
            rewritten(&properties, reply_address, &facts).map_err(ConnectionError::Content)?;
        headers = properties.headers().map_err(ConnectionError::Content)?;
    }
    let routed = sink.publish(Publish {
        channel,
        exchange: head.exchange,
        routing_key: head.routing_key,
        mandatory: head.mandatory,
        promise,
        persistent,
        priority,
        expiration_millis: facts.expiration_millis,
        headers,
        extra_keys: facts.extra_keys.keys,
        hidden_keys: facts.extra_keys.hidden,
        properties,
        body,
    })?;
    Ok(routed)
}

/// The properties without `BCC`, with the address where replies go, and with a plain number as the
/// expiration.
fn rewritten(
    properties: &RawProperties,
    reply_address: Option<&ShortString>,
    facts: &Facts,
) -> Result<RawProperties, ContentError> {
    let mut properties = properties.without_header(BCC)?;
    if let Some(address) = reply_address {
        properties = properties.with_reply_to(address.clone())?;
    }
    if let Some(millis) = facts.expiration_millis
        && facts.is_expiration_odd
    {
        let number = ShortString::try_from(millis.to_string().as_str())
            .expect("a number of twenty digits is a short string");
        properties = properties.with_expiration(number)?;
    }
    Ok(properties)
}

/// Whether it is a number, but not written as one writes numbers.
const fn is_odd(expiration: &[u8]) -> bool {
    matches!(expiration, [b'+' | b'-', ..] | [b'0', _, ..])
}

fn check(
    scan: &PropertyScan<'_>,
    properties: &RawProperties,
    publisher: Publisher<'_>,
) -> Result<Facts, ChannelError> {
    let wants_replies = scan.reply_to == Some(REPLY_TO);
    if wants_replies && publisher.reply_address.is_none() {
        return Err(ChannelError::NoReplyConsumer);
    }
    let expiration_millis = scan.expiration.map(expiration).transpose()?;
    let extra_keys = match scan.headers {
        Some(headers) => extra_keys(headers, properties)?,
        None => ExtraKeys::default(),
    };
    Ok(Facts {
        wants_replies,
        expiration_millis,
        is_expiration_odd: scan.expiration.is_some_and(is_odd),
        extra_keys,
    })
}

/// A message in the name of somebody whom the publisher may not speak for.
fn foreign_user(scan: &PropertyScan<'_>, publisher: Publisher<'_>) -> Option<ChannelError> {
    let user_id = scan.user_id?;
    if user_id == publisher.user.as_bytes() || publisher.is_impersonator {
        return None;
    }
    Some(ChannelError::ForeignUserId {
        user_id: printed(user_id),
        user: publisher.user.clone(),
    })
}

/// The extra routing keys; each kind has to be an array. What is no string in it is no key, and what
/// is longer than a routing key can be is none either: matching it could take very long.
fn extra_keys(headers: &[u8], properties: &RawProperties) -> Result<ExtraKeys, ChannelError> {
    let (mut cc, mut bcc) = (None, None);
    for (key, value) in RawTable::new(headers).entries().map_while(Result::ok) {
        // The first one of a key counts.
        match key {
            CC => cc = cc.or(Some(value)),
            BCC => bcc = bcc.or(Some(value)),
            _ => {}
        }
    }
    if cc.or(bcc).is_none() {
        return Ok(ExtraKeys::default());
    }
    let whole = properties.clone().into_bytes();
    let mut keys = Vec::new();
    let mut seen = 0;
    for (header, value) in [("CC", cc), ("BCC", bcc)] {
        seen = if header == "BCC" { keys.len() } else { seen };
        let members = match value {
            None => continue,
            Some(RawValue::Array(members)) => members,
            Some(other) => {
                let type_name = type_name(other);
                return Err(ChannelError::UnacceptableTypeInHeader { header, type_name });
            }
        };
        for member in raw_values(members).map_while(Result::ok) {
            if let RawValue::LongString(key) = member {
                keys.extend(ShortString::try_from(whole.slice_ref(key)));
            }
        }
    }
    Ok(ExtraKeys {
        hidden: keys.len() - seen,
        keys,
        has_bcc: bcc.is_some(),
    })
}

/// Digits with an optional sign, as Erlang reads an integer off the front of a string.
fn expiration(text: &[u8]) -> Result<u64, ChannelError> {
    let (is_negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits_len = unsigned
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, leftover) = unsigned.split_at(digits_len);
    let fail = |detail: String| {
        let expiration = printed(text);
        Err(ChannelError::InvalidExpiration { expiration, detail })
    };
    if digits.is_empty() {
        return fail("no_integer".to_owned());
    }
    if !leftover.is_empty() {
        return fail(format!("{{leftover_string,{}}}", erlang_string(leftover)));
    }
    let number = match digits.iter().position(|digit| *digit != b'0') {
        None => return Ok(0),
        Some(zeros) => printed(digits.get(zeros..).unwrap_or_default()),
    };
    if is_negative {
        return fail(pair("value_negative", &format!("-{number}"), text));
    }
    match number.parse() {
        Ok(millis) if millis <= EXPIRATION_MAX_MILLIS => Ok(millis),
        Ok(_) | Err(_) => fail(pair("value_too_large", &number, text)),
    }
}

/// `{tag,number}`; Erlang's formatter breaks the line behind the comma before the eightieth column.
fn pair(tag: &str, number: &str, expiration: &[u8]) -> String {
    const LINE_LEN: usize = 80;
    let column = "invalid expiration '': ".len() + expiration.len() + 1;
    let pair = format!("{{{tag},{number}}}");
    if pair.len() < LINE_LEN.saturating_sub(column) {
        pair
    } else {
        format!("{{{tag},\n{:column$}{number}}}", "")
    }
}

/// A string as Erlang prints it: in quotes, or as a list of numbers when it is not printable.
fn erlang_string(bytes: &[u8]) -> String {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | 8..=13 | 27 | 160..);
    if !bytes.iter().all(is_printable) {
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        return format!("[{}]", numbers.join(","));
    }
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            8 => text.push_str("\\b"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            11 => text.push_str("\\v"),
            12 => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            27 => text.push_str("\\e"),
            plain => text.push(char::from(*plain)),
        }
    }
    text.push('"');
    text
}

/// Bytes as text the way RabbitMQ prints them: as UTF-8 or else each one as a character.
fn printed(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// RabbitMQ's name of a value's type.
const fn type_name(value: RawValue<'_>) -> &'static str {
    match value {
        RawValue::LongString(_) => "longstr",
        RawValue::Bytes(_) => "binary",
        RawValue::Bool(_) => "bool",
        RawValue::Byte(_) => "byte",
        RawValue::UnsignedByte(_) => "unsignedbyte",
        RawValue::Short(_) => "short",
        RawValue::UnsignedShort(_) => "unsignedshort",
        RawValue::Int(_) => "signedint",
        RawValue::UnsignedInt(_) => "unsignedint",
        RawValue::Long(_) => "long",
        RawValue::Float(_) => "float",
        RawValue::Double(_) => "double",
        RawValue::Decimal(_) => "decimal",
        RawValue::Timestamp(_) => "timestamp",
        RawValue::Void => "void",
        RawValue::Table(_) => "table",
        RawValue::Array(_) => "array",
    }
}

#[cfg(test)]
mod tests {
    use super::expiration;

    fn detail(text: &[u8]) -> String {
        expiration(text).expect_err("no expiration").to_string()
    }

    #[test]
    fn expirations_are_whole_numbers_up_to_ten_years() {
        for (text, millis) in [
            ("0", 0),
            ("00", 0),
            ("-0", 0),
            ("+5", 5),
            ("060000", 60_000),
            ("315360000000", 315_360_000_000),
        ] {
            assert_eq!(expiration(text.as_bytes()), Ok(millis), "{text}");
        }
    }

    #[test]
    fn other_expirations_are_refused_in_erlangs_words() {
        for (text, expected) in [
            ("", "invalid expiration '': no_integer"),
            ("abc", "invalid expiration 'abc': no_integer"),
            (" 5", "invalid expiration ' 5': no_integer"),
            ("-", "invalid expiration '-': no_integer"),
            ("-1", "invalid expiration '-1': {value_negative,-1}"),
            ("1.5", "invalid expiration '1.5': {leftover_string,\".5\"}"),
            ("5 ", "invalid expiration '5 ': {leftover_string,\" \"}"),
            ("5\0", "invalid expiration '5\0': {leftover_string,[0]}"),
            (
                "315360000001",
                "invalid expiration '315360000001': {value_too_large,315360000001}",
            ),
        ] {
            assert_eq!(detail(text.as_bytes()), expected);
        }
        assert_eq!(detail(b"\xff"), "invalid expiration '\u{ff}': no_integer");
        assert_eq!(
            detail(b"12345678901234567890"),
            format!(
                "invalid expiration '12345678901234567890': {{value_too_large,\n{:44}12345678901234567890}}",
                ""
            )
        );
    }
}
