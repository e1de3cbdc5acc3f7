//! Static bearer tokens: known by name, kept as SHA-256 and never as text. A token's text is compared with nothing:
//! its digest is, which its sender can't steer towards another's, and even that without an early exit.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq;

use crate::digest::{self, Digest};
use crate::principal::{Identifier, Principal};

/// One static token, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticToken {
    /// Its name, unique.
    pub name: Identifier,
    /// SHA-256 of its text, from [`parse_digest`].
    pub sha256: Digest,
    /// When it ends, in seconds since 1970 UTC; never without.
    pub expires: Option<u64>,
}

/// What is wrong with the static tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// Two tokens have this name.
    #[error("two tokens are named '{0}'")]
    Name(String),
    /// Two names have one token: who called could not be told.
    #[error("tokens '{0}' and '{1}' are the same token")]
    Same(String, String),
}

/// What a static token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    /// One of ours.
    Known(Principal),
    /// One of ours whose time is over.
    Expired,
    /// None of ours.
    Unknown,
}

/// Reads a SHA-256 digest: 64 hex digits, or 32 bytes in base64 (with or without padding, or the URL's alphabet). Space
/// around it and a file name after it, as `sha256sum` writes, are left out.
pub fn parse_digest(text: &str) -> Option<Digest> {
    let word = text.split_ascii_whitespace().next()?;
    let bytes = match word.len() {
        64 => hex(word)?,
        _ => {
            [STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD].iter().find_map(|base64| base64.decode(word).ok())?
        }
    };
    bytes.try_into().ok()
}

fn hex(word: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = word.chars().map(|c| c.to_digit(16)).collect();
    let pair =
        |pair: &[u32]| pair.iter().fold(0u8, |byte, digit| (byte << 4) | u8::try_from(*digit).unwrap_or(0));
    Some(digits?.chunks(2).map(pair).collect())
}

/// The static tokens of a configuration.
#[derive(Clone, Debug, Default)]
pub struct StaticTokens {
    // By the first eight bytes of the digest: almost always one, whatever their number.
    by_head: HashMap<[u8; 8], Vec<StaticToken>>,
}

impl StaticTokens {
    /// Compiles the tokens.
    ///
    /// # Errors
    /// A name or a token stands twice.
    pub fn compile(tokens: Vec<StaticToken>) -> Result<StaticTokens, TokensError> {
        let mut names = HashSet::new();
        let mut compiled = StaticTokens::default();
        for token in tokens {
            if !names.insert(token.name.clone()) {
                return Err(TokensError::Name(token.name.to_string()));
            }
            let alike = compiled.by_head.entry(head(&token.sha256)).or_default();
            if let Some(other) = alike.iter().find(|other| other.sha256 == token.sha256) {
                return Err(TokensError::Same(other.name.to_string(), token.name.to_string()));
            }
            alike.push(token);
        }
        Ok(compiled)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_head.is_empty()
    }

    /// Looks up a presented token at `now`, in seconds since 1970 UTC.
    pub fn present(&self, token: &str, now: u64) -> Presented {
        let sha256 = digest::of(token);
        let alike = self.by_head.get(&head(&sha256)).map(Vec::as_slice).unwrap_or_default();
        let equal = |one: &&StaticToken| bool::from(one.sha256.ct_eq(&sha256));
        match alike.iter().find(equal) {
            None => Presented::Unknown,
            Some(found) if found.expires.is_some_and(|end| now >= end) => Presented::Expired,
            Some(found) => Presented::Known(Principal::Token { name: found.name.clone() }),
        }
    }
}

fn head(digest: &Digest) -> [u8; 8] {
    let mut head = [0; 8];
    head.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, text: &str, expires: Option<u64>) -> StaticToken {
        StaticToken { name: Identifier::new(name).unwrap(), sha256: digest::of(text), expires }
    }

    #[test]
    fn a_token_is_known_until_it_ends() {
        let tokens =
            StaticTokens::compile(vec![token("ci", "s3cret", None), token("old", "older", Some(100))]);
        let tokens = tokens.unwrap();
        let known = |name: &str| Presented::Known(Principal::Token { name: Identifier::new(name).unwrap() });
        assert_eq!(tokens.present("s3cret", u64::MAX), known("ci"));
        assert_eq!(tokens.present("older", 99), known("old"));
        assert_eq!(tokens.present("older", 100), Presented::Expired);
        for wrong in ["", "s3cre", "s3cret ", "s3creT", "S3CRET"] {
            assert_eq!(tokens.present(wrong, 0), Presented::Unknown, "{wrong:?}");
        }
    }

    #[test]
    fn digests_with_the_same_beginning_are_told_apart() {
        let one = token("one", "s3cret", None);
        let mut other = token("other", "s3cret", None);
        *other.sha256.last_mut().unwrap() ^= 1;
        let tokens = StaticTokens::compile(vec![other, one.clone()]).unwrap();
        assert_eq!(tokens.present("s3cret", 0), Presented::Known(Principal::Token { name: one.name }));
    }

    #[test]
    fn names_and_tokens_stand_once() {
        let twice = StaticTokens::compile(vec![token("a", "x", None), token("a", "y", None)]);
        assert_eq!(twice.unwrap_err(), TokensError::Name("a".into()));
        let same = StaticTokens::compile(vec![token("a", "x", None), token("b", "x", None)]);
        assert_eq!(same.unwrap_err(), TokensError::Same("a".into(), "b".into()));
    }

    #[test]
    fn a_digest_is_read_as_tools_write_it() {
        let digest = digest::of("abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for text in [
            hex.to_owned(),
            hex.to_uppercase(),
            format!(" {hex}  -\n"),
            STANDARD.encode(digest),
            STANDARD_NO_PAD.encode(digest),
            URL_SAFE_NO_PAD.encode(digest),
        ] {
            assert_eq!(parse_digest(&text), Some(digest), "{text}");
        }
        for text in ["", "abc", &hex[1..], &format!("{}g", &hex[1..]), "AAAA", &format!("{hex}00")] {
            assert_eq!(parse_digest(text), None, "{text}");
        }
    }
}
