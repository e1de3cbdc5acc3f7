//! Names under which a server's tools and prompts are shown, and back. Never looks at what a server calls itself.

/// Between server id and name. Server ids hold no `_`, so the first one found separates.
const SEPARATOR: &str = "__";
/// Length of the hash suffix of shortened names, with its `_`.
const SUFFIX: usize = 9;

/// Whether this can be a server id: `[a-z][a-z0-9-]{0,31}`.
pub fn is_server_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 32
        && bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The exposed name `{server}__{name}`. Longer than `max` bytes, it is cut and ends in `_` and eight characters that depend on
/// the whole name alone, so that it is the same everywhere and always. `max` should be at least 48: server, separator
/// and suffix are never cut. Two names of a server that shorten to the same are for the caller to find.
pub fn expose(server: &str, name: &str, max: usize) -> String {
    let whole = [server, SEPARATOR, name].concat();
    if whole.len() <= max {
        return whole;
    }
    let least = server.len() + SEPARATOR.len();
    let mut cut = max.saturating_sub(SUFFIX).max(least).min(whole.len());
    while !whole.is_char_boundary(cut) {
        cut -= 1;
    }
    let kept = whole.get(..cut).unwrap_or_default();
    format!("{kept}_{}", digest(&whole))
}

/// Eight characters of base 32 from 64-bit FNV-1a, folded to 40 bits. It is no secret and proves nothing: a server can
/// only collide with itself, because its id stays in front.
fn digest(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = hash ^ (hash >> 40);
    let digit = |place: u32| ALPHABET.get((folded >> (place * 5) & 31) as usize).copied().map(char::from);
    (0..8).filter_map(digit).collect()
}

/// Server id and name of an exposed name; none when no server can have it. A shortened name comes back shortened: only
/// the list that it came from knows the whole.
pub fn split(exposed: &str) -> Option<(&str, &str)> {
    exposed.split_once(SEPARATOR).filter(|(server, name)| is_server_id(server) && !name.is_empty())
}

/// The description shown: `[{server}] …`, with the name where the server gives none.
pub fn describe(server: &str, name: &str, description: Option<&str>) -> String {
    format!("[{server}] {}", description.filter(|text| !text.trim().is_empty()).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (server, name) in
            [("docs", "search"), ("a-b1", "x__y"), ("docs", "_x"), ("docs", "Ünï cödé"), ("a", "__")]
        {
            let exposed = expose(server, name, 64);
            assert_eq!(exposed, format!("{server}__{name}"));
            assert_eq!(split(&exposed), Some((server, name)));
        }
        for text in ["search", "docs__", "__x", "Docs__x", "do_cs__x", "1a__x", "", "docs_x", "a b__x"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn long_names_are_shortened_the_same_way_always() {
        let name = "a_tool_with_a_name_that_is_rather_longer_than_any_host_will_accept";
        let short = expose("docs", name, 64);
        // Golden: clients keep these names in their settings, so they may never change.
        assert_eq!(short, "docs__a_tool_with_a_name_that_is_rather_longer_than_any_tvrufzd3");
        assert_eq!(short.len(), 64);
        assert_ne!(short, expose("docs", &format!("{name}2"), 64));
        assert_eq!(expose("docs", &"x".repeat(58), 64).len(), 64);
        assert_eq!(expose("docs", &"x".repeat(59), 64).len(), 64);
        for max in 48..80 {
            let exposed = expose(&"s".repeat(32), &"é".repeat(60), max);
            assert!(exposed.len() <= max && exposed.len() + 2 > max, "{max}");
            assert_eq!(split(&exposed).unwrap().0, "s".repeat(32));
        }
    }

    #[test]
    fn descriptions_name_the_server() {
        assert_eq!(describe("docs", "search", Some("Finds things.")), "[docs] Finds things.");
        assert_eq!(describe("docs", "search", None), "[docs] search");
        assert_eq!(describe("docs", "search", Some(" ")), "[docs] search");
    }
}
