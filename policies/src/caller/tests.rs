//! Tests of who is admitted, and of the keys that callers are counted under (security case L5).

use serde_json::json;

use super::*;

fn oauth(claims: Value) -> Caller {
    let proof =
        Proof::Issuer { issuer: "https://idp".into(), subject: "ann".into(), client: Some("app".into()) };
    let Value::Object(claims) = claims else { panic!("an object") };
    Caller { groups: vec!["support".into()], scopes: vec!["mcp.read".into()], claims, ..Caller::new(proof) }
}

fn rule(change: impl FnOnce(&mut PrincipalSpec)) -> Principals {
    let mut spec = PrincipalSpec::default();
    change(&mut spec);
    Principals::compile(Some(spec)).unwrap()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|t| (*t).to_owned()).collect()
}

#[test]
fn without_a_rule_a_credential_is_needed_but_on_loopback() {
    let all = Principals::compile(None).unwrap();
    assert!(all.admit(&oauth(json!({})), false));
    assert!(all.admit(&Caller::new(Proof::Token("ci".into())), false));
    assert!(all.admit(&Caller::new(Proof::Anonymous), true));
    assert!(!all.admit(&Caller::new(Proof::Anonymous), false));
}

#[test]
fn an_empty_rule_admits_nobody() {
    let nobody = rule(|_| {});
    for caller in [oauth(json!({})), Caller::new(Proof::Token("ci".into())), Caller::new(Proof::Anonymous)] {
        assert!(!nobody.admit(&caller, true));
    }
    assert!(!nobody.admits_somebody());
}

#[test]
fn everything_that_is_said_of_a_token_must_hold() {
    let ann =
        oauth(json!({"department": ["sales", "it"], "level": 3, "realm": {"roles": ["ops"]}, "staff": true}));
    let admits = |change: &dyn Fn(&mut PrincipalSpec)| rule(change).admit(&ann, false);
    assert!(admits(&|s| s.groups = texts(&["other", "support"])));
    assert!(!admits(&|s| s.groups = texts(&["other"])));
    assert!(admits(&|s| s.issuers = texts(&["https://idp"])));
    assert!(!admits(&|s| s.issuers = texts(&["https://idp/"])));
    assert!(admits(&|s| s.clients = texts(&["app"])));
    assert!(!admits(&|s| s.scopes = texts(&["mcp.read", "mcp.write"])));
    assert!(admits(&|s| s.claims = vec![("department".into(), texts(&["hr", "it"]))]));
    assert!(admits(
        &|s| s.claims = vec![("/realm/roles".into(), texts(&["ops"])), ("level".into(), texts(&["3"]))]
    ));
    assert!(admits(&|s| s.claims = vec![("staff".into(), texts(&["true"]))]));
    assert!(!admits(&|s| s.claims = vec![("realm".into(), texts(&["ops"]))]));
    assert!(!admits(&|s| {
        s.groups = texts(&["support"]);
        s.issuers = texts(&["https://else"]);
    }));
}

#[test]
fn tokens_certificates_and_anonymous_callers_are_admitted_by_name_alone() {
    let rule = rule(|s| {
        s.groups = texts(&["support"]);
        s.tokens = texts(&["ci"]);
        s.certificates = texts(&["spiffe://prod/*"]);
    });
    let mut dressed = Caller::new(Proof::Token("other".into()));
    dressed.groups = vec!["support".into()];
    assert!(!rule.admit(&dressed, true));
    assert!(rule.admit(&Caller::new(Proof::Token("ci".into())), false));
    assert!(
        rule.admit(&Caller::new(Proof::Certificate(vec!["dns:x".into(), "spiffe://prod/a".into()])), false)
    );
    assert!(!rule.admit(&Caller::new(Proof::Certificate(vec!["spiffe://test/a".into()])), false));
    assert!(!rule.admit(&Caller::new(Proof::Anonymous), true));
}

#[test]
fn l5_the_key_is_made_of_verified_identity_alone() {
    let ann = oauth(json!({}));
    let mut same = oauth(json!({"clientInfo": "other", "x-forwarded-for": "1.2.3.4"}));
    same.groups.clear();
    same.scopes.clear();
    assert_eq!(ann.key(), same.key());
    let with = |change: &dyn Fn(&mut Caller)| {
        let mut other = ann.clone();
        change(&mut other);
        other.key()
    };
    let issuer = |subject: &str, client: Option<&str>| Proof::Issuer {
        issuer: "https://idp".into(),
        subject: subject.into(),
        client: client.map(Into::into),
    };
    let keys = [
        ann.key(),
        with(&|c| c.tenant = Some("t".into())),
        with(&|c| c.tenant = Some("".into())),
        with(&|c| c.proof = issuer("bob", Some("app"))),
        with(&|c| c.proof = issuer("ann", None)),
        with(&|c| c.proof = issuer("ann", Some(""))),
        with(&|c| c.proof = issuer("ann|3:app", None)),
        with(&|c| c.proof = Proof::Token("ann".into())),
        with(&|c| c.proof = Proof::Certificate(vec!["ann".into()])),
        with(&|c| c.proof = Proof::Anonymous),
    ];
    for (n, a) in keys.iter().enumerate() {
        assert!(keys.iter().skip(n + 1).all(|b| a != b), "{a}");
    }
}

#[test]
fn flaws_are_told_with_their_places() {
    let spec = PrincipalSpec {
        certificates: texts(&["ok", "a}"]),
        claims: vec![("d".into(), vec![]), ("/a~2".into(), texts(&["x"]))],
        ..PrincipalSpec::default()
    };
    let flaws = Principals::compile(Some(spec)).unwrap_err();
    let at: Vec<String> = flaws.iter().map(|f| crate::flaw::Path(&f.at).to_string()).collect();
    assert_eq!(at, ["principals.certificates[1]", "principals.claims.d", "principals.claims./a~2"]);
}
