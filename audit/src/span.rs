//! What is derived from `keys.digest`: trace and span ids, and the digests of arguments, results and bodies. All are
//! HMAC-SHA-256 under labels of their own, so that the same inputs give the same bytes on every replica.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::hmac;

use crate::hash::{Digest, hex};

const TRACE: &[u8] = b"dev.tollgate/audit/trace/v1";
const SPAN: &[u8] = b"dev.tollgate/audit/span/v1";
const TENANT: &[u8] = b"dev.tollgate/audit/tenant/v1";

/// Tenants whose keys are kept.
const MAX_TENANTS: usize = 1_024;

/// The key of all digests. Its `Debug` says nothing of it. Copies share what was derived from it.
#[derive(Clone)]
pub struct DigestKey {
    key: Arc<hmac::Key>,
    tenants: Arc<Mutex<HashMap<Box<str>, BodyKey>>>,
}

/// The key of one tenant's bodies.
#[derive(Clone)]
pub struct BodyKey(Arc<hmac::Key>);

impl BodyKey {
    /// The digest of a body: equal bodies of two tenants can't be told to be equal.
    pub fn body(&self, kind: Body, bytes: &[u8]) -> Digest {
        mac(&self.0, kind.label(), &[bytes])
    }
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey")
    }
}

/// What kind of bytes a digest covers. Equal bytes of two kinds have different digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A call's arguments, as they were validated.
    Args,
    /// A result after screening, before the meter, the receipt and the span are put in.
    Result,
    /// What a cancelled call had given so far.
    Partial,
}

impl Body {
    fn label(self) -> &'static [u8] {
        match self {
            Body::Args => b"args",
            Body::Result => b"result",
            Body::Partial => b"partial",
        }
    }
}

/// Whose run it is: runs are scoped to principal and task.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The principal's canonical text.
    pub principal: &'a str,
    /// The task.
    pub task: &'a str,
    /// The run id.
    pub run: &'a str,
}

/// What a call says.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The JSON-RPC method.
    pub method: &'a str,
    /// The server's configured id.
    pub server: &'a str,
    /// The server's own name of the tool or prompt, or the URI.
    pub name: &'a str,
    /// The arguments' raw bytes; empty when there are none.
    pub args: &'a [u8],
}

impl DigestKey {
    /// From `keys.digest`.
    pub fn new(key: [u8; 32]) -> DigestKey {
        DigestKey { key: Arc::new(hmac_key(&key)), tenants: Arc::default() }
    }

    /// Names the key in `key` records without giving it away: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        hex(self.mac(b"dev.tollgate/audit/key-id/v1", &[]).0.get(..8).unwrap_or_default())
    }

    fn mac(&self, label: &[u8], parts: &[&[u8]]) -> Digest {
        mac(&self.key, label, parts)
    }

    /// The key of a tenant's bodies. Deriving it costs more than a short body's digest, so the keys are kept.
    pub fn tenant(&self, tenant: &str) -> BodyKey {
        let mut tenants = self.tenants.lock();
        if let Some(known) = tenants.get(tenant) {
            return known.clone();
        }
        let Digest(key) = self.mac(TENANT, &[tenant.as_bytes()]);
        let made = BodyKey(Arc::new(hmac_key(&key)));
        if tenants.len() >= MAX_TENANTS {
            tenants.clear();
        }
        tenants.insert(tenant.into(), made.clone());
        made
    }

    /// The digest of a body under the tenant's key.
    pub fn body(&self, tenant: &str, kind: Body, bytes: &[u8]) -> Digest {
        self.tenant(tenant).body(kind, bytes)
    }

    /// A run's trace id for callers that send none: 32 hexadecimal digits, never all zero (W3C Trace Context).
    pub fn trace_id(&self, run: Run<'_>) -> String {
        let parts = [run.principal.as_bytes(), run.task.as_bytes(), run.run.as_bytes()];
        id::<16>(&self.mac(TRACE, &parts))
    }

    /// A call's span id: 16 hexadecimal digits, never all zero. `index` counts the run's calls from 0.
    pub fn span_id(&self, run: Run<'_>, call: Call<'_>, index: u64) -> String {
        let parts = [
            run.principal.as_bytes(),
            run.task.as_bytes(),
            run.run.as_bytes(),
            call.method.as_bytes(),
            call.server.as_bytes(),
            call.name.as_bytes(),
            call.args,
            &index.to_be_bytes(),
        ];
        id::<8>(&self.mac(SPAN, &parts))
    }
}

fn hmac_key(key: &[u8; 32]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

/// Parts up to this length are copied together: many short updates cost more than what they hash.
const SHORT: usize = 256;

/// Each part is preceded by its length, so that no two lists of parts are the same bytes.
fn mac(key: &hmac::Key, label: &[u8], parts: &[&[u8]]) -> Digest {
    let mut context = hmac::Context::with_key(key);
    let mut short = Vec::with_capacity(2 * SHORT);
    short.extend_from_slice(label);
    short.push(0);
    for part in parts {
        short.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        if part.len() <= SHORT {
            short.extend_from_slice(part);
        } else {
            context.update(&short);
            context.update(part);
            short.clear();
        }
    }
    context.update(&short);
    Digest::of_tag(&context.sign())
}

fn id<const N: usize>(digest: &Digest) -> String {
    let bytes = digest.0.get(..N).unwrap_or_default();
    if bytes.iter().all(|b| *b == 0) { format!("{:0width$x}", 1, width = 2 * N) } else { hex(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run<'_> = Run { principal: "anonymous", task: "support", run: "r1" };
    const CALL: Call<'_> = Call { method: "tools/call", server: "docs", name: "search", args: b"{\"q\":1}" };

    #[test]
    fn replaying_a_run_gives_the_same_ids_on_any_instance_with_the_same_key() {
        let (one, two) = (DigestKey::new([9; 32]), DigestKey::new([9; 32]));
        for index in 0..4 {
            assert_eq!(one.span_id(RUN, CALL, index), two.span_id(RUN, CALL, index));
        }
        assert_eq!(one.trace_id(RUN), two.trace_id(RUN));
        // Fixed, so that a change of the derivation shows.
        assert_eq!(one.trace_id(RUN).len(), 32);
        assert_eq!(one.span_id(RUN, CALL, 0).len(), 16);
        assert_ne!(DigestKey::new([8; 32]).trace_id(RUN), one.trace_id(RUN));
    }

    #[test]
    fn every_part_of_a_call_changes_its_span() {
        let key = DigestKey::new([9; 32]);
        let all = [
            key.span_id(RUN, CALL, 0),
            key.span_id(RUN, CALL, 1),
            key.span_id(Run { run: "r2", ..RUN }, CALL, 0),
            key.span_id(Run { task: "other", ..RUN }, CALL, 0),
            key.span_id(Run { principal: "anonymou", task: "ssupport", ..RUN }, CALL, 0),
            key.span_id(RUN, Call { args: b"{\"q\":2}", ..CALL }, 0),
            key.span_id(RUN, Call { name: "searc", ..CALL }, 0),
            key.span_id(RUN, Call { method: "prompts/get", ..CALL }, 0),
        ];
        let distinct: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn z22_digests_are_keyed_and_differ_by_tenant_and_kind() {
        let key = DigestKey::new([9; 32]);
        let mac = key.body("acme", Body::Args, b"{}");
        assert_eq!(mac, key.body("acme", Body::Args, b"{}"));
        assert_ne!(mac, key.body("other", Body::Args, b"{}"));
        assert_ne!(mac, key.body("acme", Body::Result, b"{}"));
        assert_ne!(mac, DigestKey::new([1; 32]).body("acme", Body::Args, b"{}"));
        assert_ne!(mac, Digest::sha256(&[b"{}"]));
        assert_eq!(format!("{key:?}"), "DigestKey");
        // The same by the format's words, and again when more tenants came than are kept.
        let by_hand = |key: &[u8], label: &str, part: &[u8]| {
            let length = u64::try_from(part.len()).unwrap().to_be_bytes();
            Digest::hmac(key, &[label.as_bytes(), b"\0", &length, part])
        };
        let tenant = by_hand(&[9; 32], "dev.tollgate/audit/tenant/v1", b"acme");
        assert_eq!(mac, by_hand(&tenant.0, "args", b"{}"));
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT] {
            let bytes = vec![b'x'; length];
            assert_eq!(key.body("acme", Body::Result, &bytes), by_hand(&tenant.0, "result", &bytes));
        }
        (0..2 * MAX_TENANTS).for_each(|other| drop(key.tenant(&other.to_string())));
        assert_eq!(mac, key.clone().body("acme", Body::Args, b"{}"));
        assert!(key.tenants.lock().len() <= MAX_TENANTS);
    }
}
