//! Who is calling. Pure: it holds no keys, opens no connection and never sees a request.

/// A caller, proven by a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Nobody in particular: only accepted from this machine (a loopback listener, or a host on stdio).
    Anonymous,
}

impl Principal {
    /// The text that everything bound to this principal is bound to. Two principals never share one: each kind
    /// has its own prefix and its fields are separated by NUL, which no field may hold.
    pub fn canonical(&self) -> &str {
        match self {
            Principal::Anonymous => "anonymous",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_text_names_the_kind() {
        assert_eq!(Principal::Anonymous.canonical(), "anonymous");
    }
}
