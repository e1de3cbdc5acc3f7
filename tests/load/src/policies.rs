//! What policies cost: the same call through a bare Pingora proxy, through Tollgate without policies, and through
//! Tollgate with an access token, an allow-list, a condition, limits, a budget, argument checks and redaction.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use crate::bench::{Plan, Tally};
use crate::child::Child;
use crate::contenders::{Place, Stage, Through, place, tollgate_place};
use crate::lists::ready;
use crate::load::{Sample, median};
use crate::matrix::{POLICIES, sample};
use crate::mcp::Era;
use crate::noise::Ours;
use crate::row::{PolicyRow, Row};
use crate::tools::ECHO_TOOLS;
use crate::{Error, config};

/// How long the token is good for: longer than any run.
const LIFE: Duration = Duration::from_secs(6 * 3600);

/// Lets the three take turns.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let issued = Issued::new()?;
    let keys = stage.file("jwks.json", &issued.keys)?;
    let proxy = stage.proxy(Through::Pingora)?;
    let plain = stage.tollgate("plain", &config::one_server(stage.echo.address, Era::Modern))?;
    let guarded = stage.tollgate("guarded", &config::guarded(stage.echo.address, &keys))?;
    let mut places = [
        place(Through::Pingora, proxy.address, proxy.pid(), Era::Modern),
        tollgate_place(&plain, Era::Modern, true),
        tollgate_place(&guarded, Era::Modern, true),
    ];
    if let Some(guarded) = places.last_mut() {
        guarded.target.endpoint.bearer = Some(issued.token);
    }
    for place in &places {
        ready(place.through, &place.target, ECHO_TOOLS).await?;
    }
    let children = [&proxy, &plain, &guarded];
    let ours = Ours::new(children.iter().map(|child| child.pid()).chain([stage.echo.pid()]));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds * 2 {
        rounds.push(one_round(&places, round, plan, (&ours, tally)).await?);
        children.into_iter().for_each(Child::trim_log);
    }
    tally.rows.push(Row::Policies(ratios(&rounds)));
    tally.progress("policies done");
    Ok(())
}

/// Proxy, without policies, with policies.
type Round = [Sample; 3];

async fn one_round(
    places: &[Place; 3],
    round: usize,
    plan: &Plan,
    (ours, tally): (&Ours, &mut Tally),
) -> Result<Round, Error> {
    let mut samples = Round::default();
    for turn in 0..places.len() {
        let at = (turn + round) % places.len();
        if let (Some(place), Some(taken)) = (places.get(at), samples.get_mut(at)) {
            *taken = sample(POLICIES, place, plan, ours, tally).await?;
        }
    }
    Ok(samples)
}

/// Medians of the ratios of each round.
fn ratios(rounds: &[Round]) -> PolicyRow {
    let of = |ratio: fn(&Round) -> f64| median(rounds.iter().map(ratio));
    PolicyRow {
        measure: "policies",
        through: Through::Tollgate,
        rps: of(|[_, _, guarded]| guarded.rps),
        cpu_us_per_call: of(|[_, _, guarded]| guarded.cpu_us_per_call),
        rps_over_pingora: of(|[proxy, _, guarded]| guarded.rps / proxy.rps),
        rps_over_plain: of(|[_, plain, guarded]| guarded.rps / plain.rps),
        cpu_over_plain: of(|[_, plain, guarded]| guarded.cpu_us_per_call / plain.cpu_us_per_call),
    }
}

/// An issuer's key set and a token of it (ES256).
struct Issued {
    keys: String,
    token: String,
}

impl Issued {
    fn new() -> Result<Issued, Error> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let failed = |_| "no key could be made";
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)?;
        // An uncompressed point: 4, then x and y of 32 bytes each.
        let (x, y) =
            key.public_key().as_ref().get(1..).unwrap_or_default().split_at_checked(32).ok_or("no point")?;
        let jwk = json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "k1",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let claims = json!({
            "iss": config::ISSUER, "aud": config::AUDIENCE, "sub": "load", "client_id": "tollgate-load",
            "iat": now.as_secs(), "exp": (now + LIFE).as_secs(), "scope": "mcp.read",
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed =
            format!("{}.{}", part(json!({ "alg": "ES256", "typ": "at+jwt", "kid": "k1" })), part(claims));
        let signature = key.sign(&random, signed.as_bytes()).map_err(failed)?;
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Ok(Issued { keys: json!({ "keys": [jwk] }).to_string(), token })
    }
}
