//! Where documents of issuers come from: the network behind the egress rules. A trait, so that the rules for keys can be
//! tried without a network; it decides nothing.

use std::sync::Arc;

use async_trait::async_trait;
use auth::client::FormRequest;

use crate::adapters::outbound::{Document, FetchError, Fetcher};

/// Gets documents.
#[async_trait]
pub trait Obtain: Send + Sync {
    /// GETs a document of at most `cap` bytes.
    ///
    /// # Errors
    /// Why there is none; never in the other side's words.
    async fn get(&self, url: &str, cap: usize) -> Result<Document, FetchError>;

    /// POSTs a form.
    ///
    /// # Errors
    /// As `get`.
    async fn post(&self, url: &str, form: &FormRequest, cap: usize) -> Result<Document, FetchError>;
}

/// Documents from the network.
pub struct Documents(pub Arc<Fetcher>);

#[async_trait]
impl Obtain for Documents {
    async fn get(&self, url: &str, cap: usize) -> Result<Document, FetchError> {
        self.0.get(url, cap).await
    }

    async fn post(&self, url: &str, form: &FormRequest, cap: usize) -> Result<Document, FetchError> {
        self.0.post(url, form, cap).await
    }
}
