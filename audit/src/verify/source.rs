//! Where the verifier reads from: a directory, or whatever holds the same files. It opens regular files of the log's
//! own names alone, never links, pipes or devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::layout::{self, KEYS, LOG};

/// A file that can be read at any place.
pub trait ReadAt: Send + Sync {
    /// Reads at a place; 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;
}

/// The files of one log, by the names of `FORMAT.md`. Of an archive's `NNNNNNNN.keys` the newest is the file `keys`.
pub trait Source {
    /// Numbers of the segments whose records are there, ascending.
    ///
    /// # Errors
    /// They can't be listed.
    fn segments(&self) -> io::Result<Vec<u64>>;
    /// Opens a file; `None` when it is not there.
    ///
    /// # Errors
    /// It is there and can't be read.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn ReadAt>>>;
}

/// A log's directory.
#[derive(Clone, Debug)]
pub struct DirSource(PathBuf);

impl DirSource {
    /// The directory with the file `keys` in it.
    pub fn new(dir: impl AsRef<Path>) -> DirSource {
        DirSource(dir.as_ref().to_owned())
    }
}

struct Plain(File);

impl ReadAt for Plain {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl DirSource {
    fn numbers(&self, extension: &str) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let segment = entry?.file_name().to_str().and_then(layout::parse);
            found.extend(segment.filter(|(_, e)| *e == extension).map(|(segment, _)| segment));
        }
        found.sort_unstable();
        Ok(found)
    }

    fn file(&self, name: &str) -> io::Result<Option<Arc<dyn ReadAt>>> {
        let path = self.0.join(name);
        // A pipe must not be waited for, and a link may lead anywhere.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file =
            OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(&path);
        let file = match file {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: no regular file", path.display()),
            ));
        }
        Ok(Some(Arc::new(Plain(file))))
    }
}

impl Source for DirSource {
    fn segments(&self) -> io::Result<Vec<u64>> {
        self.numbers(LOG)
    }

    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn ReadAt>>> {
        match self.file(name)? {
            // What was copied from an archive.
            None if name == KEYS => match self.numbers(KEYS)?.last() {
                Some(newest) => self.file(&layout::name(*newest, KEYS)),
                None => Ok(None),
            },
            found => Ok(found),
        }
    }
}

/// A whole file of at most `most` bytes; `None` when it is not there.
pub(crate) fn whole(source: &dyn Source, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = source.open(name)? else { return Ok(None) };
    let size = file.size()?;
    if size > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name}: too large")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    Stream { file: Some(file), offset: 0 }.take(size).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Reads a file from its start.
pub(crate) struct Stream {
    file: Option<Arc<dyn ReadAt>>,
    offset: u64,
}

impl Stream {
    /// A file that is not there is empty.
    pub(crate) fn open(source: &dyn Source, segment: u64, extension: &str) -> io::Result<Stream> {
        Ok(Stream { file: source.open(&layout::name(segment, extension))?, offset: 0 })
    }

    pub(crate) fn of(source: &dyn Source, name: &str) -> io::Result<Stream> {
        Ok(Stream { file: source.open(name)?, offset: 0 })
    }

    /// Everything, if it is no more than this.
    pub(crate) fn all(mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Read::by_ref(&mut self).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &self.file else { return Ok(0) };
        let read = file.read_at(buffer, self.offset)?;
        self.offset += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}
