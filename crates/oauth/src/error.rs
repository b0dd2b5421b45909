//! Why a token is not good.

/// For the log; who came with the token is told nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No three parts with JSON in them, or a claim that is not what it should be.
    #[error("provided token is invalid")]
    Malformed,
    /// It is for somebody else.
    #[error("no audience of it is this resource server")]
    NoMatchingAudience,
    /// It does not say for whom it is.
    #[error("it has no audience")]
    NoAudience,
    /// It is for several of those that this broker is.
    #[error("more than one audience of it is a resource server here")]
    SeveralAudiences,
    /// The key that signed it is not known, or is not named.
    #[error("its signing key is not known")]
    UnknownKey,
    /// An algorithm that is none, that is not allowed, or that is not one of its key.
    #[error("its algorithm is not accepted")]
    Algorithm,
    /// Somebody else made it.
    #[error("its signature is not good")]
    Signature,
    /// More scopes than anybody needs.
    #[error("too many scopes")]
    TooManyScopes,
    /// It is over.
    #[error("Provided JWT token has expired at timestamp {expired_at} (validated at {now})")]
    Expired {
        /// When it ended.
        expired_at: i64,
        /// The time it was looked at.
        now: i64,
    },
    /// When it ends is not said with a number.
    #[error("Provided JWT token has an invalid exp claim: value is not a number")]
    ExpiryIsNoNumber,
    /// It would never end.
    #[error("Provided JWT token has no exp claim")]
    NoExpiry,
}
