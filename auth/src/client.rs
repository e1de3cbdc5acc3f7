//! The gateway as an OAuth client: how it proves itself to token and introspection endpoints (RFC 6749 section 2.3.1).
//! Builds requests; sends none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::secret::Secret;

/// The content type of a form.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// Where a client's secret goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// `client_secret_basic`: into the header.
    #[default]
    Basic,
    /// `client_secret_post`: into the form.
    Post,
}

/// A registered client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// Where the secret goes.
    pub auth: ClientAuth,
}

/// A form to POST as `application/x-www-form-urlencoded`, with `Accept: application/json`.
#[derive(Clone, Debug)]
pub struct FormRequest {
    /// The body.
    pub body: Secret,
    /// The value of `Authorization`, if there is one.
    pub authorization: Option<Secret>,
}

impl Client {
    /// A request with these fields and this client's credential.
    pub(crate) fn request(&self, fields: &[(&str, &str)]) -> FormRequest {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        let authorization = match self.auth {
            ClientAuth::Basic => Some(self.basic()),
            ClientAuth::Post => {
                form.append_pair("client_id", &self.id).append_pair("client_secret", self.secret.expose());
                None
            }
        };
        FormRequest { body: Secret::new(form.finish()), authorization }
    }

    /// Id and secret are form-encoded before they are joined: a colon in the id would end it.
    fn basic(&self) -> Secret {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Secret::new(format!("{}:{}", encode(&self.id), encode(self.secret.expose())));
        Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(auth: ClientAuth) -> Client {
        Client { id: "my:id".into(), secret: Secret::new("p w&%"), auth }
    }

    #[test]
    fn the_secret_goes_into_the_header_or_the_form() {
        let basic = client(ClientAuth::Basic).request(&[("a", "b c")]);
        assert_eq!(basic.body.expose(), "a=b+c");
        let header = basic.authorization.unwrap();
        let pair = STANDARD.decode(header.expose().strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(pair, b"my%3Aid:p+w%26%25");

        let post = client(ClientAuth::Post).request(&[]);
        assert!(post.authorization.is_none());
        assert_eq!(post.body.expose(), "client_id=my%3Aid&client_secret=p+w%26%25");
    }

    #[test]
    fn x5_neither_client_nor_request_shows_the_secret() {
        for auth in [ClientAuth::Basic, ClientAuth::Post] {
            let client = client(auth);
            let shown = format!("{client:?} {:?}", client.request(&[("token", "canary")]));
            assert!(!shown.contains("p w") && !shown.contains("p+w") && !shown.contains("canary"), "{shown}");
        }
    }
}
