//! How passwords are stored, and what checking one may cost.
//!
//! The hashes of RabbitMQ are made at once, on the task that asks. Argon2id takes memory and some ten milliseconds on
//! purpose: a login waits for one of a few places, so that a storm of them takes neither the machine's memory nor the
//! tasks of other connections.

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version,
    password_hash::SaltString,
};
use leveret_core::record::{HashAlgorithm, UserRecord};
use md5::Md5;
use rand::RngCore;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Salt of RabbitMQ's hashes.
const SALT_LEN: usize = 4;

/// Salt of Argon2id.
const ARGON2_SALT_LEN: usize = 16;

/// Memory that a hash of Argon2id takes, in KiB; its rounds and lanes. As OWASP recommends.
const ARGON2_COST: (u32, u32, u32) = (19 * 1024, 2, 1);

/// The most that a stored hash may ask for: definitions can bring any.
const ARGON2_COST_MAX: (u32, u32, u32) = (64 * 1024, 8, 4);

/// Hashes of Argon2id that logins make at once; others wait. What they take together is this many times the memory of
/// one, and never more threads.
const HASHINGS_MAX: usize = 2;

static HASHINGS: Semaphore = Semaphore::const_new(HASHINGS_MAX);

/// A hash that no password has, of [`ARGON2_COST`].
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The stored form of a password: a fresh salt, then the hash over salt and password; of Argon2id its text.
#[must_use]
pub fn hash_password(algorithm: HashAlgorithm, password: &[u8]) -> Vec<u8> {
    if algorithm == HashAlgorithm::Argon2id {
        return argon2id(password);
    }
    let mut salt = [0; SALT_LEN];
    rand::rng().fill_bytes(&mut salt);
    salted_hash(algorithm, salt, password)
}

/// Somebody whom no password fits, and who costs as much as those whose passwords are hashed like this.
pub(crate) fn nobody(algorithm: HashAlgorithm) -> UserRecord {
    let password_hash = match algorithm {
        HashAlgorithm::Argon2id => NOBODYS.as_bytes().to_vec(),
        HashAlgorithm::Sha256 | HashAlgorithm::Sha512 | HashAlgorithm::Md5 => vec![0; SALT_LEN],
    };
    UserRecord {
        password_hash,
        algorithm,
        ..UserRecord::default()
    }
}

/// Whether that is the user's password.
pub(crate) async fn is_password_of(user: &Arc<UserRecord>, password: &[u8]) -> bool {
    if user.algorithm != HashAlgorithm::Argon2id {
        return is_password(user, password);
    }
    let Ok(place) = HASHINGS.acquire().await else {
        return false;
    };
    let (user, password) = (user.clone(), password.to_vec());
    let checked = spawn_blocking(move || {
        // Given back by who takes the memory, also when nobody waits for the answer any more.
        let _place = place;
        is_password(&user, &password)
    });
    checked.await.unwrap_or(false)
}

/// The same, here and now.
pub(crate) fn is_password(user: &UserRecord, password: &[u8]) -> bool {
    let hash = &user.password_hash;
    if user.algorithm == HashAlgorithm::Argon2id {
        return is_argon2id(hash, password);
    }
    hash.first_chunk().is_some_and(|salt| {
        salted_hash(user.algorithm, *salt, password)
            .ct_eq(hash)
            .into()
    })
}

fn salted_hash(algorithm: HashAlgorithm, salt: [u8; SALT_LEN], password: &[u8]) -> Vec<u8> {
    match algorithm {
        HashAlgorithm::Sha256 => salted::<Sha256>(salt, password),
        HashAlgorithm::Sha512 => salted::<Sha512>(salt, password),
        HashAlgorithm::Md5 => salted::<Md5>(salt, password),
        HashAlgorithm::Argon2id => unreachable!("it has a salt and a text of its own"),
    }
}

fn salted<Hash: Digest>(salt: [u8; SALT_LEN], password: &[u8]) -> Vec<u8> {
    let digest = Hash::new()
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    salt.iter().copied().chain(digest).collect()
}

fn argon2id(password: &[u8]) -> Vec<u8> {
    let (memory, rounds, lanes) = ARGON2_COST;
    let cost = Params::new(memory, rounds, lanes, None).expect("they are within its bounds");
    let mut salt = [0; ARGON2_SALT_LEN];
    rand::rng().fill_bytes(&mut salt);
    let salt = SaltString::encode_b64(&salt).expect("it has room");
    let hashing = Argon2::new(Algorithm::Argon2id, Version::V0x13, cost);
    // A password that is longer than it takes, some gigabytes, fits nobody.
    let hash = hashing.hash_password(password, &salt);
    hash.map_or_else(|_| Vec::new(), |hash| hash.to_string().into_bytes())
}

fn is_argon2id(stored: &[u8], password: &[u8]) -> bool {
    let hash = str::from_utf8(stored).ok();
    let Some(hash) = hash.and_then(|text| PasswordHash::new(text).ok()) else {
        return false;
    };
    let (memory, rounds, lanes) = ARGON2_COST_MAX;
    let is_bounded = Params::try_from(&hash).is_ok_and(|cost| {
        cost.m_cost() <= memory && cost.t_cost() <= rounds && cost.p_cost() <= lanes
    });
    hash.algorithm == Algorithm::Argon2id.ident()
        && is_bounded
        && Argon2::default().verify_password(password, &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(algorithm: HashAlgorithm, hash: &[u8]) -> UserRecord {
        UserRecord {
            password_hash: hash.to_vec(),
            algorithm,
            ..UserRecord::default()
        }
    }

    #[test]
    fn a_password_is_the_one_that_was_hashed() {
        for algorithm in HashAlgorithm::ALL {
            let hashes = [
                hash_password(algorithm, b"secret"),
                hash_password(algorithm, b"secret"),
            ];
            assert_ne!(
                hashes[0], hashes[1],
                "{algorithm:?}: the salt is another each time"
            );
            assert!(
                is_password(&user(algorithm, &hashes[0]), b"secret"),
                "{algorithm:?}"
            );
            for wrong in [&b"Secret"[..], b"", b"secret\0"] {
                assert!(
                    !is_password(&user(algorithm, &hashes[0]), wrong),
                    "{algorithm:?}"
                );
            }
        }
    }

    #[test]
    fn sc41_a_hash_of_argon2id_that_others_made_verifies() {
        // The test vector of the reference implementation's command line.
        let known =
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let known = user(HashAlgorithm::Argon2id, known.as_bytes());
        assert!(is_password(&known, b"password"));
        assert!(!is_password(&known, b"Password"));
    }

    #[test]
    fn sc41_odd_hashes_of_argon2id_fit_nobody_and_cost_nothing() {
        let tail = "AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        for odd in [
            String::new(),
            "salt".to_owned(),
            "$argon2id$".to_owned(),
            // More memory, rounds and lanes than anybody gets.
            format!("$argon2id$v=19$m=4294967295,t=1,p=1${tail}"),
            format!("$argon2id$v=19$m=65537,t=1,p=1${tail}"),
            format!("$argon2id$v=19$m=64,t=4294967295,p=1${tail}"),
            format!("$argon2id$v=19$m=64,t=1,p=5${tail}"),
            // Kinds that are easier to guess.
            format!("$argon2i$v=19$m=64,t=1,p=1${tail}"),
            format!("$argon2d$v=19$m=64,t=1,p=1${tail}"),
            format!("$scrypt$v=19$m=64,t=1,p=1${tail}"),
        ] {
            assert!(
                !is_password(&user(HashAlgorithm::Argon2id, odd.as_bytes()), b""),
                "{odd}"
            );
        }
        assert!(!is_password(
            &user(HashAlgorithm::Argon2id, b"\xff\xfe"),
            b""
        ));
    }

    #[test]
    fn nobody_costs_what_a_new_user_does() {
        let made = argon2id(b"secret");
        let cost = |hash: &[u8]| {
            let text = str::from_utf8(hash).expect("text");
            let hash = PasswordHash::new(text).expect("a hash");
            let length = hash.hash.expect("it has one").len();
            (Params::try_from(&hash).expect("good"), length)
        };
        let ((ours, length), (theirs, nobodys_length)) = (cost(&made), cost(NOBODYS.as_bytes()));
        assert_eq!(
            (ours.m_cost(), ours.t_cost(), ours.p_cost(), length),
            (
                theirs.m_cost(),
                theirs.t_cost(),
                theirs.p_cost(),
                nobodys_length
            )
        );
        for algorithm in HashAlgorithm::ALL {
            for password in [&b""[..], b"secret"] {
                assert!(!is_password(&nobody(algorithm), password), "{algorithm:?}");
            }
        }
    }

    #[tokio::test]
    async fn sc41_logins_make_few_hashes_at_once() {
        let user = Arc::new(nobody(HashAlgorithm::Argon2id));
        let places = HASHINGS.acquire_many(u32::try_from(HASHINGS_MAX).expect("few"));
        let places = places.await.expect("open");
        let mut waiting = Box::pin(is_password_of(&user, b"x"));
        let first = tokio::time::timeout(std::time::Duration::ZERO, &mut waiting).await;
        assert!(first.is_err(), "there is no place");
        // Other hashes need none.
        let other = Arc::new(nobody(HashAlgorithm::Sha256));
        assert!(!is_password_of(&other, b"x").await);
        drop(places);
        assert!(!waiting.await);
    }
}
