//! Access tokens of OAuth 2: who somebody is and what they may do, signed by an issuer whose keys we have.
//!
//! ```text
//!   header . claims . signature          RFC 7515, each part in base64url
//!     │        │         └── made over the first two with the key that the header names
//!     │        └── JSON: for whom, until when, who, which scopes
//!     └── JSON: algorithm, key
//! ```
//!
//! Nothing here is a socket or a clock: keys are given, and so is the time. What is always true:
//! * a token is good only with a signature by an asymmetric key; there is no `none` and no shared secret, and the key
//!   says which algorithms it takes, never the token alone;
//! * no claim is looked at before the signature was found good, but the one that tells for whom the token is;
//! * a token is never part of a text: not of an error, not of what `Debug` shows.

mod audience;
mod claims;
mod error;
mod key;
mod keys;
mod token;

pub use self::{
    audience::{ProviderId, ResourceServer},
    error::TokenError,
    key::{Algorithm, Key, KeyError},
    keys::Keys,
    token::{Token, TokenSettings, Tokens},
};
