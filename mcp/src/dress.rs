//! A result that leaves with members of the gateway's own: its bytes are copied once, into the message, and stay as they
//! are. What is put in stands at the end, so that whoever takes it out again has the result as the server gave it.

use bytes::Bytes;

use crate::json::Raw;
use crate::message::{self, Id};

/// Where the `_meta` of a result ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Meta {
    /// It has none.
    #[default]
    Absent,
    /// Before this byte of the result's text.
    Ends(usize),
}

impl Meta {
    /// Finds it.
    pub fn of(result: &Raw) -> Meta {
        let found = result.view().find(|member| member.is("_meta"));
        found.map_or(Meta::Absent, |member| Meta::Ends(member.end()))
    }

    /// Whether a value is an object with members. Members that are put into another `_meta` can't be told from its own
    /// later: better it is taken out before.
    pub fn is_fit(value: &Raw) -> bool {
        value.view().next().is_some()
    }
}

/// The text of a successful response: the member `beside` stands after the result's own, those of `inside` at the end of
/// its `_meta`, which is made when there is none. Their values are on one line, the name needs no escapes; `inside` is an
/// object and may be empty. A result that is no object leaves as it is.
pub fn result(id: &Id, result: &Raw, meta: Meta, beside: Option<(&str, &Raw)>, inside: &Raw) -> Bytes {
    let text = result.bytes().as_ref();
    let inside = members(inside);
    if !result.is_object() || (beside.is_none() && inside.is_empty()) {
        return message::result(id, result);
    }
    let id = id.raw();
    let more = beside.map_or(0, |(name, value)| name.len() + value.len());
    let mut out = Vec::with_capacity(text.len() + more + inside.len() + id.len() + 64);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.bytes());
    out.extend_from_slice(br#","result":"#);
    let body = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let mut some = result.view().next().is_some();
    let make = match meta {
        Meta::Ends(end) => {
            let (before, after) = body.split_at_checked(end.saturating_sub(1)).unwrap_or((body, b""));
            out.extend_from_slice(before);
            // Into what is no object nothing is put.
            if !inside.is_empty() && after.first() == Some(&b'}') {
                let empty = before.trim_ascii_end().ends_with(b"{");
                out.extend_from_slice(if empty { b"" } else { b"," });
                out.extend_from_slice(inside);
            }
            out.extend_from_slice(after);
            false
        }
        Meta::Absent => {
            out.extend_from_slice(body);
            !inside.is_empty()
        }
    };
    if let Some((name, value)) = beside {
        out.extend_from_slice(if some { b",\"" } else { b"\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value.bytes());
        some = true;
    }
    if make {
        out.extend_from_slice(if some { br#","_meta":{"# } else { br#""_meta":{"# });
        out.extend_from_slice(inside);
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    Bytes::from(out)
}

/// The text between an object's braces.
fn members(object: &Raw) -> &[u8] {
    let text = object.bytes().as_ref();
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, ObjectWriter};

    fn raw(text: &str) -> Raw {
        Raw::parse(Bytes::from(text.to_owned()), &Limits::ANSWER).unwrap()
    }

    fn dressed(text: &str, beside: &str, inside: &str) -> String {
        let value = raw(text);
        let member = raw(beside).get("_meter");
        let beside = member.as_ref().map(|value| ("_meter", value));
        let bytes = result(&Id::from_number(7), &value, Meta::of(&value), beside, &raw(inside));
        raw(std::str::from_utf8(&bytes).unwrap()).get("result").unwrap().as_str().to_owned()
    }

    #[test]
    fn what_is_put_in_stands_at_the_end_and_all_else_stays() {
        for (text, want) in [
            ("{}", r#"{"_meter":1,"_meta":{"r":2}}"#),
            (r#"{ "a" : 1.0 }"#, r#"{ "a" : 1.0 ,"_meter":1,"_meta":{"r":2}}"#),
            (r#"{"_meta":{ "k":[1] },"a":"}"}"#, r#"{"_meta":{ "k":[1] ,"r":2},"a":"}","_meter":1}"#),
            (r#"{"a":{"_meta":{"x":0}}}"#, r#"{"a":{"_meta":{"x":0}},"_meter":1,"_meta":{"r":2}}"#),
            (r#"{"_m\u0065ta":{"k":1}}"#, r#"{"_m\u0065ta":{"k":1,"r":2},"_meter":1}"#),
            (r#"{"_meta":{ },"a":1}"#, r#"{"_meta":{ "r":2},"a":1,"_meter":1}"#),
            (r#"{"_meta":[1],"a":1}"#, r#"{"_meta":[1],"a":1,"_meter":1}"#),
        ] {
            assert_eq!(dressed(text, r#"{"_meter":1}"#, r#"{"r":2}"#), want, "{text}");
        }
        assert_eq!(dressed("{}", "{}", r#"{"r":2}"#), r#"{"_meta":{"r":2}}"#);
        assert_eq!(dressed(r#"{"a":1}"#, r#"{"_meter":1}"#, "{}"), r#"{"a":1,"_meter":1}"#);
        assert_eq!(dressed(r#"{ "a":1}"#, "{}", "{}"), r#"{ "a":1}"#);
        assert_eq!(dressed("[1]", r#"{"_meter":1}"#, "{}"), "[1]");
    }

    #[test]
    fn only_an_object_with_members_is_put_into() {
        assert!(Meta::is_fit(&raw(r#"{"a":1}"#)));
        assert!(!Meta::is_fit(&raw("{ }")) && !Meta::is_fit(&raw("1")) && !Meta::is_fit(&raw("[1]")));
    }

    #[test]
    fn decimals_are_exact() {
        let decimal = |units, digits| {
            let mut out = ObjectWriter::new();
            out.decimal("d", units, digits);
            out.finish().get("d").unwrap().as_str().to_owned()
        };
        for (units, digits, want) in [
            (0, 9, "0"),
            (2_000_000, 9, "0.002"),
            (1, 9, "0.000000001"),
            (2_000_000_000, 9, "2"),
            (12_345_678_900, 9, "12.3456789"),
            (u64::MAX, 9, "18446744073.709551615"),
            (1_482, 3, "1.482"),
            (70, 0, "70"),
        ] {
            assert_eq!(decimal(units, digits), want);
        }
    }
}
