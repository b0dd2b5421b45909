//! The keys that issuers of access tokens publish, asked for over HTTPS.
//!
//! ```text
//!   issuer ──▶ /.well-known/openid-configuration ──▶ jwks_uri ──▶ keys ──▶ Tokens
//!              (only where no jwks_uri is given)
//! ```
//!
//! What is always true:
//! * an address comes from the operator, or from the issuer that the operator named; never from a token or a visitor;
//! * https only, certificates verified unless the operator says otherwise, the status looked at, no redirect followed,
//!   no proxy asked, an answer bounded in size and time;
//! * one request at a time for each provider, and not two within some seconds, however many wait for it;
//! * keys are replaced by keys: what was known stays when an issuer does not answer or has none.

mod address;
mod fetch;
mod provider;
mod publishers;

pub use self::{
    address::{Address, NoAddress},
    provider::Source,
    publishers::{Published, Publishers},
};
