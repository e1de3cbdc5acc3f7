//! Ed25519 keys: the signing key and its file, public keys as C2SP verifier keys, and the signed hand-over from one
//! key epoch to the next. Private bytes never leave this file but to the key's own file.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::hash::{Digest, hex, nibble};

/// First word of a key file; the seed in base64 follows.
const FILE_LABEL: &str = "tollgate-audit-key-v1";
/// First line of what a key signs to hand over to the next.
const HANDOVER_LABEL: &str = "dev.tollgate/audit/key/v1";
/// The signature type of Ed25519 in C2SP signed notes.
const TYPE_ED25519: u8 = 1;

/// `N` random bytes of the system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"))?;
    Ok(bytes)
}

/// A private key. Its `Debug` shows the public half alone.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", hex(&self.public()))
    }
}

impl SigningKey {
    /// From the 32 bytes that RFC 8032 calls the private key.
    ///
    /// # Errors
    /// The library refuses the seed; it has no reason to.
    pub fn from_seed(seed: [u8; 32]) -> io::Result<SigningKey> {
        let pair =
            Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| io::Error::other("no Ed25519 seed"))?;
        Ok(SigningKey { pair, seed })
    }

    /// A new key.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn generate() -> io::Result<SigningKey> {
        SigningKey::from_seed(random()?)
    }

    /// The public half, 32 bytes.
    pub fn public(&self) -> [u8; 32] {
        self.pair.public_key().as_ref().try_into().unwrap_or_default()
    }

    /// The public half under the name of the log that it signs for.
    pub fn verifier(&self, log: &str) -> VerifierKey {
        VerifierKey { name: log.to_owned(), public: self.public() }
    }

    /// Signs by RFC 8032: 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// Reads the key at `path`, or makes one there (mode 0600, synced, with its directory) when there is none. Says
    /// whether it was made.
    ///
    /// # Errors
    /// The file can't be read, is open to others, holds no key; a new one can't be written.
    pub fn load_or_make(path: &Path) -> io::Result<(SigningKey, bool)> {
        match SigningKey::load(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let key = SigningKey::generate()?;
                key.store(path)?;
                Ok((key, true))
            }
            other => other.map(|key| (key, false)),
        }
    }

    /// Reads the key at `path`.
    ///
    /// # Errors
    /// There is none, its group or others may read or write it, or it holds no key.
    pub fn load(path: &Path) -> io::Result<SigningKey> {
        let invalid =
            |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
        let meta = std::fs::metadata(path)?;
        if !meta.is_file() || meta.permissions().mode() & 0o077 != 0 {
            return Err(invalid("a signing key must be a file of mode 0600"));
        }
        if meta.len() > 1024 {
            return Err(invalid("no signing key"));
        }
        let text = std::fs::read_to_string(path)?;
        let seed = text.trim_end().strip_prefix(FILE_LABEL).map(str::trim_start);
        let seed = seed.and_then(|s| BASE64_STANDARD.decode(s).ok()).and_then(|s| s.try_into().ok());
        SigningKey::from_seed(seed.ok_or_else(|| invalid("no signing key"))?)
    }

    /// Writes the key to a new file at `path`, never over another.
    ///
    /// # Errors
    /// A file is there, or it can't be written and synced.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(format!("{FILE_LABEL} {}\n", BASE64_STANDARD.encode(self.seed)).as_bytes())?;
        file.sync_all()?;
        match path.parent().filter(|p| !p.as_os_str().is_empty()) {
            Some(parent) => std::fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Where the key that follows the one at `path` waits until the log has taken it.
pub fn next_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".next");
    PathBuf::from(name)
}

/// Puts the key that waited in the place of the one at `path`, whose bytes are gone from the directory then.
///
/// # Errors
/// None waits, or it can't be moved and synced.
pub fn promote_next(path: &Path) -> io::Result<()> {
    std::fs::rename(next_path(path), path)?;
    match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// A public key under its log's name, in the form of C2SP signed notes: `name+id+base64(0x01 ‖ key)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    public: [u8; 32],
}

/// Whether a text can be a key's name: not empty, no spaces, no control characters, no plus sign.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+')
}

impl VerifierKey {
    /// A key from its parts; `None` when the name is not one.
    pub fn new(name: &str, public: [u8; 32]) -> Option<VerifierKey> {
        is_name(name).then(|| VerifierKey { name: name.to_owned(), public })
    }

    /// Reads `name+id+base64`; `None` unless the id is the key's own and the type is Ed25519.
    pub fn parse(text: &str) -> Option<VerifierKey> {
        let mut parts = text.splitn(3, '+');
        let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = BASE64_STANDARD.decode(key).ok()?;
        let (kind, public) = bytes.split_first()?;
        let key = VerifierKey::new(name, public.try_into().ok()?)?;
        let mut read = [0; 4];
        if id.len() != 8 || *kind != TYPE_ED25519 {
            return None;
        }
        for (to, pair) in read.iter_mut().zip(id.as_bytes().chunks_exact(2)) {
            let [high, low] = *pair else { return None };
            *to = (nibble(high)? << 4) | nibble(low)?;
        }
        (read == key.id()).then_some(key)
    }

    /// The key's name, which is the log's id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The 32 bytes of RFC 8032.
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// `SHA-256(name ‖ 0x0A ‖ 0x01 ‖ key)[:4]`.
    pub fn id(&self) -> [u8; 4] {
        let digest = Digest::sha256(&[self.name.as_bytes(), b"\n", &[TYPE_ED25519], &self.public]);
        let [a, b, c, d, ..] = digest.0;
        [a, b, c, d]
    }

    /// Whether this key made the signature over the message.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public).verify(message, signature).is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&[TYPE_ED25519], self.public.as_slice()].concat();
        write!(f, "{}+{}+{}", self.name, hex(&self.id()), BASE64_STANDARD.encode(bytes))
    }
}

/// What an old key signs when it hands over: the log, the new epoch, the new key, and where in the chain.
pub fn handover(next: &VerifierKey, epoch: u64, seq: u64, prev: &Digest) -> Vec<u8> {
    format!("{HANDOVER_LABEL}\n{}\n{epoch}\n{next}\n{seq}\n{prev}\n", next.name()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_with_mode_0600_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let (made, new) = SigningKey::load_or_make(&path).unwrap();
        assert!(new);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (read, new) = SigningKey::load_or_make(&path).unwrap();
        assert!(!new);
        assert_eq!(made.public(), read.public());
        assert!(made.store(&path).is_err(), "never over another");
        assert!(!format!("{made:?}").contains(&BASE64_STANDARD.encode(made.seed)));
        assert!(promote_next(&path).is_err(), "none waits");
        let next = SigningKey::generate().unwrap();
        next.store(&next_path(&path)).unwrap();
        promote_next(&path).unwrap();
        assert_eq!(SigningKey::load(&path).unwrap().public(), next.public());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(SigningKey::load_or_make(&path).unwrap_err().to_string().contains("0600"));
    }

    #[test]
    fn z14_the_key_of_the_c2sp_note_package_is_read_and_written() {
        let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let key = VerifierKey::parse(text).unwrap();
        assert_eq!(key.to_string(), text);
        for wrong in [
            "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            "PeterNeumam+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            "PeterNeumann+c74f20a3+Ahpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            "PeterNeumann+c74f20a3",
            "",
        ] {
            assert_eq!(VerifierKey::parse(wrong), None, "{wrong}");
        }
    }
}
