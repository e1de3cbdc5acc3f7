//! C2SP signed notes and checkpoints: exactly the bytes of c2sp.org/signed-note and c2sp.org/tlog-checkpoint, read
//! strictly. It decides nothing about which keys are to be believed.

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::hash::Digest;
use crate::key::{SigningKey, VerifierKey, is_name};

/// Greatest size of a note, in bytes: sixteen post-quantum cosignatures have room.
pub const MAX_NOTE: usize = 128 * 1024;
/// Most signatures of one note.
pub const MAX_SIGNATURES: usize = 64;

/// A signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The key's name.
    pub name: String,
    /// The key's id.
    pub id: [u8; 4],
    /// What follows the id: 64 bytes for Ed25519.
    pub bytes: Vec<u8>,
}

/// A note whose signatures are read but not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What is signed; ends with a newline.
    pub text: String,
    /// At least one.
    pub signatures: Vec<Signature>,
}

/// Why a note is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Not the form of a signed note, or too large.
    #[error("no signed note")]
    Malformed,
    /// No signature of a known key.
    #[error("no signature of a known key")]
    UnknownKey,
    /// A known key's signature is wrong.
    #[error("a known key's signature is wrong")]
    BadSignature,
    /// The text is no checkpoint.
    #[error("no checkpoint")]
    NoCheckpoint,
}

impl Note {
    /// Reads a note's form.
    ///
    /// # Errors
    /// `Malformed`: no UTF-8, control characters, no last newline, no blank line, a line among the signatures that is
    /// none, base64 that is not canonical, too long, too many signatures.
    pub fn parse(bytes: &[u8]) -> Result<Note, NoteError> {
        if bytes.len() > MAX_NOTE || bytes.iter().any(|b| *b < 0x20 && *b != b'\n') {
            return Err(NoteError::Malformed);
        }
        let all = std::str::from_utf8(bytes).map_err(|_| NoteError::Malformed)?;
        let split = all.rfind("\n\n").ok_or(NoteError::Malformed)?;
        let (text, rest) = all.split_at(split + 1);
        let lines = rest.strip_prefix('\n').and_then(|r| r.strip_suffix('\n')).ok_or(NoteError::Malformed)?;
        let mut signatures = Vec::new();
        for line in lines.split('\n') {
            if signatures.len() == MAX_SIGNATURES {
                return Err(NoteError::Malformed);
            }
            signatures.push(signature(line).ok_or(NoteError::Malformed)?);
        }
        Ok(Note { text: text.to_owned(), signatures })
    }

    /// Whether one of these keys signed it: the first that did. Signatures of other keys are ignored.
    ///
    /// # Errors
    /// `BadSignature` when a known key's signature is wrong, even beside a right one; `UnknownKey` when none of the
    /// keys signed.
    pub fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k VerifierKey> + Clone,
    ) -> Result<&'k VerifierKey, NoteError> {
        let mut found = None;
        for signature in &self.signatures {
            let known =
                keys.clone().into_iter().find(|k| k.name() == signature.name && k.id() == signature.id);
            if let Some(key) = known {
                if !key.verify(self.text.as_bytes(), &signature.bytes) {
                    return Err(NoteError::BadSignature);
                }
                found = found.or(Some(key));
            }
        }
        found.ok_or(NoteError::UnknownKey)
    }
}

fn signature(line: &str) -> Option<Signature> {
    let (name, encoded) = line.strip_prefix("— ")?.split_once(' ')?;
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    let (id, rest) = bytes.split_first_chunk::<4>()?;
    (is_name(name) && !rest.is_empty()).then(|| Signature {
        name: name.to_owned(),
        id: *id,
        bytes: rest.to_vec(),
    })
}

/// A tree's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's id.
    pub origin: String,
    /// How many leaves.
    pub size: u64,
    /// The root of RFC 6962 over them.
    pub root: Digest,
}

/// A decimal number as C2SP writes it: digits, no sign, no leading zero.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

impl Checkpoint {
    /// The note's text. Extension lines are accepted and ignored.
    ///
    /// # Errors
    /// `NoCheckpoint`.
    pub fn of_text(text: &str) -> Result<Checkpoint, NoteError> {
        let read = || {
            let mut lines = text.strip_suffix('\n')?.split('\n');
            let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
            let root = Digest::from_slice(&BASE64_STANDARD.decode(root).ok()?)?;
            let plain = !origin.is_empty() && lines.all(|l| !l.is_empty());
            plain.then_some(Checkpoint { origin: origin.to_owned(), size: decimal(size)?, root })
        };
        read().ok_or(NoteError::NoCheckpoint)
    }

    /// The text that is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64_STANDARD.encode(self.root.0))
    }

    /// The signed note.
    pub fn sign(&self, key: &SigningKey) -> String {
        let text = self.text();
        let id = key.verifier(&self.origin).id();
        let bytes = [id.as_slice(), &key.sign(text.as_bytes())].concat();
        format!("{text}\n— {} {}\n", self.origin, BASE64_STANDARD.encode(bytes))
    }

    /// Reads a signed checkpoint of the log that one of the keys is named for.
    ///
    /// # Errors
    /// Those of notes; `NoCheckpoint` also when the origin is not the key's name.
    pub fn open<'k>(
        bytes: &[u8],
        keys: impl IntoIterator<Item = &'k VerifierKey> + Clone,
    ) -> Result<(Checkpoint, &'k VerifierKey), NoteError> {
        let note = Note::parse(bytes)?;
        let key = note.verify(keys)?;
        let checkpoint = Checkpoint::of_text(&note.text)?;
        if checkpoint.origin != key.name() {
            return Err(NoteError::NoCheckpoint);
        }
        Ok((checkpoint, key))
    }
}

#[cfg(test)]
mod tests;
