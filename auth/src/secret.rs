//! Text that must not be shown: its `Debug` says nothing, and its memory is cleared when it is dropped. It never
//! implements `Display`, `Serialize` or comparison, so that a secret can't slip into a log or an early-exit compare.

use zeroize::Zeroizing;

/// A secret's text.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes over a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x5_a_secret_shows_nothing() {
        let secret = Secret::new("canary-4711");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret Some(Secret)");
        assert_eq!(secret.expose(), "canary-4711");
    }
}
