//! The keys that the gateway seals with: 32 bytes in base64, by reference only. None of their bytes gets into a
//! message.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::config::checked::Keys;
use crate::config::context::{Context, Reference};
use crate::config::place::At;
use crate::config::raw;

/// Keys being rotated out are few.
const MAX_KEYS: usize = 16;
const FORM: &str = "make one with `openssl rand -base64 32`";

/// The configured keys, or one made now. `None` after a problem.
pub(super) fn check(raw: Option<&raw::Keys>, at: &At, context: &mut Context<'_>) -> Option<Keys> {
    let mut single = |key: &str, text: Option<&String>| text.map(|text| one(text, &at.key(key), context));
    let digest = single("digest", raw.and_then(|keys| keys.digest.as_ref()));
    let run_token = single("run_token", raw.and_then(|keys| keys.run_token.as_ref()));
    let seal_at = at.key("seal");
    let (seal, made) = match raw.and_then(|keys| keys.seal.as_ref()) {
        Some(list) => (seal(list, &seal_at, context)?, false),
        None => (vec![make(&seal_at, context)?], true),
    };
    let others = [digest, run_token].into_iter().flatten().flatten();
    if !context.world.elsewhere
        && others
            .clone()
            .enumerate()
            .any(|(n, key)| seal.contains(&key) || others.clone().skip(n + 1).any(|other| other == key))
    {
        context.problem(at, "one key for two uses", "make one for each: `openssl rand -base64 32`");
    }
    // A key that was named and is none was reported.
    (digest != Some(None) && run_token != Some(None)).then_some(Keys {
        seal,
        made,
        digest: digest.flatten(),
        run_token: run_token.flatten(),
    })
}

fn seal(list: &[String], at: &At, context: &mut Context<'_>) -> Option<Vec<[u8; 32]>> {
    if list.is_empty() || list.len() > MAX_KEYS {
        context.problem(at, format!("{} keys", list.len()), format!("name 1 to {MAX_KEYS} keys"));
        return None;
    }
    let mut seal: Vec<[u8; 32]> = Vec::new();
    for (index, text) in list.iter().enumerate() {
        let at = at.index(index);
        let Some(key) = one(text, &at, context) else { continue };
        if seal.contains(&key) && !context.world.elsewhere {
            context.problem(&at, "the same key twice", "remove it");
        }
        seal.push(key);
    }
    (seal.len() == list.len()).then_some(seal)
}

fn one(text: &str, at: &At, context: &mut Context<'_>) -> Option<[u8; 32]> {
    let Some(reference) = Reference::parse(text) else {
        context.problem(at, "a key in the file itself", "name where it is: env:NAME or file:PATH");
        return None;
    };
    let secret = context.fetch(at, &reference)?;
    if context.world.elsewhere {
        return Some([0; 32]);
    }
    let Some(key) = decode(secret.expose()) else {
        context.problem(at, "what it names is not 32 bytes in base64", FORM);
        return None;
    };
    if key.iter().all(|byte| Some(byte) == key.first()) {
        context.problem(at, "a key of one repeated byte is no secret", FORM);
        return None;
    }
    Some(key)
}

/// Base64 of either alphabet, with or without padding.
fn decode(text: &str) -> Option<[u8; 32]> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text = text.trim().replace('-', "+").replace('_', "/");
    let bytes = GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(text).ok()?;
    bytes.try_into().ok()
}

fn make(at: &At, context: &mut Context<'_>) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if SystemRandom::new().fill(&mut key).is_err() {
        context.problem(at, "the system gives no random bytes", "name a key: env:NAME or file:PATH");
        return None;
    }
    let what = "no keys.seal: a key is made at start, so sessions and cursors end with the process and no replica can serve them";
    context.warning(&At::root(), what, "name one: keys: { seal: [\"env:TOLLGATE_SEAL_KEY\"] }");
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn either_alphabet_with_or_without_padding() {
        let plain = "+/+/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let want = decode(plain).unwrap();
        assert_eq!(decode(&plain.replace('+', "-").replace('/', "_")), Some(want));
        assert_eq!(decode(plain.trim_end_matches('=')), Some(want));
        assert!(decode("AAAA").is_none() && decode("").is_none() && decode("no base64 at all!").is_none());
    }
}
