//! What a client says of itself, and its credentials in the mechanisms' encodings.

use leveret_wire::value::{FieldTable, FieldValue, RawTable, RawValue};

use crate::{outgoing::Capabilities, settings::Mechanism};

/// User and password as they were sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Credentials<'a> {
    pub(super) user: &'a [u8],
    pub(super) password: &'a [u8],
}

/// The mechanism with exactly this name, if it is offered.
pub(super) fn offered(mechanisms: &[Mechanism], name: &[u8]) -> Option<Mechanism> {
    mechanisms
        .iter()
        .copied()
        .find(|mechanism| mechanism.name().as_bytes() == name)
}

/// NUL, user, NUL, password; no authorisation id in front and no NUL in the password.
pub(super) fn plain(response: &[u8]) -> Option<Credentials<'_>> {
    let mut parts = response.split(|byte| *byte == 0);
    let (authorisation_id, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none();
    (authorisation_id.is_empty() && is_whole).then_some(Credentials { user, password })
}

/// A field table without its length.
pub(super) fn amqplain(response: &[u8]) -> Option<Credentials<'_>> {
    let table = RawTable::new(response);
    table.check().ok()?;
    let value = |key: &[u8]| table.get(key);
    // What is no text is nobody's name or password, and is refused like another wrong one.
    match (value(b"LOGIN")?, value(b"PASSWORD")?) {
        (
            RawValue::LongString(user) | RawValue::Bytes(user),
            RawValue::LongString(password) | RawValue::Bytes(password),
        ) => Some(Credentials { user, password }),
        _ => Some(Credentials {
            user: &[],
            password: &[],
        }),
    }
}

/// What the second round of [`crate::Mechanism::CrDemo`] asks.
pub(super) const CR_DEMO_CHALLENGE: &str = "Please tell me your password";

/// The password in the answer to [`CR_DEMO_CHALLENGE`].
pub(super) fn cr_demo(response: &[u8]) -> Option<&[u8]> {
    response.strip_prefix(b"My password is ")
}

/// Only what is `true` as a boolean counts.
pub(super) fn capabilities(client_properties: &FieldTable) -> Capabilities {
    let table = client_properties
        .get(b"capabilities")
        .and_then(FieldValue::as_table);
    let has = |key: &[u8]| {
        table
            .and_then(|table| table.get(key))
            .and_then(FieldValue::as_bool)
            == Some(true)
    };
    Capabilities {
        authentication_failure_close: has(b"authentication_failure_close"),
        consumer_cancel_notify: has(b"consumer_cancel_notify"),
        connection_blocked: has(b"connection.blocked"),
    }
}

#[cfg(test)]
mod tests {
    use super::{amqplain, plain};

    #[test]
    fn plain_is_nul_user_nul_password() {
        let login = plain(b"\0guest\0secret").expect("well-formed");
        assert_eq!(
            (login.user, login.password),
            (&b"guest"[..], &b"secret"[..])
        );
        let nobody = plain(b"\0\0").expect("well-formed");
        assert_eq!((nobody.user, nobody.password), (&b""[..], &b""[..]));
    }

    #[test]
    fn other_shapes_of_plain_are_none() {
        for response in [
            &b""[..],
            b"guest",
            b"\0guest",
            b"guest\0guest\0secret",
            b"guest\0secret",
            b"\0guest\0sec\0ret",
        ] {
            assert!(plain(response).is_none(), "{}", response.escape_ascii());
        }
    }

    #[test]
    fn amqplain_is_a_table_without_length() {
        let response = b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDx\0\0\0\x06secret";
        let login = amqplain(response).expect("well-formed");
        assert_eq!(
            (login.user, login.password),
            (&b"guest"[..], &b"secret"[..])
        );
        let with_length = [&[0, 0, 0, response.len() as u8][..], response].concat();
        assert!(amqplain(&with_length).is_none());
        assert!(amqplain(b"\x05LOGINS\0\0\0\x05guest").is_none());
        assert!(amqplain(b"\x08PASSWORDS\0\0\0\x05guest").is_none());
        let login = amqplain(b"\x05LOGINt\x01\x08PASSWORDS\0\0\0\x05guest").expect("complete");
        assert_eq!((login.user, login.password), (&b""[..], &b""[..]));
    }
}
