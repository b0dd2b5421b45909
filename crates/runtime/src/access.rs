//! Who may do what, and the one place where that changes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use leveret_core::{directory::Directory, record::MetaChange};
use parking_lot::{Mutex, MutexGuard};

/// A snapshot that everybody reads, with a number that grows whenever it changes.
#[derive(Debug, Default)]
pub(crate) struct Access {
    directory: ArcSwap<Directory>,
    version: AtomicU64,
    /// Held by whoever changes it; before the applier of any vhost.
    applier: Mutex<()>,
}

impl Access {
    /// The vhosts, users, permissions and parameters of this moment.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        self.directory.load_full()
    }

    /// Which snapshot is the newest.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Nobody else changes anything while this is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.applier.lock()
    }

    /// Changes the directory; the applier's lock is held.
    pub(crate) fn change<E>(
        &self,
        _applier: &MutexGuard<'_, ()>,
        change: impl FnOnce(&mut Directory) -> Result<Vec<MetaChange>, E>,
    ) -> Result<Vec<MetaChange>, E> {
        let mut directory = Directory::clone(&self.directory.load());
        let changes = change(&mut directory)?;
        self.directory.store(Arc::new(directory));
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changes)
    }
}
