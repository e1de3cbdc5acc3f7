//! JSON-RPC error codes: the specification's own and the gateway's. Never decides which one applies.

/// The body is not JSON, or not strict JSON.
pub const PARSE: i64 = -32700;
/// The body is JSON but not one valid JSON-RPC message.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong: unknown tool, missing `_meta` fields, unknown resource (modern).
pub const INVALID_PARAMS: i64 = -32602;
/// Something broke inside.
pub const INTERNAL: i64 = -32603;
/// Resource not found, in 2025-11-25 and earlier; must not be emitted to modern clients.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// URL elicitation required, in 2025-11-25 alone; must not be emitted to modern clients.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// A mirrored header is missing, malformed or differs from the body (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client did not declare a capability that the request needs (2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The protocol version is not supported (2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;

// The gateway's own codes lie outside -32768…-32000, which JSON-RPC and MCP reserve.

/// The server could not be reached.
pub const UNREACHABLE: i64 = 7001;
/// The server did not answer in time.
pub const TIMEOUT: i64 = 7002;
/// The server's stream or process ended before its answer.
pub const DROPPED: i64 = 7003;
/// The server broke the protocol or its own schema.
pub const SCHEMA: i64 = 7004;
/// The server refused the gateway's credential.
pub const AUTH: i64 = 7006;
/// The caller's rate limit is used up.
pub const RATE: i64 = 7007;
/// The journal can't be written, so nothing goes through.
pub const JOURNAL: i64 = 7008;
