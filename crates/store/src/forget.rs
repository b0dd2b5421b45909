//! A data directory made as empty as before the first start.

use std::{fs, io, path::Path};

use crate::{
    directory::{Directory, file_error},
    error::OpenError,
};

/// Forgets everything stored in `dir`, which no broker may be using. What else lies there stays.
///
/// # Errors
///
/// When it is in use or cannot be changed.
pub fn forget(dir: &Path) -> Result<(), OpenError> {
    let directory = Directory::claim_existing(dir)?;
    // The mark first: without it nothing is missed of commits that are gone.
    match fs::remove_file(directory.side_file()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file_error("remove", &directory.side_file(), error));
        }
        Ok(()) | Err(_) => {}
    }
    let rocksdb = directory.rocksdb();
    // The folder itself stays: by it the directory is known as ours.
    let entries = fs::read_dir(&rocksdb).map_err(|error| file_error("read", &rocksdb, error))?;
    for entry in entries {
        let path = entry
            .map_err(|error| file_error("read", &rocksdb, error))?
            .path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.map_err(|error| file_error("remove", &path, error))?;
    }
    directory
        .sync_entries()
        .map_err(|error| file_error("sync", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Store};

    #[test]
    fn what_was_forgotten_starts_as_new_and_is_still_ours() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, _) = Store::open(dir.path(), &Options::default()).expect("it opens");
        drop(store);
        fs::write(dir.path().join("notes"), "not ours").expect("it is written");
        forget(dir.path()).expect("nobody uses it");
        let (_store, recovered) = Store::open(dir.path(), &Options::default()).expect("it opens");
        assert!(recovered.vhosts.is_empty());
        assert!(dir.path().join("notes").exists());
    }

    #[test]
    fn what_a_broker_uses_is_not_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let _open = Store::open(dir.path(), &Options::default()).expect("it opens");
        assert!(matches!(forget(dir.path()), Err(OpenError::Locked { .. })));
    }
}
