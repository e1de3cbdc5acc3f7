//! SHA-256, as what credentials are looked up by. A digest is looked up where the credential itself must not be: what
//! its sender controls is the text, not the digest, so the time of a look-up tells nothing about another's text.

use ring::digest::{Context, SHA256};

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The digest of parts, each with its length before it, so that no two lists of parts share one.
pub(crate) fn of_parts(parts: &[&str]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part.as_bytes());
    }
    finish(context)
}

/// The digest of a text.
pub(crate) fn of(text: &str) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(text.as_bytes());
    finish(context)
}

fn finish(context: Context) -> Digest {
    let mut digest = [0; 32];
    digest.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    digest
}
