//! The known key that an unknown one was probably meant to be.

use serde_json::Value;

/// Keys that a mapping of this schema may have.
pub(super) fn keys(schema: &Value) -> Vec<String> {
    let members = schema.get("properties").and_then(Value::as_object);
    members.map(|members| members.keys().cloned().collect()).unwrap_or_default()
}

/// The nearest of `known`, if any is near enough: at most two edits, or one in short words.
pub(super) fn nearest<'a>(key: &str, known: &'a [String]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let wanted = plain(key);
    if wanted.chars().count() > 40 {
        return None;
    }
    let allowed = if wanted.len() <= 4 { 1 } else { 2 };
    let camel = key.chars().flat_map(|c| if c.is_ascii_uppercase() { vec!['_', c] } else { vec![c] });
    let camel = camel.collect::<String>().to_ascii_lowercase();
    let score = |name: &&String| distance(&wanted, name).min(distance(&camel, name));
    known
        .iter()
        .map(|name| (score(&name), name))
        .filter(|(d, _)| *d <= allowed)
        .min()
        .map(|(_, n)| n.as_str())
}

/// Where else a key of this name is known, like `legacy`; servers are `servers.<id>`.
pub(super) fn elsewhere(schema: &Value, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, "", key, &mut found);
    found
}

fn walk(schema: &Value, path: &str, key: &str, found: &mut Vec<String>) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        if members.contains_key(key) && !path.is_empty() {
            found.push(path.to_owned());
        }
        members.iter().for_each(|(name, below)| walk(below, &join(name), key, found));
    }
    if let Some(below @ Value::Object(_)) = schema.get("additionalProperties") {
        walk(below, &join("<id>"), key, found);
    }
}

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = get(&last, j) + usize::from(x != y);
            let mut best = replaced.min(get(&last, j + 1) + 1).min(get(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(get(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    get(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, want) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("serves", "servers", 1), ("x", "y", 1)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn near_means_near() {
        let known = ["listen", "h2c", "max_processes", "inherit_env"].map(str::to_owned);
        for (key, want) in [
            ("listne", Some("listen")),
            ("Listen", Some("listen")),
            ("max-processes", Some("max_processes")),
            ("inheritEnv", Some("inherit_env")),
            ("h2", Some("h2c")),
            ("env", None),
            ("port", None),
        ] {
            assert_eq!(nearest(key, &known), want, "{key}");
        }
    }
}
