//! What a YAML scalar stands for, by the core schema of YAML 1.2 (section 10.3.2). `yes`, `no`, `on` and `off` are
//! text, as that version says; what is no plain JSON number (`0x1F`, `.inf`, `1_000`) is text as well, so that a
//! check says so instead of guessing.

use saphyr_parser::ScalarStyle;
use serde_json::{Number, Value};

pub(super) fn resolve(text: &str, style: ScalarStyle) -> Value {
    if !matches!(style, ScalarStyle::Plain) {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Longer ones are ids that someone forgot to quote.
    if unsigned.len() > 40 || !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        let text = text.strip_prefix('+').unwrap_or(text);
        let small = text.parse::<i64>().map(Number::from);
        return small.or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    }
    let float = unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && unsigned.bytes().any(|b| b.is_ascii_digit());
    // JSON has no infinity: what overflows stays text.
    float.then(|| text.parse::<f64>().ok()).flatten().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn core_schema() {
        for (text, want) in [
            ("~", json!(null)),
            ("true", json!(true)),
            ("off", json!("off")),
            ("yes", json!("yes")),
            ("12", json!(12)),
            ("+12", json!(12)),
            ("-3", json!(-3)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("99999999999999999999", json!("99999999999999999999")),
            ("1.5", json!(1.5)),
            ("1e999", json!("1e999")),
            ("0x10", json!("0x10")),
            (".", json!(".")),
            (".inf", json!(".inf")),
            ("1.2.3", json!("1.2.3")),
            ("127.0.0.1:8080", json!("127.0.0.1:8080")),
            ("2027-07-28", json!("2027-07-28")),
        ] {
            assert_eq!(resolve(text, ScalarStyle::Plain), want, "{text}");
        }
        assert_eq!(resolve("12", ScalarStyle::DoubleQuoted), json!("12"));
    }
}
