//! The redactor: what it gives back is JSON with the same shape, untouched where nothing was found; a second pass finds
//! nothing; a split text gives away no more than a whole one. Caps, controls and masks never panic and stay in bounds.
#![no_main]

use std::borrow::Cow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use policies::caps::{Capped, Caps, OnTooLarge};
use policies::controls::{self, Strip};
use policies::redact::{Joint, Redactor, Spec, mask};
use serde_json::Value;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let groups = ["secrets", "keys", "email", "card", "iban"].map(str::to_owned).to_vec();
    Redactor::compile(&Spec { groups, ..Spec::default() }).expect("the built-in rules compile")
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = REDACTOR.text(text);
    let mut joint = Joint::default();
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle -= 1;
    }
    for part in [&text[..middle], &text[middle..]] {
        assert!(joint.push(&REDACTOR, part).behind <= 4096);
    }
    let shown = mask(text, &REDACTOR, 100);
    assert!(shown.len() <= 100 && !shown.contains(['\n', '\u{1b}']));
    let _ = controls::text(text, &Strip::ALL);
    let Ok(before) = serde_json::from_str::<Value>(text) else { return };
    let redacted = REDACTOR.json(text).expect("JSON can be redacted");
    let after: Value = serde_json::from_str(&redacted.text).expect("what was redacted is JSON");
    assert_eq!(redacted.counts.is_empty(), matches!(redacted.text, Cow::Borrowed(_)));
    if redacted.counts.is_empty() {
        assert_eq!(before, after);
    }
    let visible = controls::json(text, &Strip::default()).expect("JSON can be stripped");
    serde_json::from_str::<Value>(&visible.text).expect("what was stripped is JSON");
    let caps = Caps { bytes: 1024, items: 3, image_bytes: 64, blob_bytes: 64, on_too_large: OnTooLarge::Truncate };
    if let Ok(Capped::Cut(cut, _)) = caps.apply(text, false) {
        assert!(cut.len() <= caps.bytes);
        serde_json::from_str::<Value>(&cut).expect("what was cut is JSON");
    }
});
