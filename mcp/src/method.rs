//! Method names: which exist in which era, which are mirrored into headers, which may be repeated. Serves none of them.

use crate::era::Era;

/// Opens a legacy session.
pub const INITIALIZE: &str = "initialize";
/// Legacy liveness check.
pub const PING: &str = "ping";
/// Modern: what the server is and speaks.
pub const DISCOVER: &str = "server/discover";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Legacy: asks for updates of a resource.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Legacy: ends them.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Completes an argument.
pub const COMPLETE: &str = "completion/complete";
/// Legacy: sets the session's log level.
pub const SET_LEVEL: &str = "logging/setLevel";
/// Modern: opens a stream of changes.
pub const LISTEN: &str = "subscriptions/listen";

/// Legacy: the client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// A request is cancelled (legacy, and stdio of both eras).
pub const CANCELLED: &str = "notifications/cancelled";
/// Progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// A log line of a server.
pub const LOG: &str = "notifications/message";
/// Legacy: a server asks for the client's roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Legacy: the client's roots changed.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// The server's tools changed.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// The server's prompts changed.
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// The server's resources changed.
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// A resource changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// Requests of clients that both eras specify.
const COMMON: [&str; 8] = [
    TOOLS_LIST,
    TOOLS_CALL,
    RESOURCES_LIST,
    TEMPLATES_LIST,
    RESOURCES_READ,
    PROMPTS_LIST,
    PROMPTS_GET,
    COMPLETE,
];
const LEGACY: [&str; 9] = [
    INITIALIZE,
    PING,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    SET_LEVEL,
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
];
const MODERN: [&str; 5] = [DISCOVER, LISTEN, "tasks/get", "tasks/update", "tasks/cancel"];

/// The member of `params` that `Mcp-Name` mirrors for this method (SEP-2243); none for other methods.
pub fn mirrored_name(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some("name"),
        RESOURCES_READ => Some("uri"),
        _ => None,
    }
}

/// Whether clients of this era may send this request according to the specification and its tasks extension. Whether
/// the gateway serves it is another question.
pub fn is_request(method: &str, era: Era) -> bool {
    request(method, era).is_some()
}

/// The specification's own text of a request that clients of this era may send; see [`is_request`].
pub fn request(method: &str, era: Era) -> Option<&'static str> {
    let own: &[&'static str] = match era {
        Era::Modern => &MODERN,
        Era::Legacy => &LEGACY,
    };
    COMMON.iter().chain(own).find(|known| **known == method).copied()
}

/// Whether clients of this era may send this notification according to the specification.
pub fn is_notification(method: &str, era: Era) -> bool {
    notification(method, era).is_some()
}

/// The specification's own text of a notification that clients of this era may send; see [`is_notification`].
pub fn notification(method: &str, era: Era) -> Option<&'static str> {
    const LEGACY: [&str; 4] = [INITIALIZED, PROGRESS, ROOTS_CHANGED, "notifications/tasks/status"];
    match method {
        CANCELLED => Some(CANCELLED),
        _ if era == Era::Legacy => LEGACY.into_iter().find(|known| *known == method),
        _ => None,
    }
}

/// Whether sending it twice does no more than sending it once: lists, reads, completion, ping, discover.
pub fn safe_to_repeat(method: &str) -> bool {
    cacheable(method) || matches!(method, PROMPTS_GET | COMPLETE | PING)
}

/// Whether a modern result of this method carries `ttlMs` and `cacheScope` (SEP-2549).
pub fn cacheable(method: &str) -> bool {
    matches!(method, DISCOVER | TOOLS_LIST | PROMPTS_LIST | RESOURCES_LIST | TEMPLATES_LIST | RESOURCES_READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_have_their_own_methods() {
        for method in COMMON {
            assert!(is_request(method, Era::Modern) && is_request(method, Era::Legacy), "{method}");
        }
        for method in [PING, INITIALIZE, SET_LEVEL, RESOURCES_SUBSCRIBE] {
            assert!(is_request(method, Era::Legacy) && !is_request(method, Era::Modern), "{method}");
        }
        assert!(is_request(DISCOVER, Era::Modern) && !is_request(DISCOVER, Era::Legacy));
        assert!(!is_request("tools/List", Era::Modern) && !is_request("", Era::Legacy));
        assert!(is_notification(INITIALIZED, Era::Legacy) && !is_notification(INITIALIZED, Era::Modern));
    }

    #[test]
    fn tool_calls_are_never_repeated_by_themselves() {
        assert!(!safe_to_repeat(TOOLS_CALL) && !safe_to_repeat(SET_LEVEL) && !safe_to_repeat("tasks/cancel"));
        assert!(safe_to_repeat(RESOURCES_READ) && safe_to_repeat(PING) && safe_to_repeat(PROMPTS_GET));
        assert!(!cacheable(PROMPTS_GET) && cacheable(DISCOVER));
    }
}
