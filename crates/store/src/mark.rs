//! The side file: the number of the newest commit that is known to be on the disk.
//!
//! The commits themselves cannot tell that the newest of them are gone; a file beside them can. It may lag behind by about
//! a second, which is why it is a lower bound and never more.
//!
//! ```text
//!   synced 1234 89abcdef        number, CRC-32C over the text before it
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::directory::{SIDE_FILE, replace_file};

/// Where the side file of a data directory is.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(SIDE_FILE)
}

/// The number in the side file; `None` if there is no file yet.
pub(crate) fn read(dir: &Path) -> io::Result<Option<u64>> {
    match fs::read_to_string(path(dir)) {
        Ok(text) => parse(&text)
            .map(Some)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the side file is damaged")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says that this commit and all before it are on the disk.
pub(crate) fn write(dir: &Path, synced: u64) -> io::Result<()> {
    replace_file(&path(dir), text(synced).as_bytes())
}

fn text(synced: u64) -> String {
    let text = format!("synced {synced}");
    let sum = crc32c::crc32c(text.as_bytes());
    format!("{text} {sum:08x}\n")
}

fn parse(content: &str) -> Option<u64> {
    let number: u64 = content
        .strip_prefix("synced ")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    (text(number) == content).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_and_anything_else_is_damage() {
        assert_eq!(parse(&text(1234)), Some(1234));
        assert_eq!(parse(&text(u64::MAX)), Some(u64::MAX));
        assert_eq!(parse(&text(1234).replace('4', "5")), None);
        assert_eq!(parse("synced 1234"), None);
        assert_eq!(parse(""), None);
    }
}
