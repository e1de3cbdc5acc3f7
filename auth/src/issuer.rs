//! An issuer of access tokens, as the configuration names it, and the metadata that it publishes. Compiled once; it
//! fetches nothing and follows no address that the metadata of another issuer gives.

mod discovery;

use std::collections::{BTreeMap, HashSet};

use url::Url;

use crate::principal::Identifier;
use crate::scope::{Hierarchy, HierarchyError, Scopes};

pub use discovery::{MAX_METADATA, MetadataError, ServerMetadata, candidates};

/// What is demanded of a JWT beyond the rules for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// `typ` is absent, `JWT` or `at+jwt`.
    #[default]
    Plain,
    /// RFC 9068: `typ` is `at+jwt`.
    Rfc9068,
}

/// Who else may stand in `aud` beside this gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// No one.
    #[default]
    Nobody,
    /// These alone.
    Listed(HashSet<String>),
    /// Anyone: each of them could use the token here.
    Anyone,
}

/// Which claims hold what; a name, or a JSON Pointer that begins with `/`. Without a name the claim isn't looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimNames {
    /// The caller's groups: a text or an array of texts.
    pub groups: Option<String>,
    /// The caller's tenant.
    pub tenant: Option<String>,
    /// The task that the token is for.
    pub task: Option<String>,
    /// The run that the token is for.
    pub run: Option<String>,
    /// The client; without a name `client_id`, else `azp`.
    pub client: Option<String>,
}

/// An issuer as configured.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The issuer's identifier (RFC 8414 section 2): compared as it stands, never normalised.
    pub issuer: String,
    /// What `aud` names this gateway; at least one.
    pub audiences: Vec<String>,
    /// Who else may stand in `aud`.
    pub beside: Beside,
    /// What is demanded of a JWT.
    pub profile: Profile,
    /// The scopes that clients should ask for.
    pub scopes: Vec<String>,
    /// Scope → the scopes that it implies.
    pub implies: BTreeMap<String, Vec<String>>,
    /// Which claims hold what.
    pub claims: ClaimNames,
}

/// What is wrong with an issuer's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No https URL (or http on loopback) without user, query and fragment.
    #[error("the issuer must be an https URL without user, query and fragment (http only on loopback)")]
    Issuer,
    /// None, or an empty one.
    #[error("an issuer needs at least one audience, and none may be empty")]
    Audience,
    /// One of the scopes is none, or there are too many.
    #[error("a scope holds a character that no scope may hold, or there are more than 256")]
    Scopes,
    /// `offline_access` is between client and issuer: no resource needs it.
    #[error("'offline_access' is no scope of a resource")]
    OfflineAccess,
    /// The hierarchy of scopes.
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
}

/// A compiled issuer.
#[derive(Clone, Debug)]
pub struct Issuer {
    issuer: Identifier,
    audiences: HashSet<String>,
    beside: Beside,
    profile: Profile,
    scopes: Scopes,
    hierarchy: Hierarchy,
    claims: ClaimNames,
}

impl Issuer {
    /// Compiles an issuer.
    ///
    /// # Errors
    /// Everything that is wrong with the settings.
    pub fn compile(settings: Settings) -> Result<Issuer, Vec<SettingsError>> {
        let mut errors = Vec::new();
        let issuer = Identifier::new(&settings.issuer).filter(|text| is_issuer(text));
        if issuer.is_none() {
            errors.push(SettingsError::Issuer);
        }
        if settings.audiences.is_empty() || settings.audiences.iter().any(String::is_empty) {
            errors.push(SettingsError::Audience);
        }
        let scopes = Scopes::collect(settings.scopes.iter().map(String::as_str));
        match &scopes {
            None => errors.push(SettingsError::Scopes),
            Some(scopes) if scopes.contains("offline_access") => errors.push(SettingsError::OfflineAccess),
            Some(_) => {}
        }
        let hierarchy = Hierarchy::compile(&settings.implies).map_err(|e| errors.push(e.into())).ok();
        match (issuer, scopes, hierarchy) {
            (Some(issuer), Some(scopes), Some(hierarchy)) if errors.is_empty() => Ok(Issuer {
                issuer,
                audiences: settings.audiences.into_iter().collect(),
                beside: settings.beside,
                profile: settings.profile,
                scopes,
                hierarchy,
                claims: settings.claims,
            }),
            _ => Err(errors),
        }
    }

    /// The identifier, exactly as configured.
    pub fn issuer(&self) -> &Identifier {
        &self.issuer
    }

    /// What is demanded of its JWTs.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The scopes that clients should ask for.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Which scopes imply which.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// What `aud` names this gateway, in no particular order; at least one.
    pub fn audiences(&self) -> impl Iterator<Item = &str> {
        self.audiences.iter().map(String::as_str)
    }

    /// Whether this value of `aud` is us: equal, not a part of it.
    pub fn is_audience(&self, aud: &str) -> bool {
        self.audiences.contains(aud)
    }

    pub(crate) fn allows_beside(&self, aud: &str) -> bool {
        match &self.beside {
            Beside::Nobody => false,
            Beside::Listed(all) => all.contains(aud),
            Beside::Anyone => true,
        }
    }

    pub(crate) fn claim_names(&self) -> &ClaimNames {
        &self.claims
    }
}

fn is_issuer(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let scheme = match url.scheme() {
        "https" => true,
        "http" => crate::egress::is_loopback_host(&url),
        _ => false,
    };
    let plain = url.query().is_none() && url.fragment().is_none() && !text.contains(['?', '#', '@']);
    scheme && plain && url.username().is_empty() && url.password().is_none()
}

#[cfg(test)]
mod tests;
