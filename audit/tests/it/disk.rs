//! A disk in memory that keeps a diary: it can fail at the n-th operation, and it can be cut off at any place, with
//! what was not synced lost, torn, or surviving out of order.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_audit::storage::{Lock, Mode, Storage, StoredFile};

use crate::support::{Files, Random};

/// One thing that reached the disk, in order.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create(PathBuf, usize),
    Write(usize, Vec<u8>),
    Truncate(usize, u64),
    Sync(usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
    /// The journal told its caller that this record is taken.
    Ack(u64, tollgate_audit::hash::Digest),
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error(i32),
    /// Half of a write.
    Short,
    Interrupted,
}

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Vec<u8>>,
    diary: Vec<Op>,
    operations: u64,
    fail: Option<(u64, Failure, bool)>,
    fail_sync: bool,
    fired: bool,
}

#[derive(Clone, Default)]
pub(crate) struct FakeDisk(Arc<Mutex<State>>);

struct FakeFile {
    disk: FakeDisk,
    inode: usize,
}

struct NoLock;
impl Lock for NoLock {}

impl FakeDisk {
    /// A disk with one directory's files on it.
    pub(crate) fn with(dir: &Path, files: &Files) -> FakeDisk {
        let disk = FakeDisk::default();
        for (name, bytes) in &files.0 {
            let mut state = disk.0.lock();
            let inode = state.files.len();
            state.files.push(bytes.to_vec());
            state.names.insert(dir.join(name), inode);
        }
        disk
    }

    /// The n-th counted operation fails, once or from then on.
    pub(crate) fn fail(&self, n: u64, failure: Failure, forever: bool) {
        let mut state = self.0.lock();
        (state.operations, state.fail, state.fired) = (0, Some((n, failure, forever)), false);
    }

    /// The next sync fails, and what it was to sync is gone.
    pub(crate) fn fail_sync(&self) {
        self.0.lock().fail_sync = true;
    }

    /// Works again; says whether anything failed.
    pub(crate) fn heal(&self) -> bool {
        let mut state = self.0.lock();
        state.fail = None;
        state.fired
    }

    pub(crate) fn ack(&self, seq: u64, leaf: tollgate_audit::hash::Digest) {
        self.0.lock().diary.push(Op::Ack(seq, leaf));
    }

    pub(crate) fn diary(&self) -> Vec<Op> {
        self.0.lock().diary.clone()
    }

    pub(crate) fn files(&self, dir: &Path) -> Files {
        let state = self.0.lock();
        let mut files = Files::default();
        for (path, inode) in state.names.iter().filter(|(p, _)| p.parent() == Some(dir)) {
            files.put(&path.file_name().unwrap().to_string_lossy(), state.files[*inode].clone());
        }
        files
    }

    /// Counts an operation; the failure that is due, if one is.
    fn count(&self) -> Option<Failure> {
        let mut state = self.0.lock();
        state.operations += 1;
        let (n, failure, forever) = state.fail?;
        if state.operations == n || (forever && state.operations > n) {
            state.fired = true;
            return Some(failure);
        }
        None
    }

    /// An operation that needs no space. Only writes are interrupted or short.
    fn attempt(&self) -> io::Result<()> {
        match self.count() {
            Some(Failure::Error(5)) => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        }
    }

    fn make(&self) -> io::Result<()> {
        match self.count() {
            Some(Failure::Error(code)) => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }
}

impl StoredFile for FakeFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let length = match self.disk.count() {
            None => bytes.len(),
            Some(Failure::Short) => bytes.len() / 2,
            Some(Failure::Interrupted) => return Err(io::ErrorKind::Interrupted.into()),
            Some(Failure::Error(code)) => return Err(io::Error::from_raw_os_error(code)),
        };
        let mut state = self.disk.0.lock();
        state.files[self.inode].extend_from_slice(&bytes[..length]);
        state.diary.push(Op::Write(self.inode, bytes[..length].to_vec()));
        Ok(length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.0.lock();
        let rest = state.files[self.inode].get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().files[self.inode].len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.disk.attempt()?;
        let mut state = self.disk.0.lock();
        state.files[self.inode].resize(size as usize, 0);
        state.diary.push(Op::Truncate(self.inode, size));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.attempt()?;
        if std::mem::take(&mut self.disk.0.lock().fail_sync) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.0.lock().diary.push(Op::Sync(self.inode));
        Ok(())
    }

    fn seal(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for FakeDisk {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.attempt()?;
        self.0.lock().diary.push(Op::SyncDir(dir.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        let inside = state.names.keys().filter(|p| p.parent() == Some(dir));
        Ok(inside.map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn StoredFile>> {
        let there = self.0.lock().names.get(path).copied();
        let inode = match (there, mode) {
            (None, Mode::Read) => return Err(io::ErrorKind::NotFound.into()),
            (Some(inode), Mode::Read | Mode::Append) => inode,
            (_, Mode::Create | Mode::Append) => {
                self.make()?;
                let mut state = self.0.lock();
                let inode = state.files.len();
                state.files.push(Vec::new());
                state.names.insert(path.to_owned(), inode);
                state.diary.push(Op::Create(path.to_owned(), inode));
                inode
            }
        };
        Ok(Arc::new(FakeFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.attempt()?;
        let mut state = self.0.lock();
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.diary.push(Op::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.attempt()?;
        let mut state = self.0.lock();
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.diary.push(Op::Remove(path.to_owned()));
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(NoLock))
    }
}

/// What a power cut leaves of a diary's first operations.
pub(crate) fn survive(diary: &[Op], dir: &Path, random: &mut Random) -> Files {
    let mut durable: Vec<Vec<u8>> = Vec::new();
    let mut current: Vec<Vec<u8>> = Vec::new();
    let mut names: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut waiting: Vec<Op> = Vec::new();
    for op in diary {
        match op {
            Op::Write(inode, bytes) => current[*inode].extend_from_slice(bytes),
            Op::Truncate(inode, size) => current[*inode].resize(*size as usize, 0),
            Op::Sync(inode) => durable[*inode] = current[*inode].clone(),
            Op::Create(_, inode) => {
                current.resize(inode + 1, Vec::new());
                durable.resize(inode + 1, Vec::new());
                waiting.push(op.clone());
            }
            Op::Rename(..) | Op::Remove(_) => waiting.push(op.clone()),
            Op::SyncDir(of) => {
                let (now, later) = waiting.into_iter().partition(|w| parent(w) == Some(of.as_path()));
                waiting = later;
                now.iter().for_each(|w: &Op| apply(&mut names, w));
            }
            Op::Ack(..) => {}
        }
    }
    // Entries of a directory reach the disk in order, as far as they do.
    let kept = random.below(waiting.len() as u64 + 1) as usize;
    waiting[..kept].iter().for_each(|w| apply(&mut names, w));
    let style = random.below(4);
    let mut files = Files::default();
    for (path, inode) in names.iter().filter(|(p, _)| p.parent() == Some(dir)) {
        let bytes = torn(&durable[*inode], &current[*inode], style, random);
        files.put(&path.file_name().unwrap().to_string_lossy(), bytes);
    }
    files
}

fn parent(op: &Op) -> Option<&Path> {
    match op {
        Op::Create(path, _) | Op::Remove(path) | Op::Rename(_, path) => path.parent(),
        _ => None,
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, op: &Op) {
    match op {
        Op::Create(path, inode) => drop(names.insert(path.clone(), *inode)),
        Op::Remove(path) => drop(names.remove(path)),
        Op::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        _ => {}
    }
}

/// A file after the cut: without what was not synced, with it, cut at some sector, or with holes.
fn torn(durable: &[u8], current: &[u8], style: u64, random: &mut Random) -> Vec<u8> {
    match style {
        0 => return durable.to_vec(),
        1 => return current.to_vec(),
        _ => {}
    }
    let (low, high) = (durable.len().min(current.len()), durable.len().max(current.len()));
    let mut length = low + random.below((high - low) as u64 + 1) as usize;
    if style == 2 {
        length = length.max(low) / 512 * 512;
        length = length.clamp(low, high);
    }
    let mut out = vec![0; length];
    for start in (0..length).step_by(512) {
        let end = (start + 512).min(length);
        let new = style == 2 || random.below(2) == 0;
        for (at, byte) in out.iter_mut().enumerate().take(end).skip(start) {
            let (old, fresh) = (durable.get(at), current.get(at));
            let kept = old.is_some() && old == fresh;
            *byte = match (kept || new, old, fresh) {
                (true, _, Some(byte)) | (false, Some(byte), _) | (true, Some(byte), None) => *byte,
                (_, None, _) => 0,
            };
        }
    }
    out
}
