//! Names of members whose values are secrets whatever they look like. A name is compared without case, hyphens,
//! underscores and dots, so that one entry covers all spellings.

/// Longest name that is looked at, in bytes.
const MAX_NAME: usize = 64;

const EXACT: &[&[u8]] = &[
    b"pwd",
    b"secret",
    b"secrets",
    b"token",
    b"credential",
    b"credentials",
    b"cookie",
    b"setcookie",
    b"cvv",
    b"cvc",
    b"authorization",
];

const ENDINGS: &[&[u8]] = &[
    b"password",
    b"passwd",
    b"passphrase",
    b"passcode",
    b"secret",
    b"apikey",
    b"accesskey",
    b"secretkey",
    b"privatekey",
    b"signingkey",
    b"encryptionkey",
    b"accountkey",
    b"accesstoken",
    b"refreshtoken",
    b"idtoken",
    b"authtoken",
    b"apitoken",
    b"bearertoken",
    b"sessiontoken",
    b"securitytoken",
    b"proxyauthorization",
    b"clientassertion",
    b"connectionstring",
    b"accesscredential",
    b"authcredentials",
];

/// What may stand before `token` in names that hold none: places in a list, language models' vocabulary.
const NO_TOKEN: &[&[u8]] = &[
    b"page",
    b"next",
    b"previous",
    b"prev",
    b"continuation",
    b"continue",
    b"progress",
    b"sync",
    b"cursor",
    b"resume",
    b"pagination",
    b"starting",
    b"start",
    b"stop",
    b"end",
    b"eos",
    b"bos",
    b"pad",
    b"unk",
    b"sep",
    b"cls",
    b"mask",
    b"special",
    b"per",
    b"last",
    b"first",
    b"input",
    b"output",
    b"perinput",
    b"peroutput",
    b"cancellation",
    b"max",
    b"syntax",
];

/// What a member's name says of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Nothing,
    /// A string is a secret.
    Texts,
    /// Strings, numbers and what holds them are.
    All,
}

/// The names that a redactor knows.
#[derive(Debug, Default)]
pub(super) struct Keys {
    built_in: bool,
    own: Vec<Vec<u8>>,
}

impl Keys {
    /// `own` names are matched whole. A name without letters and digits is given back as wrong.
    pub(super) fn new(built_in: bool, own: &[String]) -> Result<Keys, usize> {
        let mut keys = Keys { built_in, own: Vec::with_capacity(own.len()) };
        for (at, name) in own.iter().enumerate() {
            let mut buffer = [0; MAX_NAME];
            match plain(name, &mut buffer) {
                Some(name) if !name.is_empty() => keys.own.push(name.to_vec()),
                _ => return Err(at),
            }
        }
        keys.own.sort_unstable();
        Ok(keys)
    }

    /// What `name` says.
    pub(super) fn named(&self, name: &str) -> Named {
        if !self.built_in && self.own.is_empty() {
            return Named::Nothing;
        }
        let mut buffer = [0; MAX_NAME];
        let Some(name) = plain(name, &mut buffer) else { return Named::Nothing };
        if self.own.binary_search_by(|own| own.as_slice().cmp(name)).is_ok() {
            return Named::All;
        }
        // All but `cvv` and the like end in one of a few letters; most names end here.
        if !self.built_in || !name.last().is_some_and(|b| b"dtynseclg".contains(b)) {
            return Named::Nothing;
        }
        if EXACT.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            return Named::All;
        }
        match name.strip_suffix(b"token") {
            Some(before) if !NO_TOKEN.iter().any(|no| before.ends_with(no)) => Named::Texts,
            _ => Named::Nothing,
        }
    }
}

/// The letters and digits of a name in lower case; none when it is too long.
fn plain<'b>(name: &str, buffer: &'b mut [u8; MAX_NAME]) -> Option<&'b [u8]> {
    let mut length = 0;
    for byte in name.bytes().filter(|b| !matches!(b, b'-' | b'_' | b'.' | b' ')) {
        *buffer.get_mut(length)? = byte.to_ascii_lowercase();
        length += 1;
    }
    buffer.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_secret_names_are_one_and_places_in_lists_are_none() {
        let keys = Keys::new(true, &["X-Internal-Pin".to_owned()]).unwrap();
        for name in [
            "password",
            "DB_PASSWORD",
            "client-secret",
            "apiKey",
            "x-api-key",
            "Authorization",
            "x_internal_pin",
        ] {
            assert_eq!(keys.named(name), Named::All, "{name}");
        }
        assert_eq!(keys.named("githubToken"), Named::Texts);
        for name in [
            "nextPageToken",
            "progressToken",
            "max_tokens",
            "cost_per_token",
            "name",
            "secretName",
            "",
            "key",
        ] {
            assert_eq!(keys.named(name), Named::Nothing, "{name}");
        }
        assert_eq!(Keys::new(true, &["--".to_owned()]).unwrap_err(), 0);
    }
}
