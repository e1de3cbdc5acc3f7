//! An authorization server for the tests: metadata, keys, introspection, a token endpoint. It signs with Ed25519, records
//! every request, and misbehaves on demand. Uses no code of the gateway.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::scripted::{Out, Scripted, Seen};

/// What `aud` names the gateway in the tests.
pub const AUDIENCE: &str = "https://mcp.example/mcp";

/// How a part of the issuer answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    #[default]
    Well,
    /// With this status and no document.
    Status(u16),
    /// With a set or object that holds nothing.
    Empty,
    /// With no JSON.
    Garbage,
    /// With so many bytes.
    Huge(usize),
    /// With a redirect to this URL.
    Redirect(String),
    /// Not before this time is over.
    Slow(Duration),
    /// With a document of another issuer.
    Foreign,
}

/// What the issuer knows.
#[derive(Default)]
struct State {
    keys: Mutex<Vec<(String, Ed25519KeyPair)>>,
    unusable: AtomicBool,
    metadata: Mutex<Mood>,
    jwks: Mutex<Mood>,
    introspection: Mutex<Mood>,
    token: Mutex<Mood>,
    opaque: Mutex<HashMap<String, Value>>,
    lifetime: AtomicU64,
    granted: AtomicU64,
}

/// The issuer.
pub struct Issuer {
    http: Scripted,
    state: Arc<State>,
}

/// Base64 as JWTs use it.
pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Issuer {
    /// An issuer with one key, `k1`, whose tokens live an hour.
    pub fn start() -> Issuer {
        let state = Arc::new(State { lifetime: AtomicU64::new(3600), ..State::default() });
        let serving = Arc::clone(&state);
        let http = Scripted::start(move |seen, out| serving.serve(seen, out));
        let issuer = Issuer { http, state };
        issuer.add_key("k1");
        issuer
    }

    /// Its identifier.
    pub fn url(&self) -> String {
        format!("http://{}", self.http.addr)
    }

    /// The requests to a path so far.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.http.seen().into_iter().filter(|seen| seen.path == path).collect()
    }

    /// Publishes another key.
    pub fn add_key(&self, kid: &str) {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).expect("a key");
        self.state.keys.lock().push((kid.into(), pair));
    }

    /// Publishes four keys more that nobody may verify a token with: `unusable-enc`, `-oct`, `-small` and `-type`.
    pub fn add_unusable_keys(&self) {
        self.state.unusable.store(true, Ordering::Relaxed);
    }

    /// No longer publishes a key.
    pub fn drop_key(&self, kid: &str) {
        self.state.keys.lock().retain(|(name, _)| name != kid);
    }

    /// How the keys are answered from now on.
    pub fn jwks(&self, mood: Mood) {
        *self.state.jwks.lock() = mood;
    }

    /// How the metadata is answered.
    pub fn metadata(&self, mood: Mood) {
        *self.state.metadata.lock() = mood;
    }

    /// How introspection is answered.
    pub fn introspection(&self, mood: Mood) {
        *self.state.introspection.lock() = mood;
    }

    /// How the token endpoint answers.
    pub fn token_endpoint(&self, mood: Mood) {
        *self.state.token.lock() = mood;
    }

    /// Seconds that granted tokens live.
    pub fn lifetime(&self, seconds: u64) {
        self.state.lifetime.store(seconds, Ordering::Relaxed);
    }

    /// Makes an opaque token known with these claims, or no longer active.
    pub fn opaque(&self, token: &str, claims: Value) {
        self.state.opaque.lock().insert(token.into(), claims);
    }

    /// An access token of this subject that lives an hour, with more claims.
    pub fn token(&self, subject: &str, more: Value) -> String {
        let mut claims = json!({
            "iss": self.url(), "aud": AUDIENCE, "sub": subject, "exp": now() + 3600, "iat": now(),
            "client_id": "tests", "jti": format!("{}", self.state.granted.fetch_add(1, Ordering::Relaxed)),
        });
        for (name, value) in more.as_object().expect("an object") {
            match value {
                Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        self.sign(&json!({"alg": "EdDSA", "kid": "k1", "typ": "at+jwt"}), &claims)
    }

    /// Signs with the key that the header's `kid` names, or with the first.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let keys = self.state.keys.lock();
        let named = keys.iter().find(|(kid, _)| header["kid"] == kid.as_str());
        let (_, pair) = named.or(keys.first()).expect("a key");
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = pair.sign(message.as_bytes());
        format!("{message}.{}", b64(signature.as_ref()))
    }
}

fn unusable() -> [Value; 4] {
    [
        json!({"kty": "RSA", "kid": "unusable-enc", "use": "enc", "n": b64([0xff; 256]), "e": "AQAB"}),
        json!({"kty": "oct", "kid": "unusable-oct", "k": "AAAA"}),
        json!({"kty": "RSA", "kid": "unusable-small", "n": b64([0xff; 128]), "e": "AQAB"}),
        json!({"kty": "XYZ", "kid": "unusable-type"}),
    ]
}

impl State {
    fn serve(&self, seen: &Seen, out: &mut Out<'_>) {
        let host = seen.header("host").unwrap_or_default().to_owned();
        let own = format!("http://{host}");
        let mood = |mood: &Mutex<Mood>| mood.lock().clone();
        match seen.path.as_str() {
            "/.well-known/oauth-authorization-server" => {
                let mood = mood(&self.metadata);
                let issuer = if mood == Mood::Foreign { "http://127.0.0.1:1" } else { own.as_str() };
                let document = json!({
                    "issuer": issuer,
                    "jwks_uri": format!("{own}/jwks"),
                    "authorization_endpoint": format!("{own}/authorize"),
                    "token_endpoint": format!("{own}/token"),
                    "introspection_endpoint": format!("{own}/introspect"),
                    "code_challenge_methods_supported": ["S256"],
                });
                answer(&mood, &document, out);
            }
            "/jwks" => {
                let jwk = |(kid, pair): &(String, Ed25519KeyPair)| {
                    json!({"kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key()), "kid": kid,
                           "alg": "EdDSA", "use": "sig"})
                };
                let mut keys: Vec<Value> = match mood(&self.jwks) {
                    Mood::Empty => Vec::new(),
                    _ => self.keys.lock().iter().map(jwk).collect(),
                };
                if self.unusable.load(Ordering::Relaxed) {
                    keys.extend(unusable());
                }
                answer(&mood(&self.jwks), &json!({ "keys": keys }), out);
            }
            "/introspect" => {
                let token = field(&seen.body, "token").unwrap_or_default();
                let known = self.opaque.lock().get(&token).cloned();
                answer(&mood(&self.introspection), &known.unwrap_or(json!({"active": false})), out);
            }
            "/token" => {
                let number = self.granted.fetch_add(1, Ordering::Relaxed);
                let document = json!({
                    "access_token": format!("granted-{number}-{}", b64(number.to_be_bytes())),
                    "token_type": "Bearer",
                    "expires_in": self.lifetime.load(Ordering::Relaxed),
                });
                answer(&mood(&self.token), &document, out);
            }
            _ => out.json(404, "{}"),
        }
    }
}

fn answer(mood: &Mood, document: &Value, out: &mut Out<'_>) {
    match mood {
        Mood::Status(status) => out.json(*status, "{}"),
        Mood::Garbage => out.json(200, "<html>"),
        Mood::Huge(bytes) => out.json(200, " ".repeat(*bytes)),
        Mood::Redirect(url) => out.reply(302, &[("Location", url)], ""),
        Mood::Slow(time) => {
            std::thread::sleep(*time);
            out.json(200, document.to_string());
        }
        Mood::Well | Mood::Empty | Mood::Foreign => out.json(200, document.to_string()),
    }
}

/// A field of a form.
pub fn field(form: &str, name: &str) -> Option<String> {
    let value = form.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&hex, 16).expect("hex"));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec()
}
