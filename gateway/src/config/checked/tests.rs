//! Tests of the checked types: the choice of deadlines, what `Debug` shows.

use super::*;

fn server(tools: &[(&str, Option<u64>, Option<u64>)]) -> Server {
    let tools = tools.iter().map(|(name, idle, total)| {
        let seconds = |s: &Option<u64>| s.map(Duration::from_secs);
        ((*name).to_owned(), ToolTimeouts { call_idle: seconds(idle), call_total: seconds(total) })
    });
    Server {
        id: "s".into(),
        transport: Transport::Http(HttpServer {
            url: Url::parse("http://127.0.0.1:1/mcp").unwrap(),
            kind: HttpKind::Auto,
            credential: None,
            headers: vec![],
            ca: None,
        }),
        required: false,
        timeouts: Timeouts::default(),
        tools: tools.collect(),
        answer_bytes: 16 << 20,
        policy: ServerPolicy::default(),
        line: 1,
    }
}

#[test]
fn exact_name_wins_over_the_longest_glob() {
    let server = server(&[("*", Some(1), Some(2)), ("build_*", Some(3), None), ("build_all", None, Some(9))]);
    let seconds = |tool| {
        let (idle, total) = server.call_timeouts(tool);
        (idle.as_secs(), total.as_secs())
    };
    assert_eq!(seconds("other"), (1, 2));
    assert_eq!(seconds("build_one"), (3, 2));
    assert_eq!(seconds("build_all"), (3, 9));
}

#[test]
fn without_overrides_the_servers_own_deadlines_hold() {
    assert_eq!(server(&[]).call_timeouts("x"), (Duration::from_secs(120), Duration::from_secs(600)));
}

#[test]
fn keys_show_only_their_number() {
    let keys = Keys { seal: vec![[7; 32]], made: false, digest: Some([7; 32]), run_token: None };
    assert_eq!(format!("{keys:?}"), "Keys { seal: 1, made: false, .. }");
}

#[test]
fn a_query_is_not_shown() {
    let mut server = server(&[]);
    let Transport::Http(http) = &mut server.transport else { panic!() };
    http.url.set_query(Some("key=canary"));
    assert_eq!(http.shown_url(), "http://127.0.0.1:1/mcp?…");
    assert!(!format!("{server:?}").contains("canary"));
}
