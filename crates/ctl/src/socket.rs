//! Where a broker's administrators reach it: a Unix socket in a directory that only they can write to, named after the
//! node, so that several brokers live side by side.
//!
//! Who may open the file is an administrator. The client looks as well: it speaks to sockets only in directories that
//! belong to root, to its own user, or, as root, to the user who owns a broker's data.

use std::{
    env, fs, io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Of the service; made by a package, an image or a broker that runs as root.
const RUN_DIR: &str = "/run/leveret";

/// Where everybody may make a directory of their own.
const SHARED_DIR: &str = "/tmp";

/// The directory in the home of whoever runs the broker, where nothing but the data can be written to: a container with a
/// read-only root and one volume.
const DIR_AT_HOME: &str = ".leveret";

/// Owners of these are brokers' users, to root.
const DATA_DIRS: [&str; 2] = ["/var/lib/rabbitmq", "/var/lib/leveret"];

/// What the system allows for the path of a socket, with room for an ending.
const PATH_BYTES_MAX: usize = 100;

/// Another directory, of whoever sets it.
const RUN_DIR_VARIABLE: &str = "LEVERET_RUN_DIR";

/// Binds the socket of a node where its user may, and says where that is.
///
/// # Errors
///
/// `AddrInUse` when a broker of this name is there already, or why no directory would do.
pub fn bind(node: &str) -> io::Result<(UnixListener, PathBuf)> {
    let own = rustix::process::geteuid().as_raw();
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for dir in directories(own) {
        match bind_in(&dir, own, node) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => refused = error,
            Ok(bound) => return Ok(bound),
        }
    }
    Err(refused)
}

fn bind_in(dir: &Directory, own: u32, node: &str) -> io::Result<(UnixListener, PathBuf)> {
    if !dir.path.exists() {
        let mode = if dir.is_shared { 0o700 } else { 0o755 };
        let mut builder = fs::DirBuilder::new();
        builder.mode(mode).create(&dir.path)?;
        // Whatever the umask made of it.
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(mode))?;
    }
    dir.check(own)?;
    let path = dir.socket(node);
    if UnixStream::connect(&path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    // Bound aside and moved there, over what a broker that was killed left behind.
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))?;
    fs::rename(&aside, &path)?;
    Ok((listener, path))
}

/// Connects to the node of this name.
///
/// # Errors
///
/// `PermissionDenied` when it is there and not for this user, `NotFound` or `ConnectionRefused` when it is not.
pub(crate) fn connect(node: &str) -> io::Result<UnixStream> {
    let own = rustix::process::geteuid().as_raw();
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for dir in directories(own) {
        let connected = dir
            .check(own)
            .and_then(|()| UnixStream::connect(dir.socket(node)));
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Whose it has to be besides root; `None` when the operator chose it.
    owner: Option<u32>,
    /// It lies where everybody may make one.
    is_shared: bool,
}

impl Directory {
    /// A directory that somebody else could have made, or can write to, holds no broker of ours.
    fn check(&self, own: u32) -> io::Result<()> {
        let found = fs::metadata(&self.path)?;
        let is_trusted = match self.owner {
            None => true,
            Some(owner) if self.is_shared => found.uid() == owner && found.mode() & 0o022 == 0,
            // Only root makes entries of `/run`; it gives this one to the broker's user.
            Some(_) => found.uid() == own || found.mode() & 0o002 == 0,
        };
        if is_trusted {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn socket(&self, node: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "@-_.".contains(c);
        let path = self.path.join(format!("{node}.sock"));
        if node.chars().all(is_plain) && path.as_os_str().len() <= PATH_BYTES_MAX {
            return path;
        }
        let hash = Sha256::digest(node.as_bytes());
        let hex: String = hash.iter().take(16).map(|b| format!("{b:02x}")).collect();
        self.path.join(format!("{hex}.sock"))
    }
}

fn directories(own: u32) -> Vec<Directory> {
    if let Some(path) = env::var_os(RUN_DIR_VARIABLE).filter(|path| !path.is_empty()) {
        return vec![Directory {
            path: path.into(),
            owner: None,
            is_shared: false,
        }];
    }
    let mut owners = vec![own];
    if own == 0 {
        let of_data = DATA_DIRS.iter().filter_map(|dir| fs::metadata(dir).ok());
        owners.extend(of_data.map(|found| found.uid()).filter(|owner| *owner != 0));
    }
    let shared = owners.iter().map(|owner| Directory {
        path: Path::new(SHARED_DIR).join(format!("leveret-{owner}")),
        owner: Some(*owner),
        is_shared: true,
    });
    let run = Directory {
        path: RUN_DIR.into(),
        owner: Some(0),
        is_shared: false,
    };
    let home = env::var_os("HOME").map(PathBuf::from);
    let at_home = home
        .filter(|home| home.is_absolute())
        .map(|home| at_home(&home, &owners));
    std::iter::once(run)
        .chain(shared)
        .chain(at_home.into_iter().flatten())
        .collect()
}

/// One entry for each owner: whose it has to be is all that tells them apart.
fn at_home(home: &Path, owners: &[u32]) -> Vec<Directory> {
    let directory = |owner: &u32| Directory {
        path: home.join(DIR_AT_HOME),
        owner: Some(*owner),
        is_shared: true,
    };
    owners.iter().map(directory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &Path) -> Directory {
        Directory {
            path: path.to_owned(),
            owner: None,
            is_shared: false,
        }
    }

    #[test]
    fn a_socket_is_found_by_its_nodes_name_and_open_to_its_user_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = directory(dir.path());
        let own = rustix::process::geteuid().as_raw();
        let (_listener, path) = bind_in(&dir, own, "rabbit@host").expect("it binds");
        assert!(path.ends_with("rabbit@host.sock"));
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(dir.socket("rabbit@host")).expect("it listens");
        assert!(!dir.socket("other@host").exists());
    }

    #[test]
    fn what_a_killed_broker_left_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = directory(dir.path());
        let own = rustix::process::geteuid().as_raw();
        drop(bind_in(&dir, own, "n@h").expect("it binds"));
        let (_living, _) = bind_in(&dir, own, "n@h").expect("it binds again");
        let refused = bind_in(&dir, own, "n@h").expect_err("somebody is there");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_home_has_the_socket_of_its_user_and_of_nobody_else() {
        let home = tempfile::tempdir().expect("a directory");
        let own = rustix::process::geteuid().as_raw();
        let [dir] = &at_home(home.path(), &[own])[..] else {
            panic!("one owner, one directory");
        };
        let (_listener, path) = bind_in(dir, own, "rabbit@host").expect("it binds");
        assert!(path.starts_with(home.path()));
        let mode = fs::metadata(&dir.path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        let of_another = at_home(home.path(), &[own + 1]);
        assert!(of_another[0].check(own).is_err());
    }

    #[test]
    fn names_that_are_no_file_names_or_too_long_have_sockets_too() {
        let dir = directory(Path::new("/run/leveret"));
        for name in ["../../etc/x@h", &"n".repeat(300)] {
            let path = dir.socket(name);
            assert_eq!(path.parent(), Some(Path::new("/run/leveret")));
            assert!(path.as_os_str().len() <= PATH_BYTES_MAX);
        }
    }

    #[test]
    fn a_shared_directory_that_others_can_write_to_is_not_trusted() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = rustix::process::geteuid().as_raw();
        let shared = Directory {
            owner: Some(own),
            is_shared: true,
            ..directory(dir.path())
        };
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        shared.check(own).expect("it is ours alone");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(shared.check(own).is_err());
        let of_another = Directory {
            owner: Some(own + 1),
            ..shared
        };
        assert!(of_another.check(own).is_err());
    }
}
