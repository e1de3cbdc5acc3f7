//! The files of one log and their names. Everything else in its directory is not the log's.

use std::path::{Path, PathBuf};

/// Records.
pub const LOG: &str = "log";
/// Leaf hashes, 32 bytes each: any 8192 bytes that start at a multiple of 256 leaves of the log are a level-0 tile.
pub const LEAVES: &str = "leaves";
/// Signed checkpoints, framed like records.
pub const CHECKPOINTS: &str = "checkpoints";
/// State at the segment's start.
pub const SNAPSHOT: &str = "snapshot";
/// The lock file.
pub const LOCK: &str = "lock";
/// The key hand-overs, framed like records. As an extension: those up to a segment's end, in an archive.
pub const KEYS: &str = "keys";

/// The name of a segment's file.
pub fn name(segment: u64, extension: &str) -> String {
    format!("{segment:08}.{extension}")
}

/// The path of a segment's file.
pub fn path(dir: &Path, segment: u64, extension: &str) -> PathBuf {
    dir.join(name(segment, extension))
}

/// The segment and the extension of a file's name, if it is one of ours.
pub fn parse(file: &str) -> Option<(u64, &'static str)> {
    let (number, extension) = file.split_once('.')?;
    let extension = [LOG, LEAVES, CHECKPOINTS, SNAPSHOT, KEYS].into_iter().find(|e| *e == extension)?;
    let segment = number.parse().ok()?;
    (number.bytes().all(|b| b.is_ascii_digit()) && name(segment, extension) == file)
        .then_some((segment, extension))
}

/// Whether a name can be an instance's: it becomes a directory and part of the log's id.
pub fn is_instance(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z20_only_our_own_names_are_read() {
        assert_eq!(parse("00000012.log"), Some((12, LOG)));
        assert_eq!(parse("123456789.leaves"), Some((123_456_789, LEAVES)));
        assert_eq!(parse("00000003.keys"), Some((3, KEYS)));
        for other in
            ["12.log", "000000012.log", "00000012.log.new", "+0000012.log", "00000012", "../00000001.log"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        assert!(is_instance("gw-1") && !is_instance("..") && !is_instance("a/b") && !is_instance(""));
    }
}
