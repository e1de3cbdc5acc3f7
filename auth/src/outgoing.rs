//! Credentials towards servers: the gateway's own, got from a token endpoint or signed here. A caller's token is only
//! ever the subject of an exchange at the configured endpoint; no server gets to see it.

mod assertion;
mod cache;
mod grant;

pub use assertion::{About, Assertion, AssertionKey, KeyError, MAX_LIFETIME};
pub use cache::{CacheKey, Credential, Need, TokenCache};
pub use grant::{Grant, GrantError, MAX_GRANT, Target, client_credentials, exchange, grant};
