//! What a credential looks like, by its name and by its form. Used to ask for a reference instead of a literal
//! value and to say what an import should not have held. A guess: it never decides what is kept secret.

/// Words that make a name the name of a credential.
const WORDS: [&str; 15] = [
    "auth",
    "authorization",
    "authentication",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "pwd",
    "secret",
    "token",
    "apikey",
];
/// Words that do so before `key`.
const KEY_WORDS: [&str; 10] = [
    "access",
    "account",
    "api",
    "auth",
    "encryption",
    "license",
    "private",
    "secret",
    "signing",
    "subscription",
];
/// How well-known services begin their tokens.
const PREFIXES: [&str; 18] = [
    "sk-",
    "sk_",
    "pk_live",
    "rk_live",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "eyJ",
    "ntn_",
];

/// Whether a header or variable of this name holds a credential: `X-Api-Key`, `GITHUB_TOKEN`, `apiKey`.
pub(crate) fn names_secret(name: &str) -> bool {
    let words = words(name);
    let pair = |pair: &[String]| matches!(pair, [a, b] if b == "key" && KEY_WORDS.contains(&a.as_str()));
    words.iter().any(|word| WORDS.contains(&word.as_str())) || words.windows(2).any(pair)
}

/// Whether a value looks like a credential, whatever its name.
pub(crate) fn looks_secret(value: &str) -> bool {
    let value = value.split_once(' ').map_or(value, |(scheme, rest)| {
        let known = ["bearer", "basic", "token"].contains(&scheme.to_ascii_lowercase().as_str());
        if known { rest } else { value }
    });
    PREFIXES.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= 16 && !value.contains(' ')
}

/// The words of a name, lower case, cut at punctuation and at the humps of camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars().take(256) {
        if !c.is_ascii_alphanumeric() || (lower && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        lower = c.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "Authorization",
            "X-API-Key",
            "Cookie",
            "GITHUB_TOKEN",
            "GITHUB_PERSONAL_ACCESS_TOKEN",
            "apiKey",
            "DB_PASSWORD",
            "OPENAI_API_KEY",
            "Ocp-Apim-Subscription-Key",
            "AWS_SECRET_ACCESS_KEY",
            "X-Auth",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "Accept",
            "X-Team",
            "PATH",
            "KEYBOARD",
            "SSH_AUTHOR",
            "X-Cache-Key",
            "TOKENIZER",
            "LOG_LEVEL",
            "",
        ] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn values() {
        assert!(looks_secret("ghp_0123456789abcdef") && looks_secret("Bearer sk-0123456789abcdef"));
        assert!(!looks_secret("sk-short") && !looks_secret("plain text") && !looks_secret("/srv/docs"));
    }
}
