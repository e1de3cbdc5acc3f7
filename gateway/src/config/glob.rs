//! Globs of tool names: `*` and `?` alone, no classes, no escapes. Bounded work on any pattern.

/// Whether `text` matches `pattern`, where `*` stands for any run of characters and `?` for one. Takes at most
/// pattern × text steps: only the last star is ever tried again.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(have) = text.get(t) {
        match (pattern.get(p), star) {
            (Some('*'), _) => {
                star = Some((p, t));
                p += 1;
            }
            (Some(want), _) if *want == '?' || want == have => (p, t) = (p + 1, t + 1),
            (_, Some((at, from))) => {
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
            _ => return false,
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("*", "anything", true),
            ("read_*", "read_file", true),
            ("read_*", "reads", false),
            ("*_file", "read_file", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "", false),
            ("?", "ä", true),
            ("", "", true),
            ("", "a", false),
            ("read", "read", true),
            ("[a]", "a", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn glob_stays_cheap_on_hostile_patterns() {
        assert!(!glob(&"*a".repeat(64), &"a".repeat(63).as_str().replace('a', "ab")));
    }
}
