//! One provider of keys: where they are, and when it was last asked.

use std::{sync::Arc, time::Duration};

use leveret_oauth::{Keys, ProviderId, Tokens};
use leveret_tls::ClientTlsSettings;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

use crate::{
    address::{Address, NoAddress},
    fetch::{self, FetchError},
};

/// Not asked twice within this time, whatever tokens come.
pub(crate) const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// Where keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Here.
    Keys(Address),
    /// Where the document at this address says.
    Discovery(Address),
}

/// Why there are no new keys.
#[derive(Debug, thiserror::Error)]
enum NoKeys {
    #[error("{0}: {1}")]
    Fetch(Address, FetchError),
    #[error("{0} does not say where its keys are")]
    NoPlace(Address),
    #[error("the place of the keys that {0} names {1}")]
    Place(Address, NoAddress),
    #[error("{0} has no keys that could be used")]
    None(Address),
}

/// One provider.
#[derive(Debug)]
pub(crate) struct Provider {
    /// For the log.
    pub(crate) name: String,
    pub(crate) id: ProviderId,
    pub(crate) source: Source,
    pub(crate) tls: ClientTlsSettings,
    pub(crate) tokens: Arc<Tokens>,
    /// Held while it is asked: whoever comes meanwhile waits for the same answer.
    pub(crate) last: Mutex<Last>,
}

/// How it went when it was last asked.
#[derive(Debug, Default)]
pub(crate) struct Last {
    at: Option<Instant>,
    /// What the log has of it, which has each change once; empty when there were keys.
    told: Option<String>,
    keys: Option<Keys>,
}

impl Provider {
    /// Asks for the keys of this moment, unless that was done lately; whether the last answer had some.
    pub(crate) async fn renew(&self) -> bool {
        let mut last = self.last.lock().await;
        let is_recent = last.at.is_some_and(|at| at.elapsed() < ASK_INTERVAL);
        if !is_recent {
            last.at = Some(Instant::now());
            let answer = self.ask().await;
            self.take(&mut last, answer);
        }
        last.told.as_deref() == Some("")
    }

    fn take(&self, last: &mut Last, answer: Result<Keys, NoKeys>) {
        let told = match answer {
            Ok(keys) => {
                if last.keys.as_ref() != Some(&keys) {
                    info!("{} has published {} keys for tokens", self.name, keys.len());
                    self.tokens.published(self.id, keys.clone());
                    last.keys = Some(keys);
                }
                String::new()
            }
            Err(reason) => reason.to_string(),
        };
        if !told.is_empty() && last.told.as_ref() != Some(&told) {
            let known = last.keys.as_ref().map_or(0, Keys::len);
            let name = &self.name;
            warn!("no new keys for tokens from {name}, going on with the {known} known: {told}");
        }
        last.told = Some(told);
    }

    async fn ask(&self) -> Result<Keys, NoKeys> {
        let get = async |address: &Address| {
            let answer = fetch::get(address, &self.tls).await;
            answer.map_err(|reason| NoKeys::Fetch(address.clone(), reason))
        };
        let place = match &self.source {
            Source::Keys(place) => place.clone(),
            Source::Discovery(at) => place_of_keys(at, &get(at).await?)?,
        };
        let keys = Keys::from_published(&get(&place).await?);
        keys.filter(|keys| !keys.is_empty())
            .ok_or(NoKeys::None(place))
    }
}

/// What a document of discovery says of where the keys are.
fn place_of_keys(at: &Address, document: &[u8]) -> Result<Address, NoKeys> {
    let document: Option<Value> = serde_json::from_slice(document).ok();
    let place = document
        .as_ref()
        .and_then(|document| document.get("jwks_uri"));
    let place = place.and_then(Value::as_str);
    let place = place.ok_or_else(|| NoKeys::NoPlace(at.clone()))?;
    Address::read(place).map_err(|reason| NoKeys::Place(at.clone(), reason))
}
