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
    process,
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

/// What the system allows for the path of a socket, with room for a process id.
const PATH_BYTES_MAX: usize = 90;

/// How the names of sockets end.
const ENDING: &str = ".sock";

/// Between a name and the process id of one of several brokers that have it. No name has it behind its host.
const PID_SIGN: char = '+';

/// Another directory, of whoever sets it.
const RUN_DIR_VARIABLE: &str = "LEVERET_RUN_DIR";

/// The socket of a node.
#[derive(Debug)]
pub struct Bound {
    /// It listens.
    pub listener: UnixListener,
    /// Its file.
    pub path: PathBuf,
    /// What the command line has to be told where another broker has the name already: name and process id.
    pub told_apart_by: Option<String>,
}

/// Binds the socket of a node where its user may. A broker whose name is taken gets one under its process id as well.
///
/// # Errors
///
/// Why no directory would do.
pub fn bind(node: &str) -> io::Result<Bound> {
    let own = rustix::process::geteuid().as_raw();
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for dir in directories(own) {
        match bind_in(&dir, own, node, process::id()) {
            Err(error) => refused = error,
            Ok(bound) => return Ok(bound),
        }
    }
    Err(refused)
}

fn bind_in(dir: &Directory, own: u32, node: &str, pid: u32) -> io::Result<Bound> {
    if !dir.path.exists() {
        let mode = if dir.is_shared { 0o700 } else { 0o755 };
        let mut builder = fs::DirBuilder::new();
        builder.mode(mode).create(&dir.path)?;
        // Whatever the umask made of it.
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(mode))?;
    }
    dir.check(own)?;
    let first = dir.socket(node, None);
    let is_taken = UnixStream::connect(&first).is_ok();
    let path = if is_taken {
        dir.socket(node, Some(pid))
    } else {
        first
    };
    // Bound aside and moved there, over what a broker that was killed left behind.
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))?;
    fs::rename(&aside, &path)?;
    Ok(Bound {
        listener,
        path,
        told_apart_by: is_taken.then(|| format!("{node}{PID_SIGN}{pid}")),
    })
}

/// Several brokers have the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} brokers of this machine are called {node}", .pids.len())]
pub(crate) struct Ambiguous {
    pub(crate) node: String,
    pub(crate) pids: Vec<u32>,
}

/// Connects to the node of this name, or of this name and process id: `rabbit@host+4711`.
///
/// # Errors
///
/// `PermissionDenied` when it is there and not for this user, `NotFound` or `ConnectionRefused` when it is not, and
/// [`Ambiguous`] inside of another when it is there more than once.
pub(crate) fn connect(node: &str) -> io::Result<UnixStream> {
    let own = rustix::process::geteuid().as_raw();
    connect_in(&directories(own), own, node)
}

fn connect_in(dirs: &[Directory], own: u32, node: &str) -> io::Result<UnixStream> {
    let (name, wanted) = match node.rsplit_once(PID_SIGN) {
        Some((name, pid)) if name.contains('@') => match pid.parse::<u32>() {
            Ok(pid) => (name, Some(pid)),
            Err(_) => (node, None),
        },
        _ => (node, None),
    };
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    let mut found = Vec::new();
    for dir in dirs {
        if let Err(error) = dir.check(own) {
            if error.kind() != io::ErrorKind::NotFound {
                refused = error;
            }
            continue;
        }
        for path in dir.sockets(name) {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    let pid = pid_behind(&stream);
                    found.push((pid, stream));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refused = error,
            }
        }
    }
    if let Some(wanted) = wanted {
        found.retain(|(pid, _)| *pid == Some(wanted));
    }
    match found.len() {
        0 => Err(refused),
        1 => Ok(found.swap_remove(0).1),
        _ => Err(io::Error::other(Ambiguous {
            node: name.to_owned(),
            pids: found.iter().filter_map(|(pid, _)| *pid).collect(),
        })),
    }
}

/// The process that listens at the other end.
fn pid_behind(stream: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Names of brokers that listen on this machine, as far as this user may know.
pub(crate) fn listening() -> Vec<String> {
    let own = rustix::process::geteuid().as_raw();
    let mut names = Vec::new();
    for dir in directories(own) {
        if dir.check(own).is_err() {
            continue;
        }
        let entries = fs::read_dir(&dir.path).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let name = file.to_str().and_then(|name| name.strip_suffix(ENDING));
            // What has no such sign is a hash of one that cannot be told.
            let Some(name) = name.filter(|name| name.contains('@')) else {
                continue;
            };
            if UnixStream::connect(entry.path()).is_ok() {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    names
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

    /// The file of the broker that had the name first, or of another one by its process id.
    fn socket(&self, node: &str, pid: Option<u32>) -> PathBuf {
        let pid = pid
            .map(|pid| format!("{PID_SIGN}{pid}"))
            .unwrap_or_default();
        let file = format!("{}{pid}{ENDING}", self.stem(node));
        self.path.join(file)
    }

    /// How the files of all brokers of this name begin.
    fn stem(&self, node: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "@-_.".contains(c);
        let length = self.path.as_os_str().len() + node.len() + ENDING.len();
        if node.chars().all(is_plain) && length <= PATH_BYTES_MAX {
            return node.to_owned();
        }
        let hash = Sha256::digest(node.as_bytes());
        hash.iter().take(16).map(|b| format!("{b:02x}")).collect()
    }

    /// Files of brokers of this name, the first one first.
    fn sockets(&self, node: &str) -> Vec<PathBuf> {
        let begins = format!("{}{PID_SIGN}", self.stem(node));
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let others = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            name.starts_with(&begins) && name.ends_with(ENDING)
        });
        let first = std::iter::once(self.socket(node, None));
        first.chain(others.map(|entry| entry.path())).collect()
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
        let bound = bind_in(&dir, own, "rabbit@host", 1).expect("it binds");
        assert!(bound.path.ends_with("rabbit@host.sock"));
        let mode = fs::metadata(&bound.path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        connect_in(&[dir], own, "rabbit@host").expect("it listens");
    }

    #[test]
    fn what_a_killed_broker_left_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = directory(dir.path());
        let own = rustix::process::geteuid().as_raw();
        drop(bind_in(&dir, own, "n@h", 1).expect("it binds"));
        let living = bind_in(&dir, own, "n@h", 2).expect("it binds again");
        assert_eq!(living.told_apart_by, None);
        let second = bind_in(&dir, own, "n@h", 3).expect("beside it");
        assert_eq!(second.told_apart_by.as_deref(), Some("n@h+3"));
        assert!(second.path.ends_with("n@h+3.sock"));
    }

    #[test]
    fn brokers_of_one_name_are_told_apart_by_their_process_ids() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = directory(dir.path());
        let own = rustix::process::geteuid().as_raw();
        let first = bind_in(&dir, own, "n@h", 1).expect("it binds");
        let second = bind_in(&dir, own, "n@h", 2).expect("beside it");
        let _other = bind_in(&dir, own, "n@h2", 3).expect("under its own name");
        let dirs = [dir];
        let refused = connect_in(&dirs, own, "n@h").expect_err("which one?");
        let inside = refused.get_ref().and_then(|inside| inside.downcast_ref());
        // Both listen in this process.
        let ambiguous = Ambiguous {
            node: "n@h".to_owned(),
            pids: vec![process::id(); 2],
        };
        assert_eq!(inside, Some(&ambiguous));
        drop(second);
        let alone = format!("n@h+{}", process::id());
        connect_in(&dirs, own, &alone).expect("the first one");
        let missing = connect_in(&dirs, own, "n@h+1").expect_err("no such process");
        assert_ne!(missing.kind(), io::ErrorKind::PermissionDenied);
        connect_in(&dirs, own, "n@h").expect("there is one left");
        drop(first);
        let gone = connect_in(&dirs, own, "n@h").expect_err("nobody is left");
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_home_has_the_socket_of_its_user_and_of_nobody_else() {
        let home = tempfile::tempdir().expect("a directory");
        let own = rustix::process::geteuid().as_raw();
        let [dir] = &at_home(home.path(), &[own])[..] else {
            panic!("one owner, one directory");
        };
        let bound = bind_in(dir, own, "rabbit@host", 1).expect("it binds");
        assert!(bound.path.starts_with(home.path()));
        let mode = fs::metadata(&dir.path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        let of_another = at_home(home.path(), &[own + 1]);
        assert!(of_another[0].check(own).is_err());
    }

    #[test]
    fn names_that_are_no_file_names_or_too_long_have_sockets_too() {
        let dir = directory(Path::new("/run/leveret"));
        for name in ["../../etc/x@h", &"n".repeat(300)] {
            let path = dir.socket(name, Some(u32::MAX));
            assert_eq!(path.parent(), Some(Path::new("/run/leveret")));
            assert!(path.as_os_str().len() < 108, "{}", path.display());
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
