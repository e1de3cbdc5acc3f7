//! The case U8 and what a cut result keeps.

use serde_json::Value;

use super::*;

const CAPS: Caps =
    Caps { bytes: 4096, items: 5, image_bytes: 300, blob_bytes: 300, on_too_large: OnTooLarge::Truncate };
const REFUSE: Caps = Caps { on_too_large: OnTooLarge::Refuse, ..CAPS };

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, crate::splice::quoted(text))
}

fn result(items: &[String]) -> String {
    format!(r#"{{"content":[{}],"isError":false}}"#, items.join(","))
}

/// The cut result, after checking what holds for each: it is JSON, within the caps, and says that it was cut.
fn cut(caps: &Caps, given: &str) -> (Value, Cut) {
    let Capped::Cut(out, cut) = caps.apply(given, false).unwrap() else { panic!("not cut") };
    assert!(out.len() <= caps.bytes, "{} bytes", out.len());
    let out: Value = serde_json::from_str(&out).unwrap();
    let items = out["content"].as_array().unwrap();
    assert!(items.last().unwrap()["text"].as_str().unwrap().starts_with("[truncated by the gateway: "));
    let meta = &out["_meta"]["dev.tollgate/truncated"];
    assert_eq!(meta["bytes"], given.len());
    assert_eq!(meta["kept_items"], items.len() - 1);
    (out, cut)
}

#[test]
fn u8_a_result_at_its_caps_is_borrowed_and_one_byte_more_is_not() {
    let given = result(&[text(&"x".repeat(4096 - 60))]);
    let caps = Caps { bytes: given.len(), ..REFUSE };
    assert!(
        matches!(caps.apply(&given, true), Ok(Capped::Within(same)) if std::ptr::eq(same, given.as_str()))
    );
    let caps = Caps { bytes: given.len() - 1, ..REFUSE };
    assert_eq!(caps.apply(&given, true), Err(TooLarge::Bytes { has: given.len(), cap: given.len() - 1 }));
    assert!(caps.hopeless(given.len()) && !CAPS.hopeless(1 << 40));
}

#[test]
fn u8_a_long_text_is_cut_at_a_whole_character_with_a_mark() {
    for unit in ["é\n", "a", "\"\u{1}", "😀", "\\"] {
        let (out, cut) = cut(&CAPS, &result(&[text("first"), text(&unit.repeat(5000)), text("third")]));
        assert_eq!(cut.kept_items, 2);
        assert_eq!(out["content"][0]["text"], "first");
        let kept = out["content"][1]["text"].as_str().unwrap();
        assert!(unit.repeat(5000).starts_with(kept) && crate::splice::quoted(kept).len() > 3000, "{unit:?}");
        assert_eq!(out["isError"], false);
    }
}

#[test]
fn u8_a_hundred_thousand_items_are_counted_and_few_are_kept() {
    let given = result(&vec![text("x"); 100_000]);
    assert_eq!(REFUSE.apply(&given, false), Err(TooLarge::Items { has: 100_000, cap: 5 }));
    let (out, cut) = cut(&CAPS, &given);
    assert_eq!((cut.items, cut.kept_items), (100_000, 5));
    assert_eq!(out["_meta"]["dev.tollgate/truncated"]["items"], 100_000);
}

#[test]
fn u8_images_and_blobs_are_measured_decoded_without_decoding() {
    let image =
        |n: usize| format!(r#"{{"type":"image","mimeType":"image/png","data":"{}"}}"#, "QUJD".repeat(n));
    let blob = |n: usize| {
        format!(r#"{{"type":"resource","resource":{{"uri":"a:b","blob":"{}QQ=="}}}}"#, "QU\\/D".repeat(n))
    };
    assert!(matches!(REFUSE.apply(&result(&[image(100)]), false), Ok(Capped::Within(_))));
    assert_eq!(REFUSE.apply(&result(&[image(101)]), false), Err(TooLarge::Image { has: 303, cap: 300 }));
    assert!(matches!(REFUSE.apply(&result(&[blob(99)]), false), Ok(Capped::Within(_))));
    assert_eq!(REFUSE.apply(&result(&[blob(100)]), false), Err(TooLarge::Blob { has: 301, cap: 300 }));
    let (out, cut) = cut(&CAPS, &result(&[image(101), text("kept"), blob(100)]));
    assert_eq!((cut.items, cut.kept_items), (3, 1));
    assert_eq!(out["content"][0]["text"], "kept");
    // Two hundred megabytes are told from their length alone.
    let huge = REFUSE.apply(&result(&[image(5_000_000)]), false).unwrap_err();
    assert_eq!(huge.reason(), "image");
}

#[test]
fn u8_structured_content_is_whole_or_gone_and_its_text_form_is_never_half_of_it() {
    let structured = format!(r#"{{"rows":["{}"]}}"#, "r".repeat(2000));
    let given = |structured: &str, more: &str| {
        format!(r#"{{"structuredContent":{structured},"content":[{},{}]}}"#, text(structured), text(more))
    };
    let (out, how) = cut(&CAPS, &given(&structured, "more"));
    assert_eq!(how.structured, Structured::Kept);
    assert_eq!(out["structuredContent"], serde_json::from_str::<Value>(&structured).unwrap());
    assert_eq!(out["content"][0]["text"], "more", "the text form is left out, not cut");
    let larger = format!(r#"{{"rows":["{}"]}}"#, "r".repeat(5000));
    let (out, how) = cut(&CAPS, &given(&larger, "more"));
    assert_eq!(how.structured, Structured::Dropped);
    assert!(out.get("structuredContent").is_none());
    let refused = CAPS.apply(&given(&larger, "more"), true).unwrap_err();
    assert_eq!(refused, TooLarge::Structured { has: larger.len(), cap: 4096 });
    assert!(refused.to_string().contains("output schema"));
    let error = given(&larger, "more").replacen('{', r#"{"isError":true,"#, 1);
    assert!(matches!(CAPS.apply(&error, true), Ok(Capped::Cut(out, _)) if out.contains(r#""isError":true"#)));
}

#[test]
fn other_members_and_meta_stay_and_a_servers_own_mark_does_not() {
    let given = format!(
        r#"{{"_meta":{{"a":1.50,"dev.tollgate/truncated":"no"}},"x" : [1, 2.0],"content":[{}]}}"#,
        text(&"x".repeat(9000))
    );
    let Capped::Cut(out, _) = CAPS.apply(&given, false).unwrap() else { panic!() };
    assert!(
        out.contains(r#""x":[1, 2.0]"#)
            && out.contains(r#""_meta":{"a":1.50,"dev.tollgate/truncated":{"bytes":"#)
    );
    assert!(!out.contains("\"no\""));
}

#[test]
fn what_has_no_place_for_a_mark_or_no_room_is_refused() {
    let long = "x".repeat(9000);
    for given in [
        format!(r#"{{"contents":[{{"uri":"a:b","text":"{long}"}}]}}"#),
        format!(r#"{{"messages":[{{"role":"user","content":{}}}]}}"#, text(&long)),
        format!(r#"{{"content":[],"other":"{long}"}}"#),
    ] {
        assert_eq!(CAPS.apply(&given, false).unwrap_err().reason(), "bytes", "{}", &given[..30]);
    }
    for no_object in ["[1]", "1", "{\"content\":[", "{\"a\"}", "{} {}"] {
        assert_eq!(CAPS.apply(no_object, false), Err(TooLarge::Malformed), "{no_object}");
    }
}

#[test]
fn peers_17_18_the_cap_is_the_configured_one_and_a_cut_is_no_silent_success() {
    let given = result(&[text(&"x".repeat(3 << 20))]);
    let caps = Caps { bytes: 4 << 20, ..CAPS };
    assert_eq!(caps.apply(&given, false), Ok(Capped::Within(&given)), "no cap below the one that was set");
    let (_, how) = cut(&Caps { bytes: 1 << 20, ..CAPS }, &given);
    assert!(how.kept_bytes > 1_000_000);
}
