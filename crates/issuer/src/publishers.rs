//! All providers that publish keys.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use leveret_oauth::{ProviderId, Tokens};
use leveret_runtime::Issuer;
use leveret_tls::ClientTlsSettings;
use tokio::{sync::Mutex, task::JoinSet, time::timeout};

use crate::provider::{Provider, Source};

/// How often a provider is asked although no token needs it, so that a key it has taken back is not good for ever.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How soon it is asked again when it had no keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// How long a login waits for keys.
const WAIT_LIMIT: Duration = Duration::from_secs(8);

/// A provider that publishes its keys.
#[derive(Debug, Clone)]
pub struct Published {
    /// What the log calls it.
    pub name: String,
    /// Whose keys they are.
    pub id: ProviderId,
    /// Where they are.
    pub source: Source,
    /// What is asked of the certificate there.
    pub tls: ClientTlsSettings,
}

/// Asks providers for their keys.
#[derive(Debug)]
pub struct Publishers(Vec<Arc<Provider>>);

impl Publishers {
    /// Of these providers; what they publish goes to `tokens`. Nobody is asked yet.
    #[must_use]
    pub fn new(published: Vec<Published>, tokens: &Arc<Tokens>) -> Self {
        let providers = published.into_iter().map(|published| {
            Arc::new(Provider {
                name: published.name,
                id: published.id,
                source: published.source,
                tls: published.tls,
                tokens: tokens.clone(),
                last: Mutex::default(),
            })
        });
        Self(providers.collect())
    }

    /// Asks each from time to time, at once first. Does not end.
    pub async fn keep_fresh(self: Arc<Self>) {
        let mut each = JoinSet::new();
        for provider in &self.0 {
            let provider = provider.clone();
            each.spawn(async move {
                loop {
                    let pause = if provider.renew().await {
                        REFRESH_INTERVAL
                    } else {
                        RETRY_INTERVAL
                    };
                    tokio::time::sleep(pause).await;
                }
            });
        }
        while each.join_next().await.is_some() {}
    }
}

impl Issuer for Publishers {
    fn renew_keys(&self, of: ProviderId) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let provider = self.0.iter().find(|provider| provider.id == of).cloned();
        Box::pin(async move {
            let Some(provider) = provider else {
                return false;
            };
            // Goes on when who waits for it hangs up: else a peer that does so could keep others from new keys.
            let asked = tokio::spawn(async move { provider.renew().await });
            matches!(timeout(WAIT_LIMIT, asked).await, Ok(Ok(true)))
        })
    }
}
