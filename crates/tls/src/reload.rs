//! The configuration of this moment: connections keep the one they began with.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use crate::{
    client_verifier::files_of,
    server_config::{self, TlsError},
    settings::TlsSettings,
};

/// How a file looked when it was last read; `None` for one that could not be seen.
type Stamp = Option<(SystemTime, u64)>;

/// TLS of a listener, whose files may change while it is used.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    current: ArcSwap<ServerConfig>,
    stamps: Mutex<Vec<Stamp>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When they are no good.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        // Before they are read: what changes meanwhile is noticed by the next look.
        let stamps = stamps(&settings);
        let config = server_config::load(&settings)?;
        Ok(Self {
            settings,
            current: ArcSwap::from_pointee(config),
            stamps: Mutex::new(stamps),
        })
    }

    /// What it was made from.
    #[must_use]
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// What the next handshake is done with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reads the files anew. Connections that are open stay as they are; so does everything when the files are no
    /// good.
    ///
    /// # Errors
    ///
    /// When the files are no good.
    pub fn reload(&self) -> Result<(), TlsError> {
        let looked_at = stamps(&self.settings);
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) = looked_at;
        let config = server_config::load(&self.settings)?;
        self.current.store(Arc::new(config));
        Ok(())
    }

    /// Reads the files anew if one of them has changed; `true` when it has.
    ///
    /// # Errors
    ///
    /// When they have changed and are no good; they are then looked at again when they change again. A certificate
    /// that was replaced before its key is such a case.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = stamps(&self.settings);
        if *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) == now {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }
}

fn stamps(settings: &TlsSettings) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    let lists = settings.directories().iter();
    let lists = lists.flat_map(|directory| files_of(directory).unwrap_or_default());
    let files = settings.files().cloned().chain(lists);
    files.map(stamp).collect()
}
