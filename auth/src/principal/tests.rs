//! Tests of the principal: its canonical text is one to one.

use proptest::prelude::*;

use super::*;

fn id(text: &str) -> Identifier {
    Identifier::new(text).unwrap()
}

fn oauth(fields: [&str; 4]) -> Principal {
    let [issuer, subject, client, tenant] = fields;
    Principal::Oauth(Arc::new(Oauth {
        issuer: id(issuer),
        subject: id(subject),
        client_id: Identifier::new(client),
        tenant: Identifier::new(tenant),
        groups: Vec::new(),
        scopes: Scopes::default(),
        task: None,
        run: None,
        expires: 0,
        claims: Map::new(),
    }))
}

#[test]
fn the_canonical_text_names_the_kind() {
    assert_eq!(Principal::Anonymous.canonical(), "anonymous");
    assert_eq!(Principal::Token { name: id("ci") }.canonical(), "token\0ci");
    assert_eq!(oauth(["https://i", "s", "", "t"]).canonical(), "oauth\0https://i\0s\0\0t");
    let name = CertificateName::Uri(id("spiffe://a/b"));
    assert_eq!(Principal::Certificate { name }.canonical(), "certificate\0uri\0spiffe://a/b");
}

#[test]
fn a24_what_changes_from_token_to_token_is_no_identity() {
    let Principal::Oauth(one) = oauth(["i", "s", "c", "t"]) else { unreachable!() };
    let mut other = (*one).clone();
    other.expires = 99;
    other.scopes = Scopes::parse("a b").unwrap();
    other.claims.insert("jti".into(), "2".into());
    other.groups.push(id("g"));
    assert_eq!(Principal::Oauth(one).canonical(), Principal::Oauth(Arc::new(other)).canonical());
}

#[test]
fn x5_a_principal_shows_no_claims() {
    let Principal::Oauth(one) = oauth(["i", "s", "c", "t"]) else { unreachable!() };
    let mut one = (*one).clone();
    one.claims.insert("email".into(), "canary@example.com".into());
    one.groups.push(id("canary"));
    let shown = format!("{:?}", Principal::Oauth(Arc::new(one)));
    assert!(shown.contains("subject: \"s\"") && !shown.contains("canary"), "{shown}");
}

#[test]
fn identifiers_hold_no_control_characters_and_end() {
    for bad in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}"] {
        assert!(Identifier::new(bad).is_none(), "{bad:?}");
    }
    assert!(Identifier::new(&"a".repeat(MAX_IDENTIFIER)).is_some());
    assert!(Identifier::new(&"a".repeat(MAX_IDENTIFIER + 1)).is_none());
}

proptest! {
    #[test]
    fn a24_two_principals_never_share_a_canonical_text(a in "[ab|]{1,3}", b in "[ab|]{1,3}", c in "[ab|]{0,2}", d in "[ab|]{0,2}",
        e in "[ab|]{1,3}", f in "[ab|]{1,3}", g in "[ab|]{0,2}", h in "[ab|]{0,2}") {
        let (one, two) = ([a.as_str(), &b, &c, &d], [e.as_str(), &f, &g, &h]);
        prop_assert_eq!(one == two, oauth(one).canonical() == oauth(two).canonical());
    }
}
