//! Key sets: bounded, and a key that is taken says of itself that it may be.
#![no_main]

use auth::keys::{Algorithm, KeySet, MAX_KEYS};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(set) = KeySet::parse(data, Algorithm::Rs256) else { return };
    let document: Value = serde_json::from_slice(data).expect("JSON");
    let entries = document["keys"].as_array().expect("keys");
    assert!(entries.len() <= MAX_KEYS && set.len() + set.dropped().len() == entries.len());
    let mut taken = 0;
    for entry in entries {
        let Some(kid) = entry["kid"].as_str() else { continue };
        let Some(key) = set.get(kid) else { continue };
        taken += 1;
        assert_eq!(key.algorithm().is_rsa(), entry["kty"] == "RSA");
        assert!(entry["kty"] != "oct" && entry.get("d").is_none());
        assert!(entry.get("use").is_none_or(|purpose| purpose == "sig"));
        assert!(entry.get("alg").is_none_or(|alg| alg == key.algorithm().name()));
    }
    assert_eq!(taken, set.len(), "each key once");
});
