//! Passwords, and from where a user may log in.

use std::{net::IpAddr, sync::Arc};

use leveret_core::{
    directory::Directory,
    record::{HashAlgorithm, UserRecord},
};
use leveret_oauth::{Token, TokenError};
use leveret_wire::value::ShortString;

use crate::passwords;

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

/// Who somebody says they are. For a name that nobody has there is a record too, which costs the same hash, so that the
/// time tells nothing.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Whose password it should be.
    pub(crate) record: Arc<UserRecord>,
    is_known: bool,
}

impl Claim {
    /// `usual` is how passwords are hashed where nobody says otherwise.
    pub(crate) fn of(directory: &Directory, name: &[u8], usual: HashAlgorithm) -> Self {
        let name = ShortString::try_from(name).ok();
        match name.and_then(|name| directory.user(&name).cloned()) {
            Some(record) => Self {
                record,
                is_known: true,
            },
            None => Self {
                record: passwords::nobody(usual).into(),
                is_known: false,
            },
        }
    }

    /// Lets them in if the password was right. `loopback_users` may come from this machine only.
    pub(crate) fn admit(
        &self,
        is_right: bool,
        loopback_users: &[String],
        peer: IpAddr,
    ) -> Result<User, LoginRefused> {
        if !is_right || !self.is_known {
            return Err(LoginRefused::Credentials);
        }
        admit(&self.record, loopback_users, peer)
    }
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

/// IPv4 addresses may arrive in IPv6 clothes.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passwords::{hash_password, is_password};

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
        login_with(&only, name, password, peer)
    }

    fn login_with(
        only: &[String],
        name: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<(), LoginRefused> {
        let claim = Claim::of(&guest(), name.as_bytes(), HashAlgorithm::Sha256);
        let password = password.as_bytes();
        let is_right = !password.is_empty() && is_password(&claim.record, password);
        claim.admit(is_right, only, peer).map(|_| ())
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
        assert!(login_with(&[], "guest", "guest", peer).is_ok());
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
