//! Passwords, and from where a user may log in.

use std::{net::IpAddr, sync::Arc};

use leveret_core::{
    directory::Directory,
    record::{HashAlgorithm, UserRecord},
};
use leveret_oauth::{Token, TokenError};
use leveret_wire::value::ShortString;
use md5::Md5;
use rand::RngCore;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

const SALT_LEN: usize = 4;

/// A user who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: ShortString,
    /// Its tags.
    pub tags: Vec<String>,
    /// What they came with instead of a password; then it says all they may do.
    pub token: Option<Arc<Token>>,
}

impl User {
    /// The owner of a token.
    pub(crate) fn of_token(token: Token) -> Self {
        Self {
            name: token.user.clone(),
            tags: token.tags.clone(),
            token: Some(token.into()),
        }
    }
}

/// Unknown user, wrong password or wrong place: a peer cannot tell which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefused {
    /// No such user, or another password.
    #[error("invalid credentials")]
    Credentials,
    /// The user may log in from loopback only.
    #[error("can only connect via localhost")]
    NotLoopback,
    /// So many have failed from there that nobody from there is listened to for a while.
    #[error("too many logins have failed from its address")]
    TooMany,
    /// A token that is not good.
    #[error("Authentication using an OAuth 2/JWT token failed: {0}")]
    Token(TokenError),
}

impl LoginRefused {
    /// Who is refused and why, in RabbitMQ's words.
    #[must_use]
    pub fn told_of(self, user: &str) -> String {
        match self {
            Self::Credentials | Self::TooMany => format!("user '{user}' - {self}"),
            Self::NotLoopback => format!("user '{user}' {self}"),
            Self::Token(_) => self.to_string(),
        }
    }
}

/// Checks a login. `loopback_users` may come from this machine only.
pub(crate) fn login(
    directory: &Directory,
    loopback_users: &[String],
    name: &[u8],
    password: &[u8],
    peer: IpAddr,
) -> Result<User, LoginRefused> {
    let known = ShortString::try_from(name)
        .ok()
        .and_then(|name| directory.user(&name));
    // An unknown user costs the same hash, so that the time tells nothing.
    let nobody = UserRecord {
        password_hash: vec![0; SALT_LEN + 32],
        ..UserRecord::default()
    };
    let is_right = is_password(known.map_or(&nobody, |user| user), password);
    let user = known.filter(|_| is_right && !password.is_empty());
    admit(user.ok_or(LoginRefused::Credentials)?, loopback_users, peer)
}

/// Who comes without a password is `name`: that was made sure of elsewhere, or nobody asks.
pub(crate) fn login_without_password(
    directory: &Directory,
    loopback_users: &[String],
    name: &ShortString,
    peer: IpAddr,
) -> Result<User, LoginRefused> {
    let user = directory.user(name).ok_or(LoginRefused::Credentials)?;
    admit(user, loopback_users, peer)
}

/// Who came with a good token.
pub(crate) fn admit_token(
    token: Token,
    loopback_users: &[String],
    peer: IpAddr,
) -> Result<User, LoginRefused> {
    check_place(&token.user, loopback_users, peer)?;
    Ok(User::of_token(token))
}

fn admit(user: &UserRecord, loopback_users: &[String], peer: IpAddr) -> Result<User, LoginRefused> {
    check_place(&user.name, loopback_users, peer)?;
    Ok(User {
        name: user.name.clone(),
        tags: user.tags.clone(),
        token: None,
    })
}

fn check_place(
    user: &ShortString,
    loopback_users: &[String],
    peer: IpAddr,
) -> Result<(), LoginRefused> {
    if loopback_users.iter().any(|only| *user == **only) && !is_loopback(peer) {
        return Err(LoginRefused::NotLoopback);
    }
    Ok(())
}

/// The stored form of a password: a fresh salt, then the hash over salt and password.
#[must_use]
pub fn hash_password(algorithm: HashAlgorithm, password: &[u8]) -> Vec<u8> {
    let mut salt = [0; SALT_LEN];
    rand::rng().fill_bytes(&mut salt);
    salted_hash(algorithm, salt, password)
}

fn salted_hash(algorithm: HashAlgorithm, salt: [u8; SALT_LEN], password: &[u8]) -> Vec<u8> {
    match algorithm {
        HashAlgorithm::Sha256 => salted::<Sha256>(salt, password),
        HashAlgorithm::Sha512 => salted::<Sha512>(salt, password),
        HashAlgorithm::Md5 => salted::<Md5>(salt, password),
    }
}

fn salted<Hash: Digest>(salt: [u8; SALT_LEN], password: &[u8]) -> Vec<u8> {
    let digest = Hash::new()
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    salt.iter().copied().chain(digest).collect()
}

fn is_password(user: &UserRecord, password: &[u8]) -> bool {
    let hash = &user.password_hash;
    hash.first_chunk().is_some_and(|salt| {
        salted_hash(user.algorithm, *salt, password)
            .ct_eq(hash)
            .into()
    })
}

/// IPv4 addresses may arrive in IPv6 clothes.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest() -> Directory {
        let mut directory = Directory::default();
        directory.put_user(UserRecord {
            name: ShortString::from_static("guest"),
            password_hash: hash_password(HashAlgorithm::Sha256, b"guest"),
            tags: vec!["administrator".to_owned()],
            ..UserRecord::default()
        });
        directory.put_user(UserRecord {
            name: ShortString::from_static("nologin"),
            ..UserRecord::default()
        });
        directory
    }

    fn login(name: &str, password: &str, peer: &str) -> Result<(), LoginRefused> {
        let peer = peer.parse().expect("an address");
        let only = ["guest".to_owned()];
        super::login(&guest(), &only, name.as_bytes(), password.as_bytes(), peer).map(|_| ())
    }

    #[test]
    fn guest_logs_in_from_loopback_only() {
        for peer in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(login("guest", "guest", peer), Ok(()), "{peer}");
        }
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
            assert_eq!(
                login("guest", "guest", peer),
                Err(LoginRefused::NotLoopback)
            );
        }
    }

    #[test]
    fn an_anonymous_client_is_bound_to_what_its_user_may() {
        let only = ["guest".to_owned()];
        let login = |name: &'static str, peer: &str| {
            let peer = peer.parse().expect("an address");
            login_without_password(&guest(), &only, &ShortString::from_static(name), peer)
                .map(|user| user.name)
        };
        let guest = ShortString::from_static("guest");
        assert_eq!(login("guest", "::1"), Ok(guest));
        assert_eq!(login("guest", "10.0.0.1"), Err(LoginRefused::NotLoopback));
        assert_eq!(login("nobody", "::1"), Err(LoginRefused::Credentials));
    }

    #[test]
    fn loopback_is_a_setting() {
        let peer = "10.0.0.1".parse().expect("an address");
        assert!(super::login(&guest(), &[], b"guest", b"guest", peer).is_ok());
    }

    #[test]
    fn wrong_passwords_and_unknown_users_are_refused_alike() {
        for (name, password) in [
            ("guest", "wrong"),
            ("guest", ""),
            ("nobody", "guest"),
            ("nologin", ""),
            ("nologin", "x"),
            ("", ""),
        ] {
            assert_eq!(login(name, password, "::1"), Err(LoginRefused::Credentials));
        }
    }

    /// The salt is 908D C60A, the password "test12", in each of RabbitMQ's algorithms.
    #[test]
    fn hashes_that_rabbitmq_made_verify() {
        for (algorithm, hash) in [
            (
                HashAlgorithm::Sha256,
                "908dc60aa5b924b3096b8897d65a3b5f80fa5db62a94b83122cdf4f8fead10d515d8f391",
            ),
            (
                HashAlgorithm::Sha512,
                concat!(
                    "908dc60a1b8db8861ff2545b082c598e08cac2c635f67b3afae14ed33717441180fd",
                    "71893d80fc396332ec407c4da3a60338cfd9aceff3819b20d6305f670359be031e77",
                ),
            ),
            (
                HashAlgorithm::Md5,
                "908dc60a1369b5ed850296055d2725fb474896e9",
            ),
        ] {
            let byte = |at| u8::from_str_radix(&hash[at..at + 2], 16).expect("hex");
            let user = UserRecord {
                password_hash: (0..hash.len()).step_by(2).map(byte).collect(),
                algorithm,
                ..UserRecord::default()
            };
            assert!(is_password(&user, b"test12"), "{algorithm:?}");
            assert!(!is_password(&user, b"test13"), "{algorithm:?}");
        }
    }
}
