//! W3C Trace Context and Baggage as they travel in `_meta` and in headers: read strictly, bounded, and made anew towards
//! a server. What is not valid is dropped, never passed on.

/// The key of the parent.
pub const PARENT: &str = "traceparent";
/// The key of the vendors' states.
pub const STATE: &str = "tracestate";
/// The key of the baggage.
pub const BAGGAGE: &str = "baggage";

/// Longest list of states that is passed on, in bytes, and its members (Trace Context, 3.3.1.1 and 3.3.1.5).
const MAX_STATE: (usize, usize) = (512, 32);
/// Longest baggage, in bytes, and its members (Baggage, limits).
const MAX_BAGGAGE: (usize, usize) = (8192, 64);
/// Flags that are passed on: sampled, and random trace id.
const FLAGS: u8 = 0b11;

/// Whether this key is one of the three: those of a client are never passed on as they are.
pub fn is_own(key: &str) -> bool {
    matches!(key, PARENT | STATE | BAGGAGE)
}

/// A valid `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent<'a> {
    /// The trace id: 32 hexadecimal digits, lower case, not all zero.
    pub trace: &'a str,
    /// The parent's span id: 16 such digits.
    pub span: &'a str,
    /// Sampled, random; other bits mean nothing yet.
    pub flags: u8,
}

impl<'a> Parent<'a> {
    /// Reads version 00, and later ones that begin like it.
    pub fn parse(text: &'a str) -> Option<Parent<'a>> {
        // No known version is longer by much.
        if text.len() > 256 {
            return None;
        }
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let alone = parts.next().is_none();
        let valid = is_hex(version, 2)
            && version != "ff"
            && (alone || version != "00")
            && is_id(trace, 32)
            && is_id(span, 16)
            && is_hex(flags, 2);
        let flags = u8::from_str_radix(flags, 16).ok()? & FLAGS;
        valid.then_some(Parent { trace, span, flags })
    }
}

impl Parent<'_> {
    /// In version 00, as it is sent.
    pub fn text(&self) -> String {
        const HEX: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let mut out = String::with_capacity(55);
        out.push_str("00-");
        out.push_str(self.trace);
        out.push('-');
        out.push_str(self.span);
        out.push('-');
        let digits = [self.flags >> 4, self.flags & 0xf];
        out.extend(digits.iter().filter_map(|digit| HEX.get(usize::from(*digit))));
        out
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, length: usize) -> bool {
    is_hex(text, length) && text.bytes().any(|b| b != b'0')
}

/// A `tracestate`, when all of it is valid. It means nothing without a valid parent.
pub fn state(text: &str) -> Option<&str> {
    let text = text.trim_matches([' ', '\t']);
    if text.is_empty() || text.len() > MAX_STATE.0 {
        return None;
    }
    let members: Vec<&str> = text.split(',').map(|one| one.trim_matches([' ', '\t'])).collect();
    let keys = || members.iter().filter_map(|one| one.split_once('=')).map(|(key, _)| key);
    let twice = keys().enumerate().any(|(n, key)| keys().take(n).any(|other| other == key));
    let full = members.iter().filter(|one| !one.is_empty()).count() <= MAX_STATE.1;
    (full && !twice && members.iter().all(|one| one.is_empty() || is_state(one))).then_some(text)
}

fn is_state(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |text: &str, most: usize, first: fn(u8) -> bool| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(first)
            && text.len() <= most
            && bytes.all(|b| lower(b) || matches!(b, b'_' | b'-' | b'*' | b'/'))
    };
    let letter: fn(u8) -> bool = |b| b.is_ascii_lowercase();
    let key = match key.split_once('@') {
        None => part(key, 256, letter),
        Some((tenant, system)) => {
            part(tenant, 241, |b| b.is_ascii_lowercase() || b.is_ascii_digit()) && part(system, 14, letter)
        }
    };
    let fine = |b: u8| matches!(b, 0x20..=0x2b | 0x2d..=0x3c | 0x3e..=0x7e);
    key && !value.is_empty() && value.len() <= 256 && value.bytes().all(fine) && !value.ends_with(' ')
}

/// A baggage of ours with the caller's after it: of that what is valid, is not under a name of ours and fits.
pub fn baggage(own: &[(&str, &str)], callers: &str) -> String {
    let mut out = String::with_capacity(128 + callers.len().min(MAX_BAGGAGE.0));
    let mut count = 0_usize;
    let mut add = |parts: &[&str], out: &mut String| {
        let comma = usize::from(!out.is_empty());
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if count < MAX_BAGGAGE.1 && out.len() + comma + length <= MAX_BAGGAGE.0 {
            out.push_str(if comma == 1 { "," } else { "" });
            out.extend(parts.iter().copied());
            count += 1;
        }
    };
    for (key, value) in own {
        add(&[key, "=", value], &mut out);
    }
    // What is longer than twice the limit is not gone through.
    if !callers.is_empty() && callers.len() <= 2 * MAX_BAGGAGE.0 {
        for member in callers.split(',').map(|one| one.trim_matches([' ', '\t'])) {
            let key = member_key(member);
            if key.is_some_and(|key| own.iter().all(|(ours, _)| *ours != key)) {
                add(&[member], &mut out);
            }
        }
    }
    out
}

/// The key of a valid member of a baggage.
fn member_key(member: &str) -> Option<&str> {
    let space = [' ', '\t'];
    let mut parts = member.split(';');
    let (key, value) = parts.next()?.split_once('=')?;
    let (key, value) = (key.trim_matches(space), value.trim_matches(space));
    let property = |part: &str| match part.split_once('=') {
        None => is_token(part.trim_matches(space)),
        Some((key, value)) => is_token(key.trim_matches(space)) && is_value(value.trim_matches(space)),
    };
    (is_token(key) && is_value(value) && parts.all(property)).then_some(key)
}

/// A token of RFC 9110.
fn is_token(text: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(fine)
}

fn is_value(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn only_a_valid_traceparent_names_a_trace() {
        let read = |text: &str| Parent::parse(text).map(|parent| parent.text());
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(read(&good), Some(good.clone()));
        assert_eq!(read(&format!("01-{TRACE}-00f067aa0ba902b7-ff-more")), Some(good.replace("-01", "-03")));
        for wrong in [
            String::new(),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-1"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("01-{TRACE}-00f067aa0ba902b7-01-{}", "x".repeat(256)),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tracestate_is_whole_or_nothing() {
        for good in ["a=b", "vendor@sys=x, b_-*/1=\"!~\"", "a=1,,b=2", "1t@s=v"] {
            assert_eq!(state(good), Some(good), "{good}");
        }
        let many = (0..33).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let long = format!("a={}", "x".repeat(257));
        let wrong = ["", "a", "A=b", "a=", "1a=b", "a=b=c", "a=1,a=2", "a=\u{e9}", "a=x\ny", &many, &long];
        for wrong in wrong {
            assert_eq!(state(wrong), None, "{wrong}");
        }
        assert_eq!(state(&many[..many.rfind(',').unwrap()]), Some(&many[..many.rfind(',').unwrap()]));
    }

    #[test]
    fn baggage_is_merged_and_bounded() {
        let own = [("mcp.method.name", "tools/call"), ("tollgate.call.index", "3")];
        let head = "mcp.method.name=tools/call,tollgate.call.index=3";
        assert_eq!(baggage(&own, ""), head);
        assert_eq!(baggage(&own, "user=al%20ice;p;q=1 , k = v"), format!("{head},user=al%20ice;p;q=1,k = v"));
        for wrong in
            ["tollgate.call.index=9", "no value", "k=\"x\"", "k=a b", "=v", "k=v;=", "k=\u{e9}", "k=a\\b"]
        {
            assert_eq!(baggage(&own, &format!("{wrong},ok=1")), format!("{head},ok=1"), "{wrong}");
        }
        let many = (0..100).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(baggage(&own, &many).split(',').count(), 64);
        let long = (0..60).map(|n| format!("k{n}={}", "v".repeat(200))).collect::<Vec<_>>().join(",");
        let kept = baggage(&own, &long);
        assert!(kept.len() <= 8192 && kept.len() > 7900 && long.starts_with(&kept[head.len() + 1..]));
        assert_eq!(baggage(&own, &"k=v,".repeat(5000)), head);
    }
}
