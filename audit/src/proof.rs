//! Proof files, c2sp.org/tlog-proof@v1: that a record stands in a log, checked with the log's key and nothing else.
//! The record itself is the proof's extra data, so that the file is whole; it is believed for its hash alone.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::hash::Digest;
use crate::key::VerifierKey;
use crate::note::{Checkpoint, Note, NoteError, decimal};
use crate::tree;

/// First line of every proof.
const LABEL: &str = "c2sp.org/tlog-proof@v1";
/// Greatest size of a proof file, in bytes.
pub const MAX_PROOF: usize = 512 * 1024;

/// A proof whose parts are read but not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The record's JSON, as it stands in the log.
    pub record: Vec<u8>,
    /// The record's `seq`.
    pub index: u64,
    /// From the leaf's sibling to the root's child.
    pub path: Vec<Digest>,
    /// The signed checkpoint, as it stands in the log.
    pub checkpoint: String,
}

/// Why a proof does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// Not the form of a proof.
    #[error("no proof file")]
    Malformed,
    /// The checkpoint is refused.
    #[error("the checkpoint is refused: {0}")]
    Checkpoint(#[from] NoteError),
    /// The path leads to another root: another record, place, size or log.
    #[error("the record is not at this place of the log")]
    NotIncluded,
    /// The record names another log or place than the proof.
    #[error("the record names another log or place")]
    Mismatch,
}

impl Proof {
    /// The file's text.
    pub fn text(&self) -> String {
        let path: String = self.path.iter().map(|h| BASE64_STANDARD.encode(h.0) + "\n").collect();
        let record = BASE64_STANDARD.encode(&self.record);
        format!("{LABEL}\nextra {record}\nindex {}\n{path}\n{}", self.index, self.checkpoint)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Malformed`.
    pub fn parse(text: &str) -> Result<Proof, ProofError> {
        let read = || {
            let (head, checkpoint) = text.split_once("\n\n")?;
            let mut lines = head.split('\n');
            let first = lines.next()?;
            let record = BASE64_STANDARD.decode(lines.next()?.strip_prefix("extra ")?).ok()?;
            let index = decimal(lines.next()?.strip_prefix("index ")?)?;
            let path: Option<Vec<Digest>> =
                lines.map(|l| Digest::from_slice(&BASE64_STANDARD.decode(l).ok()?)).collect();
            let path = path.filter(|p| p.len() <= 64)?;
            let proof = Proof { record, index, path, checkpoint: checkpoint.to_owned() };
            (first == LABEL && text.len() <= MAX_PROOF).then_some(proof)
        };
        read().ok_or(ProofError::Malformed)
    }

    /// Checks everything against the keys of the log's epochs. The checkpoint that it returns is what it is proven by.
    ///
    /// # Errors
    /// Why it doesn't hold.
    pub fn check(&self, keys: &[VerifierKey]) -> Result<Checkpoint, ProofError> {
        let (checkpoint, _) = Checkpoint::open(self.checkpoint.as_bytes(), keys)?;
        self.under(checkpoint)
    }

    /// Checks everything but the signature: anybody could have made what holds then.
    ///
    /// # Errors
    /// Why it doesn't hold.
    pub fn check_unsigned(&self) -> Result<Checkpoint, ProofError> {
        let note = Note::parse(self.checkpoint.as_bytes())?;
        self.under(Checkpoint::of_text(&note.text)?)
    }

    fn under(&self, checkpoint: Checkpoint) -> Result<Checkpoint, ProofError> {
        let leaf = tree::leaf_hash(&self.record);
        let root = tree::root_of_inclusion(leaf, self.index, checkpoint.size, &self.path);
        if root != Some(checkpoint.root) {
            return Err(ProofError::NotIncluded);
        }
        let entry = crate::entry::Entry::parse(&self.record).ok_or(ProofError::Mismatch)?;
        if entry.log != checkpoint.origin || entry.seq.0 != self.index {
            return Err(ProofError::Mismatch);
        }
        Ok(checkpoint)
    }
}
