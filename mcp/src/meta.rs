//! The `_meta` of requests: protocol fields taken apart from what passes through. Checks types, not presence: which
//! fields a request needs depends on its era. Never used to decide what a caller may do.

use crate::json::{Key, Raw};

/// Protocol version of a request (string).
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's own name and version (object); self-reported.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The client's capabilities (object).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Lowest level of log notifications wanted (string).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server's own name and version, in results (object).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The listen request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Asks for progress notifications (string or integer).
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Prefix of the gateway's own keys; from others they are never passed on.
pub const OWN_PREFIX: &str = "dev.tollgate/";

/// Severity of a log notification (RFC 5424), rising.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// Ordinary.
    Info,
    /// Ordinary but significant.
    Notice,
    /// May become an error.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Someone must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// All levels, rising.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The level with exactly this name.
    pub fn parse(text: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.as_str() == text)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }
}

/// A request's `_meta`, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// [`VERSION`]; its presence makes the request modern.
    pub version: Option<String>,
    /// [`CLIENT_INFO`], an object.
    pub client_info: Option<Raw>,
    /// [`CLIENT_CAPABILITIES`], an object.
    pub client_capabilities: Option<Raw>,
    /// [`LOG_LEVEL`], the name of a level.
    pub log_level: Option<Raw>,
    /// [`PROGRESS_TOKEN`], a string or a number.
    pub progress_token: Option<Raw>,
    /// Everything else, to be passed through.
    pub rest: Vec<(Key, Raw)>,
    /// Keys under [`OWN_PREFIX`]: for the gateway, never passed on.
    pub own: Vec<(Key, Raw)>,
}

/// What is wrong with a `_meta`; always error -32602. The text is fit for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct MetaError {
    /// What is wrong.
    pub what: &'static str,
}

impl Meta {
    /// Takes the `_meta` of these params apart; without one, everything is empty.
    ///
    /// # Errors
    /// A field of the wrong type.
    pub fn parse(params: Option<&Raw>) -> Result<Meta, MetaError> {
        let mut meta = Meta::default();
        let Some(raw) = params.and_then(|params| params.get("_meta")) else { return Ok(meta) };
        if !raw.is_object() {
            return Err(MetaError { what: "_meta must be an object" });
        }
        for member in raw.view() {
            let value = member.value();
            match member.name().as_ref() {
                VERSION => meta.version = Some(version(&value)?),
                CLIENT_INFO => meta.client_info = Some(object(value, "clientInfo must be an object")?),
                CLIENT_CAPABILITIES => {
                    meta.client_capabilities = Some(object(value, "clientCapabilities must be an object")?);
                }
                LOG_LEVEL => meta.log_level = Some(level(value)?),
                PROGRESS_TOKEN => meta.progress_token = Some(token(value)?),
                name if name.starts_with(OWN_PREFIX) => meta.own.push((member.key(), value)),
                _ => meta.rest.push((member.key(), value)),
            }
        }
        Ok(meta)
    }
}

fn object(value: Raw, what: &'static str) -> Result<Raw, MetaError> {
    if value.is_object() { Ok(value) } else { Err(MetaError { what }) }
}

/// Any version is taken here, bounded for logs: whether it is supported is answered with -32022, not -32602.
fn version(value: &Raw) -> Result<String, MetaError> {
    let text = if value.len() > 256 { None } else { value.string() };
    text.filter(|text| !text.is_empty() && !text.chars().any(char::is_control))
        .ok_or(MetaError { what: "protocolVersion must be a short string" })
}

fn level(value: Raw) -> Result<Raw, MetaError> {
    match value.string().as_deref().and_then(LogLevel::parse) {
        Some(_) => Ok(value),
        None => Err(MetaError { what: "logLevel must be the name of a level" }),
    }
}

/// Tokens are echoed with each notification: their length is bounded.
fn token(value: Raw) -> Result<Raw, MetaError> {
    let known = value.is_string() || value.integer().is_some();
    if known && value.len() <= 1024 {
        Ok(value)
    } else {
        Err(MetaError { what: "params._meta.progressToken must be a short string or an integer" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;

    fn parse(meta: &str) -> Result<Meta, MetaError> {
        let text = format!("{{\"name\":\"x\",\"_meta\":{meta}}}");
        Meta::parse(Some(&Raw::parse(text.into(), &Limits::REQUEST).unwrap()))
    }

    #[test]
    fn j14_gateway_facts_from_a_client_are_set_apart() {
        let meta = parse(
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"admin"},
                "io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/logLevel":"info","progressToken":10,
                "dev.tollgate/run":"r1","dev.tollgate/meter":{},"dev.tollgatex/a":1,"traceparent":"00-a","io.modelcontextprotocol/x":null}"#,
        )
        .unwrap();
        assert_eq!(meta.version.as_deref(), Some("2026-07-28"));
        assert_eq!(meta.client_capabilities.unwrap().as_str(), "{\"roots\":{}}");
        assert_eq!(meta.progress_token.unwrap().as_str(), "10");
        assert_eq!(meta.log_level.unwrap().as_str(), "\"info\"");
        assert!(meta.client_info.is_some());
        let keys = |pairs: &[(Key, Raw)]| pairs.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>();
        assert_eq!(keys(&meta.own), ["dev.tollgate/run", "dev.tollgate/meter"]);
        assert_eq!(keys(&meta.rest), ["dev.tollgatex/a", "traceparent", "io.modelcontextprotocol/x"]);
    }

    #[test]
    fn j11_wrong_types_are_invalid_params() {
        for meta in [
            "1",
            "null",
            "[]",
            r#"{"io.modelcontextprotocol/protocolVersion":20260728}"#,
            r#"{"io.modelcontextprotocol/protocolVersion":""}"#,
            r#"{"io.modelcontextprotocol/clientCapabilities":[]}"#,
            r#"{"io.modelcontextprotocol/clientInfo":"x"}"#,
            r#"{"io.modelcontextprotocol/logLevel":"loud"}"#,
            r#"{"progressToken":{}}"#,
            r#"{"progressToken":null}"#,
        ] {
            assert!(parse(meta).is_err(), "{meta}");
        }
        assert!(Meta::parse(None).unwrap().version.is_none());
        assert!(parse("{}").unwrap().rest.is_empty());
    }

    #[test]
    fn levels_are_ordered() {
        assert!(LogLevel::parse("debug") < LogLevel::parse("emergency"));
        assert!(LogLevel::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(LogLevel::parse("Warning"), None);
    }
}
