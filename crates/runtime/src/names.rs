//! Names that the broker makes up.

use leveret_wire::value::ShortString;
use rand::RngCore;

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters that 16 random bytes become.
const RANDOM_LEN: usize = 22;

/// Whether it may be what [`generate_name`] put behind a prefix.
pub(crate) fn is_random_part(bytes: &[u8]) -> bool {
    bytes.len() == RANDOM_LEN && bytes.iter().all(|byte| URL_SAFE.contains(byte))
}

/// The prefix and 22 characters of URL-safe base64, as RabbitMQ makes them: `amq.gen-…`, `amq.ctag-…`.
///
/// # Panics
///
/// When the prefix is longer than a short string can be.
#[must_use]
pub fn generate_name(prefix: &str) -> ShortString {
    let mut random = [0u8; RANDOM_LEN];
    rand::rng().fill_bytes(&mut random);
    let mut name = String::with_capacity(prefix.len() + RANDOM_LEN);
    name.push_str(prefix);
    name.extend(
        random
            .iter()
            .map(|octet| char::from(URL_SAFE[usize::from(octet % 64)])),
    );
    ShortString::try_from(name).expect("a prefix of the broker is short")
}

#[cfg(test)]
mod tests {
    use super::{generate_name, is_random_part};

    #[test]
    fn a_generated_name_is_known_by_its_random_part() {
        let name = generate_name("prefix.");
        let random = &name.as_bytes()["prefix.".len()..];
        assert!(is_random_part(random));
        assert!(!is_random_part(&random[1..]));
        assert!(!is_random_part(b"abcdefghijklmnopqrstu."));
        assert_ne!(generate_name("prefix."), name);
    }
}
