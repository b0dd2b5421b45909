//! Who is asked whether somebody may come in: the users of this broker, and whoever signs access tokens.

use std::{
    fmt::Debug,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leveret_core::rights::Rights;
use leveret_oauth::{ProviderId, Token, TokenError, Tokens};
use leveret_wire::value::ShortString;
use tracing::warn;

use crate::{
    broker::Broker,
    passwords,
    users::{self, Claim, LoginRefused, User},
};

/// One of those that are asked, one after the other, until one knows who comes.
#[derive(Debug, Clone)]
pub enum AuthBackend {
    /// The users of this broker, by name and password.
    Internal,
    /// The issuer of access tokens; a token stands in the place of the password, and the name means nothing.
    Tokens(Arc<Tokens>, Option<Arc<dyn Issuer>>),
}

/// Who publishes the keys that tokens are signed with.
pub trait Issuer: Debug + Send + Sync {
    /// Asks for the keys that a provider has at this moment, unless that was done lately; true when there are some.
    fn renew_keys(&self, of: ProviderId) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
}

/// Why a new secret is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefused {
    /// It is no token, or not one for us.
    #[error("{0}")]
    Unreadable(TokenError),
    /// It is not good.
    #[error("{0}")]
    Refused(TokenError),
    /// It is somebody else's.
    #[error("Not allowed to change username on refreshed token")]
    OtherUser,
    /// It does not say when it ends, or has ended.
    #[error("{0}")]
    Ended(TokenError),
}

impl Broker {
    /// Checks a login.
    ///
    /// # Errors
    ///
    /// [`LoginRefused`]; the peer is not told which.
    pub async fn login(
        &self,
        name: &[u8],
        password: &[u8],
        peer: IpAddr,
    ) -> Result<User, LoginRefused> {
        self.check_patience(peer)?;
        let admitted = self.ask_backends(name, password, peer).await;
        self.count_failure(peer, &admitted);
        admitted
    }

    /// Whether anybody from there is listened to.
    fn check_patience(&self, peer: IpAddr) -> Result<(), LoginRefused> {
        let now = Duration::from_millis(self.now().get());
        if self.services().failed_logins.is_over(now, peer) {
            return Err(LoginRefused::TooMany);
        }
        Ok(())
    }

    /// Counts a login from there, if it failed.
    fn count_failure(&self, peer: IpAddr, admitted: &Result<User, LoginRefused>) {
        let now = Duration::from_millis(self.now().get());
        if admitted.is_err() && self.services().failed_logins.note(now, peer) {
            warn!(
                "too many logins from {peer} have failed; for a minute nobody from there is listened to"
            );
        }
    }

    async fn ask_backends(
        &self,
        name: &[u8],
        password: &[u8],
        peer: IpAddr,
    ) -> Result<User, LoginRefused> {
        let node = &self.services().node;
        let only_here = &*self.loopback_users();
        let mut refused = LoginRefused::Credentials;
        for backend in &node.auth_backends {
            let admitted = match backend {
                AuthBackend::Internal => {
                    let claim = Claim::of(&self.directory(), name, node.password_hashing);
                    let is_right = passwords::is_password_of(&claim.record, password).await;
                    claim.admit(is_right && !password.is_empty(), only_here, peer)
                }
                AuthBackend::Tokens(tokens, issuer) => {
                    let token = read(tokens, issuer.as_deref(), password).await;
                    let in_time = token.and_then(|token| {
                        token.check_expiry(now_secs())?;
                        Ok(token)
                    });
                    match in_time {
                        Ok(token) => users::admit_token(token, only_here, peer),
                        Err(reason) => Err(LoginRefused::Token(reason)),
                    }
                }
            };
            match admitted {
                // Known, but not from there: nobody else is asked.
                Ok(_) | Err(LoginRefused::NotLoopback) => return admitted,
                Err(reason) => refused = reason,
            }
        }
        Err(refused)
    }

    /// Checks a login as this user without a password: nobody asks for one, or a certificate stands for it.
    ///
    /// # Errors
    ///
    /// [`LoginRefused`]; the peer is not told which.
    pub fn login_without_password(
        &self,
        name: &ShortString,
        peer: IpAddr,
    ) -> Result<User, LoginRefused> {
        self.check_patience(peer)?;
        let mut backends = self.services().node.auth_backends.iter();
        let admitted = if backends.any(|backend| matches!(backend, AuthBackend::Internal)) {
            users::login_without_password(&self.directory(), &self.loopback_users(), name, peer)
        } else {
            Err(LoginRefused::Credentials)
        };
        self.count_failure(peer, &admitted);
        admitted
    }

    /// The user with a new secret in the place of the one they came with. Who came with a password keeps what they have.
    ///
    /// # Errors
    ///
    /// [`SecretRefused`].
    pub async fn renew_secret(&self, user: &User, secret: &[u8]) -> Result<User, SecretRefused> {
        if user.token.is_none() {
            return Ok(user.clone());
        }
        let mut refused = SecretRefused::Refused(TokenError::UnknownKey);
        for backend in &self.services().node.auth_backends {
            let AuthBackend::Tokens(tokens, issuer) = backend else {
                continue;
            };
            let token = match read(tokens, issuer.as_deref(), secret).await {
                Ok(token) => token,
                Err(reason) => {
                    refused = refused_for(reason);
                    continue;
                }
            };
            if token.user != user.name {
                return Err(SecretRefused::OtherUser);
            }
            token
                .check_expiry(now_secs())
                .map_err(SecretRefused::Ended)?;
            return Ok(User::of_token(token));
        }
        Err(refused)
    }

    /// What somebody who has logged in may do in a vhost.
    #[must_use]
    pub fn rights_of(&self, vhost: &ShortString, user: &User) -> Arc<Rights> {
        match &user.token {
            Some(token) => {
                let name = user.name.clone();
                Arc::new(Rights::by_token(vhost.clone(), name, &token.scopes))
            }
            None => self.rights(vhost, &user.name),
        }
    }
}

const fn refused_for(reason: TokenError) -> SecretRefused {
    match reason {
        TokenError::Malformed
        | TokenError::NoMatchingAudience
        | TokenError::NoAudience
        | TokenError::SeveralAudiences => SecretRefused::Unreadable(reason),
        TokenError::Expired { .. } | TokenError::ExpiryIsNoNumber | TokenError::NoExpiry => {
            SecretRefused::Ended(reason)
        }
        TokenError::UnknownKey
        | TokenError::Algorithm
        | TokenError::Signature
        | TokenError::TooManyScopes => SecretRefused::Refused(reason),
    }
}

/// Reads a token; the issuer may have changed its keys since they were asked for.
async fn read(
    tokens: &Tokens,
    issuer: Option<&dyn Issuer>,
    text: &[u8],
) -> Result<Token, TokenError> {
    let token = tokens.read(text);
    if let (Err(TokenError::UnknownKey), Some(issuer)) = (&token, issuer)
        && let Some(provider) = tokens.provider_of(text)
        && issuer.renew_keys(provider).await
    {
        return tokens.read(text);
    }
    token
}

/// Seconds since 1970, as tokens have them.
fn now_secs() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
