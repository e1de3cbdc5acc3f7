//! Tokens from a token endpoint: one flight for each, renewed behind the callers' backs before they end. The caller's
//! own token goes into an exchange and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use auth::client::Client;
use auth::outgoing::{self, CacheKey, Credential, Grant, GrantError, MAX_GRANT, Need, TokenCache};
use auth::{Principal, Secret};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Issue, TOKENS, no_credential};
use crate::adapters::outbound::Watched;
use crate::config::Grantor;
use crate::ports::clock::since_epoch;
use crate::ports::upstream::{Behalf, Fault, FaultKind};

/// The longest that a request waits for another's flight.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a request looks again: each time a flight has ended that was not its own.
const LOOKS: usize = 64;
/// A token on behalf of a caller outlives the caller's by nothing, and is asked for anew after this at the latest.
const LONGEST_EXCHANGED: Duration = Duration::from_secs(3600);

/// The tokens of one server.
pub(super) struct Granted {
    server: String,
    spec: Grantor,
    secret: Watched<Secret>,
    exchange: bool,
    issue: Issue,
    cache: Mutex<TokenCache>,
    /// Tells whoever waits that a flight has ended.
    landed: watch::Sender<()>,
    started: Instant,
}

impl Granted {
    /// `exchange`: on behalf of each caller; else the gateway's own.
    pub(super) fn new(server: &str, spec: &Grantor, exchange: bool, issue: &Issue) -> Option<Arc<Granted>> {
        let secret = Watched::new(&spec.client.secret, |secret| Some(Secret::new(secret.expose())))?;
        Some(Arc::new(Granted {
            server: server.to_owned(),
            spec: spec.clone(),
            secret,
            exchange,
            issue: issue.clone(),
            cache: Mutex::new(TokenCache::new(TOKENS)),
            landed: watch::Sender::new(()),
            started: Instant::now(),
        }))
    }

    /// The token to send.
    pub(super) async fn token(self: &Arc<Self>, behalf: &Behalf) -> Result<Credential, Fault> {
        let key = self.key(behalf)?;
        for _ in 0..LOOKS {
            let mut landing = self.landed.subscribe();
            let need = self.cache.lock().need(key, self.started.elapsed());
            match need {
                Need::Use { credential, renew } => {
                    if renew {
                        self.fly(key, behalf);
                    }
                    return Ok(credential);
                }
                Need::Refused(reason) => return Err(no_credential(reason.reason())),
                Need::Fetch => self.fly(key, behalf),
                Need::Wait => {}
            }
            if timeout(PATIENCE, landing.changed()).await.is_err() {
                return Err(Fault::early(FaultKind::Auth, "the token endpoint did not answer in time"));
            }
        }
        Err(no_credential("too many wait for tokens"))
    }

    /// The server has refused a token. Whether another is worth a try.
    pub(super) fn refused(&self, behalf: &Behalf, token: &Credential) -> bool {
        let Ok(key) = self.key(behalf) else { return false };
        self.cache.lock().rejected(key, token, self.started.elapsed())
    }

    fn key(&self, behalf: &Behalf) -> Result<CacheKey, Fault> {
        if !self.exchange {
            return Ok(CacheKey::own(&self.server));
        }
        // Only an access token is a token to its issuer: no fixed token of this gateway is ever shown to it.
        match (&behalf.who.principal, &behalf.who.credential) {
            (principal @ Principal::Oauth(_), Some(_)) => Ok(CacheKey::on_behalf(&self.server, principal)),
            _ => Err(no_credential("the caller has no access token to exchange")),
        }
    }

    /// Asks the endpoint, whoever waits for it: a caller that leaves doesn't end it.
    fn fly(self: &Arc<Self>, key: CacheKey, behalf: &Behalf) {
        let (granted, behalf) = (Arc::clone(self), behalf.clone());
        tokio::spawn(async move {
            let result = granted.ask(&behalf).await;
            let longest = granted.exchange.then(|| granted.left(&behalf));
            granted.cache.lock().granted(key, result, longest, granted.started.elapsed());
            granted.landed.send_replace(());
        });
    }

    /// How long the caller's own token still lives.
    fn left(&self, behalf: &Behalf) -> Duration {
        let now = since_epoch(self.issue.clock.now()).as_secs();
        let left = behalf.who.principal.expires().map(|end| Duration::from_secs(end.saturating_sub(now)));
        left.unwrap_or(LONGEST_EXCHANGED).min(LONGEST_EXCHANGED)
    }

    async fn ask(&self, behalf: &Behalf) -> Result<Grant, GrantError> {
        self.secret.refresh().await;
        let client = Client {
            id: self.spec.client.id.clone(),
            secret: (*self.secret.get().await).clone(),
            auth: self.spec.client.auth,
        };
        let form = match (&behalf.who.credential, self.exchange) {
            (Some(subject), true) => outgoing::exchange(&client, subject, &self.spec.target),
            (None, true) => return Err(GrantError::InvalidGrant),
            (_, false) => outgoing::client_credentials(&client, &self.spec.target),
        };
        match self.issue.fetcher.post(&self.spec.url, &form, MAX_GRANT).await {
            Ok(answer) => {
                let grant = outgoing::grant(answer.status, &answer.body);
                if let Err(error) = &grant {
                    tracing::warn!(server = %self.server, reason = error.reason(), "no token for the server");
                }
                grant
            }
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "the token endpoint can't be used");
                Err(GrantError::Status)
            }
        }
    }
}
