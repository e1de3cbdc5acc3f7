//! The credential of a request, taken from its header lines. One bearer token or none: everything else is refused, and
//! a token in the URL always (RFC 6750 section 2.3 is not supported). The token is borrowed, never copied.

use crate::jwt::MAX_TOKEN;

/// Why a request's credential is refused before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("credential refused: {}", self.reason())]
pub enum BearerError {
    /// More than one `Authorization` line.
    Several,
    /// A scheme other than Bearer.
    Scheme,
    /// No token after the scheme, or characters that no token holds.
    Malformed,
    /// A token over 16 KiB.
    TooLarge,
    /// A token in the URL, where logs and histories keep it.
    InQuery,
}

impl BearerError {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            BearerError::Several => "several_credentials",
            BearerError::Scheme => "scheme",
            BearerError::Malformed => "malformed_header",
            BearerError::TooLarge => "too_large",
            BearerError::InQuery => "token_in_query",
        }
    }
}

/// Takes the token from all `Authorization` lines and the URL's query (without its `?`).
///
/// # Errors
/// What is sent is no single bearer token.
pub fn credential<'h>(
    authorization: impl IntoIterator<Item = &'h str>,
    query: Option<&str>,
) -> Result<Option<&'h str>, BearerError> {
    let in_query =
        |query: &str| url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token");
    if query.is_some_and(in_query) {
        return Err(BearerError::InQuery);
    }
    let mut lines = authorization.into_iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(BearerError::Several);
    }
    let (scheme, token) = line.split_once(' ').unwrap_or((line, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(BearerError::Scheme);
    }
    let token = token.trim_start_matches(' ');
    if token.len() > MAX_TOKEN {
        return Err(BearerError::TooLarge);
    }
    if is_token(token) { Ok(Some(token)) } else { Err(BearerError::Malformed) }
}

/// RFC 6750 section 2.1: `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
fn is_token(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    !body.is_empty() && body.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a1_one_bearer_token_or_none() {
        assert_eq!(credential([], None), Ok(None));
        assert_eq!(credential([], Some("a=1&token=x")), Ok(None));
        for line in ["Bearer abc.def-_~+/==", "bearer abc.def-_~+/==", "BEARER  abc.def-_~+/=="] {
            assert_eq!(credential([line], None), Ok(Some("abc.def-_~+/==")), "{line}");
        }
    }

    #[test]
    fn a1_everything_else_is_refused() {
        for (lines, refused) in [
            (vec!["Basic dXNlcjpwYXNz"], BearerError::Scheme),
            (vec!["DPoP abc"], BearerError::Scheme),
            (vec!["BearerX abc"], BearerError::Scheme),
            (vec!["abc"], BearerError::Scheme),
            (vec![""], BearerError::Scheme),
            (vec!["Bearer"], BearerError::Malformed),
            (vec!["Bearer "], BearerError::Malformed),
            (vec!["Bearer a b"], BearerError::Malformed),
            (vec!["Bearer a,b"], BearerError::Malformed),
            (vec!["Bearer a, Bearer b"], BearerError::Malformed),
            (vec!["Bearer\tabc"], BearerError::Scheme),
            (vec!["Bearer é"], BearerError::Malformed),
            (vec!["Bearer a=b"], BearerError::Malformed),
            (vec!["Bearer ==="], BearerError::Malformed),
            (vec!["Bearer abc", "Bearer abc"], BearerError::Several),
            (vec!["Bearer abc", "Basic x"], BearerError::Several),
        ] {
            assert_eq!(credential(lines.clone(), None), Err(refused), "{lines:?}");
        }
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN + 1));
        assert_eq!(credential([long.as_str()], None), Err(BearerError::TooLarge));
    }

    #[test]
    fn a1_a_token_in_the_url_is_refused_in_every_spelling_and_beside_a_good_one() {
        for query in [
            "access_token=abc",
            "x=1&access_token=",
            "access%5Ftoken=abc",
            "access_token",
            "%61ccess_token=a",
        ] {
            assert_eq!(credential(["Bearer abc"], Some(query)), Err(BearerError::InQuery), "{query}");
            assert_eq!(credential([], Some(query)), Err(BearerError::InQuery), "{query}");
        }
    }
}
