//! The journal's port to the disk, and its one real adapter. Every write and sync of the writer goes through here,
//! so that tests can put in a disk that fails or forgets.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock, fstatfs};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reading; it must be there.
    Read,
    /// Appending and reading; made when it is not there.
    Append,
    /// As `Append`, but emptied.
    Create,
}

/// An open file. Appends go to its end, wherever that is.
pub trait StoredFile: Send + Sync {
    /// One `write`. It may write less than was given.
    ///
    /// # Errors
    /// The system's.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
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
    /// Cuts the file.
    ///
    /// # Errors
    /// The system's.
    fn truncate(&self, size: u64) -> io::Result<()>;
    /// `fdatasync`.
    ///
    /// # Errors
    /// The system's. What was written since the last sync may be gone.
    fn sync(&self) -> io::Result<()>;
    /// Takes all write permissions away.
    ///
    /// # Errors
    /// The system's.
    fn seal(&self) -> io::Result<()>;
}

/// Held until it is dropped.
pub trait Lock: Send + Sync {}

/// Directories and files.
pub trait Storage: Send + Sync {
    /// Makes a directory and its parents.
    ///
    /// # Errors
    /// The system's.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file.
    ///
    /// # Errors
    /// The system's; `NotFound` for `Mode::Read`.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn StoredFile>>;
    /// Moves a file over another, or a directory.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Locks a file for this process alone, making it when it is not there.
    ///
    /// # Errors
    /// `WouldBlock` when another holds it, `Unsupported` on a network file system.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
}

/// The system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    /// Accept file systems whose locks and syncs another machine decides.
    pub network: bool,
}

struct DiskFile(fs::File);

impl Lock for DiskFile {}

impl StoredFile for DiskFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut &self.0, bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn seal(&self) -> io::Result<()> {
        self.0.set_permissions(fs::Permissions::from_mode(0o440))
    }
}

/// NFS, SMB, CIFS, SMB2, 9P, Ceph, AFS and Lustre, by the numbers of statfs(2).
const NETWORK: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x0bd0_0bd0];

impl Storage for Disk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn StoredFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o640);
        match mode {
            Mode::Read => {}
            // A sealed segment whose successor was never written is opened again.
            Mode::Append if !writable(path) => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o640))?;
                options.append(true);
            }
            Mode::Append => {
                options.append(true).create(true);
            }
            Mode::Create => {
                if path.exists() {
                    fs::remove_file(path)?;
                }
                options.append(true).create_new(true);
            }
        }
        Ok(Arc::new(DiskFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        let kind = fstatfs(&file)?.f_type;
        if !self.network && NETWORK.contains(&u64::try_from(kind).unwrap_or_default()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(DiskFile(file)))
    }
}

fn writable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |m| m.permissions().mode() & 0o200 != 0)
}

/// Why an append did not happen.
pub(crate) enum AppendError {
    /// The file is as it was.
    Undone(io::Error),
    /// The file's end is not known any more.
    Lost(io::Error),
}

/// Appends everything to a file of `size` bytes, or leaves it with these.
pub(crate) fn append_all(file: &dyn StoredFile, size: u64, bytes: &[u8]) -> Result<(), AppendError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let error = match file.append(rest) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(n) => {
                rest = rest.get(n..).unwrap_or_default();
                continue;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => e,
        };
        return Err(match file.truncate(size) {
            Ok(()) => AppendError::Undone(error),
            Err(_) => AppendError::Lost(error),
        });
    }
    Ok(())
}

/// Reads a file from one place on.
pub(crate) struct ReadFrom {
    file: Arc<dyn StoredFile>,
    offset: u64,
    end: u64,
}

impl ReadFrom {
    /// The bytes `[offset, end)`.
    pub(crate) fn new(file: Arc<dyn StoredFile>, offset: u64, end: u64) -> ReadFrom {
        ReadFrom { file, offset, end }
    }
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.offset)?;
        self.offset += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

/// A whole file of at most `most` bytes.
pub(crate) fn read_all(storage: &dyn Storage, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = storage.open(path, Mode::Read)?;
    let size = file.size()?;
    if size > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large"));
    }
    let mut bytes = Vec::new();
    ReadFrom::new(file, 0, size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file in the place of another, whole or not at all, and durable.
pub(crate) fn replace(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    let file = storage.open(temporary, Mode::Create)?;
    append_all(&*file, 0, bytes).map_err(|e| match e {
        AppendError::Undone(e) | AppendError::Lost(e) => e,
    })?;
    file.sync()?;
    storage.rename(temporary, path)?;
    path.parent().map_or(Ok(()), |parent| storage.sync_dir(parent))
}
