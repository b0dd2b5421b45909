//! Who may log in, and from where.

use std::net::IpAddr;

use dashmap::DashMap;
use leveret_core::record::UserRecord;
use leveret_wire::value::ShortString;
use rand::RngCore;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const SALT_LEN: usize = 4;

/// Users who may log in from this machine only, as RabbitMQ's `loopback_users` has it.
const LOOPBACK_USERS: [&str; 1] = ["guest"];

/// A user who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: ShortString,
    /// Its tags.
    pub tags: Vec<String>,
}

/// Unknown user, wrong password or wrong place: a peer cannot tell which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefused {
    /// No such user, or another password.
    #[error("user or password is wrong")]
    Credentials,
    /// The user may log in from loopback only.
    #[error("this user may only connect from loopback addresses")]
    NotLoopback,
}

/// The users of this node.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: DashMap<ShortString, UserRecord>,
}

impl Users {
    pub(crate) fn add(&self, user: UserRecord) {
        self.by_name.insert(user.name.clone(), user);
    }

    pub(crate) fn login(
        &self,
        name: &[u8],
        password: &[u8],
        peer: IpAddr,
    ) -> Result<User, LoginRefused> {
        let known = ShortString::try_from(name)
            .ok()
            .and_then(|name| self.by_name.get(&name).map(|found| found.clone()));
        // An unknown user costs the same hash, so that the time tells nothing.
        let hash = known
            .as_ref()
            .map_or(&[0; SALT_LEN + 32][..], |user| &user.password_hash);
        let is_right = is_password(hash, password);
        let user = known.filter(|_| is_right && !password.is_empty());
        let user = user.ok_or(LoginRefused::Credentials)?;
        if LOOPBACK_USERS.iter().any(|only| user.name == *only) && !is_loopback(peer) {
            return Err(LoginRefused::NotLoopback);
        }
        Ok(User {
            name: user.name,
            tags: user.tags,
        })
    }
}

/// The stored form of a password: a fresh salt, then SHA-256 over salt and password.
pub(crate) fn hash_password(password: &[u8]) -> Vec<u8> {
    let mut salt = [0; SALT_LEN];
    rand::rng().fill_bytes(&mut salt);
    salted_hash(salt, password)
}

fn salted_hash(salt: [u8; SALT_LEN], password: &[u8]) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    salt.iter().copied().chain(digest).collect()
}

fn is_password(hash: &[u8], password: &[u8]) -> bool {
    hash.first_chunk()
        .is_some_and(|salt| salted_hash(*salt, password).ct_eq(hash).into())
}

/// IPv4 addresses may arrive in IPv6 clothes.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest() -> Users {
        let users = Users::default();
        users.add(UserRecord {
            name: ShortString::from_static("guest"),
            password_hash: hash_password(b"guest"),
            tags: vec!["administrator".to_owned()],
        });
        users
    }

    fn login(users: &Users, name: &str, password: &str, peer: &str) -> Result<(), LoginRefused> {
        let peer = peer.parse().expect("an address");
        users
            .login(name.as_bytes(), password.as_bytes(), peer)
            .map(|_| ())
    }

    #[test]
    fn guest_logs_in_from_loopback_only() {
        let users = guest();
        for peer in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(login(&users, "guest", "guest", peer), Ok(()), "{peer}");
        }
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
            assert_eq!(
                login(&users, "guest", "guest", peer),
                Err(LoginRefused::NotLoopback)
            );
        }
    }

    #[test]
    fn wrong_passwords_and_unknown_users_are_refused_alike() {
        let users = guest();
        for (name, password) in [
            ("guest", "wrong"),
            ("guest", ""),
            ("nobody", "guest"),
            ("", ""),
        ] {
            assert_eq!(
                login(&users, name, password, "::1"),
                Err(LoginRefused::Credentials)
            );
        }
    }

    #[test]
    fn a_hash_that_rabbitmq_made_verifies() {
        // Salt 908D C60A, password "test12": the example of RabbitMQ's documentation on passwords.
        let mut hash = vec![0x90, 0x8D, 0xC6, 0x0A];
        hash.extend(
            Sha256::new()
                .chain_update(&hash)
                .chain_update(b"test12")
                .finalize(),
        );
        assert_eq!(hash[4..8], [0xA5, 0xB9, 0x24, 0xB3]);
        assert!(is_password(&hash, b"test12"));
        assert!(!is_password(&hash, b"test13"));
    }
}
