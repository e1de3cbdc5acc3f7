//! What is stripped, what stays, and that hostile texts cost no more than others.

use super::*;

#[test]
fn hidden_characters_go_and_are_counted_by_kind() {
    let strip = Strip::default();
    for (given, left, total) in [
        ("a\u{1b}[31;1mb\u{1b}[0mc", "abc", 11),
        ("a\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\b", "alinkb", 21),
        ("a\u{9b}2Jb\u{85}c\r\nd\u{0}\u{7f}", "abc\nd", 7),
        ("\u{1b}]0;title never ends", "0;title never ends", 2),
        ("x\u{202e}y\u{2066}z\u{200f}", "xyz", 3),
        ("s\u{200b}e\u{feff}c\u{200d}r\u{2060}et", "secret", 4),
        ("t\u{e0041}\u{e0042}u", "tu", 2),
        ("\u{1b}(Bok\u{1b}Mok", "okok", 5),
        ("\u{1b}", "", 1),
    ] {
        let visible = text(given, &strip);
        assert_eq!((visible.text.as_ref(), visible.stripped.total()), (left, total), "{given:?}");
    }
    let kinds = text("\u{0}\u{202a}\u{200b}\u{e0020}", &strip).stripped;
    assert_eq!(kinds, Stripped { controls: 1, bidi: 1, zero_width: 1, tags: 1, variation_selectors: 0 });
}

#[test]
fn scripts_and_pictures_that_need_joiners_keep_them() {
    let strip = Strip::default();
    for kept in ["👩\u{200d}💻", "❤\u{fe0f}\u{200d}🔥", "می\u{200c}خواهم", "plain\n\tText é 漢字", ""]
    {
        assert!(matches!(text(kept, &strip).text, Cow::Borrowed(same) if same == kept), "{kept}");
    }
    assert_eq!(text("👩\u{200d}\u{200d}💻", &strip).stripped.zero_width, 2);
    assert_eq!(text("a\u{fe0f}", &Strip::ALL).stripped.variation_selectors, 1);
}

#[test]
fn what_was_not_asked_for_stays() {
    let none =
        Strip { controls: false, bidi: false, zero_width: false, tags: false, variation_selectors: false };
    let all = "\u{0}\u{1b}[0m\u{202e}\u{200b}\u{e0041}\u{fe0f}";
    assert!(matches!(text(all, &none).text, Cow::Borrowed(_)));
}

#[test]
fn json_strings_are_stripped_and_the_rest_stays_byte_for_byte() {
    let given = "{\"k\\u200b\": [ 1.50 , \"a\\u001b[2Jb\\u202e\\n\", \"caf\\u00e9\" ] }";
    let visible = json(given, &Strip::default()).unwrap();
    assert_eq!(visible.text, "{\"k\\u200b\": [ 1.50 , \"ab\\n\", \"caf\\u00e9\" ] }");
    assert_eq!(visible.stripped.total(), 5);
    let clean = r#"{"a":"é\n😀"}"#;
    assert!(matches!(json(clean, &Strip::ALL).unwrap().text, Cow::Borrowed(_)));
    assert!(json("[", &Strip::ALL).is_err());
}

#[test]
fn a_second_pass_finds_nothing() {
    for unit in ["\u{1b}", "\u{1b}]", "[3", "a", "\u{200d}", "é", "\u{9d}", "\u{7}"] {
        for other in ["\u{1b}[", "\u{1b}P", "\u{202e}", "x\u{200d}", "é\u{200d}é"] {
            let given = format!("{unit}{other}").repeat(50);
            let once = text(&given, &Strip::ALL).text.into_owned();
            // What a sequence hid between two characters may join them into another one: stripped again, it ends.
            let twice = text(&once, &Strip::ALL).text.into_owned();
            assert!(!twice.contains(['\u{1b}', '\u{9d}', '\u{202e}', '\u{7}']), "{given:?} {twice:?}");
        }
    }
}
