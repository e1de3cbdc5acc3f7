//! The journal's archive from outside, in a folder: configured, watched in `/status`, read by the commands.

use std::path::Path;

use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, run};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, LONG};

use crate::journal::{begin, folder};

/// Calls until so many segments are kept.
fn keep(gateway: &Gateway, segments: u64) {
    let client = gateway.modern().server("up").meta("dev.tollgate/run", "\"r1\"");
    wait::until("segments in the archive", || {
        (0..20).for_each(|_| drop(client.call("echo", r#"{"text":"x"}"#)));
        gateway.status()["archive"]["kept_segments"].as_u64().is_some_and(|kept| kept >= segments)
    });
}

fn said(args: &[&str], dir: &Path, code: i32) -> String {
    let output = run(args, dir);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn closed_segments_go_to_the_archive_and_the_commands_read_them_there() {
    let (up, dir) = (Scripted::json(Peer::modern("up")), folder());
    let url = format!("file://{}", dir.path().join("kept").display());
    let head = format!("audit: {{ segment: {{ bytes: 64KiB }}, archive: {{ url: \"{url}\" }} }}\n");
    let gateway = begin(&up, &head, &dir).start();
    keep(&gateway, 2);
    let status = gateway.status();
    let archive = &status["archive"];
    assert!(archive["url"].as_str().is_some_and(|place| place.starts_with(&url)), "{archive}");
    assert!(
        archive["error"].is_null() && archive["refused"].as_array().is_some_and(Vec::is_empty),
        "{archive}"
    );
    let key = gateway
        .log()
        .split("verify it with --key ")
        .nth(1)
        .expect("the key")
        .lines()
        .next()
        .map(str::to_owned);
    let key = key.expect("a line");
    // A restart goes on where the last one was.
    gateway.sigterm();
    assert!(gateway.wait(LONG).success(), "{}", gateway.log());
    let again = begin(&up, &head, &dir).start();
    keep(&again, 4);
    again.sigterm();
    assert!(again.wait(LONG).success(), "{}", again.log());
    let verified = said(&["audit", "verify", &url, "--key", &key], dir.path(), 3);
    assert!(verified.contains("OK_UNANCHORED") && verified.contains(&url), "{verified}");
    let here = said(&["audit", "run", "r1", "--dir", "var/audit", "--json"], dir.path(), 0);
    let there = said(&["audit", "run", "r1", "--dir", &url, "--json"], dir.path(), 0);
    assert!(there.lines().count() > 40, "{}", there.lines().count());
    assert!(here.lines().zip(there.lines()).take(40).all(|(here, there)| here == there));
    assert!(said(&["audit", "show", "--dir", &url, "--kind", "config"], dir.path(), 0).lines().count() >= 1);
    assert!(said(&["audit", "costs", "--dir", &url, "--format", "json"], dir.path(), 0).contains("up"));
    said(&["audit", "show", "--dir", &url, "--follow"], dir.path(), 2);
    said(&["audit", "verify", "s4://bucket"], dir.path(), 4);
}

#[test]
fn a_wrong_archive_is_told_before_anything_starts() {
    let (up, dir) = (Scripted::json(Peer::modern("up")), folder());
    for (archive, why) in [
        ("{ url: ftp://a/b }", "audit.archive.url: no object store is known by this scheme"),
        ("{ url: s3://b, access_key: AKIAIOSFODNN7EXAMPLE }", "a credential in the file itself"),
        ("{ url: s3://b, endpoint: \"http://127.0.0.1:9\" }", "an endpoint without TLS"),
        ("{ url: s3://b, secret_key: \"env:DIGEST\" }", "half a credential"),
        ("{ url: gs://b, region: x }", "not a setting of gs"),
        ("{ url: gs://b, service_account: \"env:DIGEST\" }", "journal: archive: gs://b"),
    ] {
        let head = format!("audit: {{ archive: {archive} }}\n");
        let said = begin(&up, &head, &dir).attempt().err().expect("no start");
        assert!(said.contains(why), "{archive}: {said}");
    }
}
