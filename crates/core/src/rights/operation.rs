//! Which rights an operation needs, in RabbitMQ's order, whichever way it is asked for.
//!
//! A right is asked for before it is known whether the thing exists: a name that the user may not touch is
//! refused as such, whatever there is. What the vhost refuses for everybody, such as a reserved name, comes
//! first where RabbitMQ looks at it first; then nothing is asked here.

use leveret_wire::value::{FieldTable, FieldValue, ShortString};

use super::{Right, Rights};
use crate::{
    record::ExchangeKind,
    refusal::{ObjectKind, Refusal},
};

const ALTERNATE_EXCHANGE: &[u8] = b"alternate-exchange";
const DEAD_LETTER_EXCHANGE: &[u8] = b"x-dead-letter-exchange";

const EXCHANGE: ObjectKind = ObjectKind::Exchange;
const QUEUE: ObjectKind = ObjectKind::Queue;

impl Rights {
    /// Declares an exchange; says what refuses it unless it is there already.
    ///
    /// # Errors
    ///
    /// [`Refusal::AccessRefused`].
    pub fn check_exchange_declare(
        &self,
        name: &ShortString,
        arguments: &FieldTable,
    ) -> Result<Option<Refusal>, Refusal> {
        self.check(Right::Configure, EXCHANGE, name)?;
        let alternate = exchange_in(arguments, ALTERNATE_EXCHANGE);
        Ok(self.check_passed_on(EXCHANGE, name, alternate).err())
    }

    /// Declares a queue; says what refuses it unless it is there already.
    ///
    /// # Errors
    ///
    /// [`Refusal::AccessRefused`].
    pub fn check_queue_declare(
        &self,
        name: &ShortString,
        arguments: &FieldTable,
    ) -> Result<Option<Refusal>, Refusal> {
        self.check(Right::Configure, QUEUE, name)?;
        let dead_letter = exchange_in(arguments, DEAD_LETTER_EXCHANGE);
        Ok(self.check_passed_on(QUEUE, name, dead_letter).err())
    }

    /// Binds or unbinds; `kind_of` tells of which kind the source is, if it is there.
    ///
    /// # Errors
    ///
    /// [`Refusal::AccessRefused`] and [`Refusal::TopicRefused`].
    pub fn check_binding(
        &self,
        (kind, destination): (ObjectKind, &ShortString),
        source: &ShortString,
        key: &ShortString,
        kind_of: impl FnOnce(&ShortString) -> Option<ExchangeKind>,
    ) -> Result<(), Refusal> {
        self.check(Right::Write, kind, destination)?;
        if source.is_empty() || (kind == EXCHANGE && destination.is_empty()) {
            return Ok(());
        }
        self.check(Right::Read, EXCHANGE, source)?;
        if self.has_topics(source) && kind_of(source) == Some(ExchangeKind::Topic) {
            self.check_topic(Right::Read, source, key)?;
        }
        Ok(())
    }

    /// Whatever comes into something new may go on to the exchange that its arguments name. Whether it is new shows only when
    /// it is declared: what was there when somebody looked may be gone by then.
    fn check_passed_on(
        &self,
        kind: ObjectKind,
        name: &ShortString,
        to: Option<ShortString>,
    ) -> Result<(), Refusal> {
        let Some(to) = to else {
            return Ok(());
        };
        self.check(Right::Read, kind, name)?;
        self.check(Right::Write, EXCHANGE, &to)
    }
}

/// The exchange that an argument names; one of another type is refused elsewhere.
fn exchange_in(arguments: &FieldTable, key: &[u8]) -> Option<ShortString> {
    let FieldValue::LongString(name) = arguments.get(key)? else {
        return None;
    };
    ShortString::try_from(name.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{PermissionRecord, TopicPermissionRecord};

    fn name(text: &str) -> ShortString {
        ShortString::try_from(text).expect("short")
    }

    fn rights(write: &str) -> Rights {
        let permission = PermissionRecord {
            vhost: name("v"),
            user: name("u"),
            configure: ".*".to_owned(),
            write: write.to_owned(),
            read: ".*".to_owned(),
        };
        let topics = TopicPermissionRecord {
            vhost: name("v"),
            user: name("u"),
            exchange: name("x"),
            write: String::new(),
            read: "^pub".to_owned(),
        };
        Rights::none(name("v"), name("u"))
            .with_permission(Some(&permission))
            .and_then(|rights| rights.with_topic_permission(&topics))
            .expect("patterns")
    }

    #[test]
    fn a_binding_key_of_a_topic_exchange_must_be_one_that_may_be_read() {
        let rights = rights(".*");
        let bound = |source, key, kind| {
            rights.check_binding((QUEUE, &name("q")), &name(source), &name(key), |_| kind)
        };
        let topic = Some(ExchangeKind::Topic);
        assert_eq!(bound("x", "public.#", topic), Ok(()));
        assert!(matches!(
            bound("x", "secret.#", topic),
            Err(Refusal::TopicRefused { .. })
        ));
        // Nothing is said of other exchanges, and keys of other kinds are no topics.
        assert_eq!(bound("y", "secret.#", topic), Ok(()));
        assert_eq!(bound("x", "secret.#", Some(ExchangeKind::Direct)), Ok(()));
        assert_eq!(bound("x", "secret.#", None), Ok(()));
    }

    #[test]
    fn something_new_must_not_pass_on_to_where_its_maker_may_not_write() {
        let rights = rights("^mine");
        let arguments = |key, to: &'static str| FieldTable::new().with(key, FieldValue::text(to));
        let queue = |to| {
            let arguments = arguments("x-dead-letter-exchange", to);
            rights.check_queue_declare(&name("q"), &arguments)
        };
        let exchange = |to| {
            let arguments = arguments("alternate-exchange", to);
            rights.check_exchange_declare(&name("e"), &arguments)
        };
        assert_eq!(queue("mine"), Ok(None));
        assert_eq!(exchange("mine"), Ok(None));
        for refused in [queue("yours"), exchange("yours")] {
            assert!(matches!(refused, Ok(Some(Refusal::AccessRefused { .. }))));
        }
    }
}
