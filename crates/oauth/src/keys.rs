//! The keys of the issuer: those of the configuration, and those that it publishes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::key::Key;

/// Keys of a published set that are kept. Issuers have two or three.
const PUBLISHED_MAX: usize = 64;

/// Keys by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(BTreeMap<String, Key>);

impl FromIterator<(String, Key)> for Keys {
    fn from_iter<T: IntoIterator<Item = (String, Key)>>(keys: T) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Keys {
    /// Those of a published set (RFC 7517) that are of use; `None` when it is no such set.
    #[must_use]
    pub fn from_published(set: &[u8]) -> Option<Self> {
        let set: Value = serde_json::from_slice(set).ok()?;
        let keys = set.get("keys")?.as_array()?.iter();
        let known = |jwk: &Value| {
            let id = jwk.get("kid")?.as_str()?.to_owned();
            Some((id, Key::from_jwk(jwk)?))
        };
        Some(keys.filter_map(known).take(PUBLISHED_MAX).collect())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(&self, id: &str) -> Option<&Key> {
        self.0.get(id)
    }

    /// These, and of the same ids the others.
    #[must_use]
    pub(crate) fn with(&self, others: Self) -> Self {
        let mut keys = self.0.clone();
        keys.extend(others.0);
        Self(keys)
    }
}
