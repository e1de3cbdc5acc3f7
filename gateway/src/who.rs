//! A caller as the gateway carries it through a request: the proven principal, the digest that everything bound to it
//! is bound to, and the same facts as policies look at them. Made once per credential, never from a header alone.

use std::sync::{Arc, LazyLock};

use auth::{CertificateName, Oauth, Principal, Secret};
use policies::caller::{Caller, Proof};

use crate::digest::sha256;

/// A proven caller.
#[derive(Debug)]
pub struct Who {
    /// Who it is.
    pub principal: Principal,
    /// SHA-256 over the principal's canonical text: sessions, cursors, upstream sessions and states are bound to this.
    pub owner: [u8; 32],
    /// The same caller as policies see it.
    pub caller: Caller,
    /// The name under which policies count: the same for all credentials of one principal.
    pub key: Box<str>,
    /// The credential itself, where one was presented: for token exchange alone, never sent to a server.
    pub credential: Option<Secret>,
}

impl Who {
    /// A caller proven by this credential.
    pub fn new(principal: Principal, credential: Option<Secret>) -> Arc<Who> {
        let owner = sha256(principal.canonical().as_bytes());
        let caller = caller(&principal);
        Arc::new(Who { owner, key: caller.key(), caller, principal, credential })
    }

    /// Nobody in particular, over loopback or on stdio.
    pub fn anonymous() -> Arc<Who> {
        static ANONYMOUS: LazyLock<Arc<Who>> = LazyLock::new(|| Who::new(Principal::Anonymous, None));
        Arc::clone(&ANONYMOUS)
    }

    /// The task that the credential is for, and the run.
    pub fn claims(&self) -> (Option<&str>, Option<&str>) {
        match &self.principal {
            Principal::Oauth(oauth) => (oauth.task.as_deref(), oauth.run.as_deref()),
            _ => (None, None),
        }
    }
}

fn caller(principal: &Principal) -> Caller {
    match principal {
        Principal::Anonymous => Caller::new(Proof::Anonymous),
        Principal::Token { name } => Caller::new(Proof::Token((&**name).into())),
        Principal::Certificate { name } => {
            let (CertificateName::Uri(name) | CertificateName::Dns(name) | CertificateName::Email(name)) =
                name;
            Caller::new(Proof::Certificate(vec![(&**name).into()]))
        }
        Principal::Oauth(oauth) => bearer(oauth),
    }
}

fn bearer(oauth: &Oauth) -> Caller {
    let proof = Proof::Issuer {
        issuer: (&*oauth.issuer).into(),
        subject: (&*oauth.subject).into(),
        client: oauth.client_id.as_deref().map(Into::into),
    };
    Caller {
        proof,
        scopes: oauth.scopes.iter().map(Into::into).collect(),
        groups: oauth.groups.iter().map(|group| (&**group).into()).collect(),
        tenant: oauth.tenant.as_deref().map(Into::into),
        claims: oauth.claims.clone(),
    }
}
