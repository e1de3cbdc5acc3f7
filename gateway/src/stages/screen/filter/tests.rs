//! Tests of the filter: cases S6, X3 and U8.

use policies::Task;
use policies::caps::{Caps, OnTooLarge};
use policies::redact::Spec;

use super::*;

fn filter(change: impl FnOnce(&mut Profile)) -> Option<Filter> {
    let mut profile = Profile::bare(Arc::new(Task::open("t")));
    change(&mut profile);
    let metrics = Metrics::new(metrics::Registry::new(), "1").unwrap();
    Filter::new(&Arc::new(profile), &Arc::new(metrics))
}

fn redacting() -> Filter {
    filter(|profile| profile.redactor = Some(Arc::new(Redactor::compile(&Spec::default()).unwrap()))).unwrap()
}

fn raw(text: &str) -> Raw {
    parse(text.to_owned()).unwrap()
}

fn token() -> String {
    format!("ghp_{}a13tNSQc", "a1B2".repeat(7))
}

#[test]
fn a_task_that_asks_for_nothing_has_no_filter() {
    assert!(filter(|_| {}).is_none());
}

#[test]
fn x3_a_secret_is_taken_out_of_every_copy_and_counted() {
    let mut filter = redacting();
    let secret = token();
    let result = raw(&format!(
        r#"{{"content":[{{"type":"text","text":"{{\"t\":\"{secret}\"}}"}}],"structuredContent":{{"t":"{secret}"}}}}"#
    ));
    let clean = filter.result(&result, false).unwrap();
    assert!(!clean.as_str().contains("a1B2") && clean.as_str().contains("[redacted:"), "{}", clean.as_str());
    assert!(filter.taken() >= 2);
    let error = RpcError::new(-1, format!("no {secret}")).with_data(raw(&format!(r#"{{"k":"{secret}"}}"#)));
    let error = filter.error(error);
    assert!(!error.message.contains("a1B2") && !error.data.unwrap().as_str().contains("a1B2"));
    let rendered = String::from_utf8(filter.metrics.render(None).unwrap().body).unwrap();
    assert!(rendered.contains("tollgate_redactions_total{rule="), "{rendered}");
}

#[test]
fn s6_a_secret_split_over_two_notifications_is_taken_out_of_both() {
    let secret = token();
    for cut in [4, 9, 20, secret.len() - 1] {
        let mut filter = redacting();
        let (first, second) = secret.split_at(cut);
        let mut shown = String::new();
        for text in [format!("key {first}"), format!("{second} end"), "done".into()] {
            let params = raw(&format!(r#"{{"progress":1,"message":"{text}"}}"#));
            let note = filter.note("notifications/progress", &params, "message");
            shown.extend(note.map(|(_, params)| params.get("message").unwrap().string().unwrap()));
        }
        shown.extend(filter.last().map(|(_, params)| params.get("message").unwrap().string().unwrap()));
        assert!(!shown.contains(first) || first == "ghp_", "{cut}: {shown}");
        assert!(!shown.contains(second.get(1..).filter(|s| !s.is_empty()).unwrap_or("?")), "{cut}: {shown}");
        assert!(shown.starts_with("key ") && shown.contains(" end") && shown.ends_with("done"), "{shown}");
    }
}

#[test]
fn u8_one_more_than_the_cap_is_refused_or_cut_with_a_mark() {
    let text =
        |bytes: usize| raw(&format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(bytes)));
    let caps = |on_too_large| {
        let caps = Caps { bytes: 4096, items: 10, image_bytes: 100, blob_bytes: 100, on_too_large };
        filter(|profile| profile.caps = Some(caps)).unwrap()
    };
    let fits = text(4096 - text(0).len());
    assert_eq!(caps(OnTooLarge::Refuse).result(&fits, false).unwrap().as_str(), fits.as_str());
    let over = text(4097 - text(0).len());
    let refused = caps(OnTooLarge::Refuse).result(&over, false).unwrap_err();
    assert_eq!(refused.why, Why::ResultSize);
    assert!(refused.public.contains("4097"), "{}", refused.public);
    let cut = caps(OnTooLarge::Truncate).result(&over, false).unwrap();
    assert!(cut.len() <= 4096 && cut.as_str().contains("dev.tollgate/truncated"), "{}", cut.as_str());
}

#[test]
fn a_servers_own_state_is_never_touched() {
    let mut filter = redacting();
    let state = Raw::from_str_value(&token());
    let result = raw(&format!(r#"{{"resultType":"input_required","requestState":{}}}"#, state.as_str()));
    let clean = without_state(&result, Some(&state), |rest| filter.result(rest, false)).unwrap();
    assert_eq!(clean.get("requestState").unwrap().as_str(), state.as_str());
}
