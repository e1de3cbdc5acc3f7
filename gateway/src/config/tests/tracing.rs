//! The `tracing` section and the variables that complete it.

use super::*;

/// With these variables.
fn with(text: &str, variables: &[(&str, &str)]) -> Checked {
    let base = std::env::temp_dir();
    let env = |name: &str| {
        let own = variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        own.or_else(|| super::env(name))
    };
    let source = Source { name: "t.yaml", bytes: text.as_bytes(), base: &base };
    check_text(&source, &Options::default(), &env).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

fn problem(text: &str, part: &str) {
    let problems = check(&format!("{SERVER}{text}\n")).err().unwrap_or_default();
    assert!(problems.len() == 1 && problems[0].to_string().contains(part), "{text}: {problems:?}");
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[test]
fn nothing_is_traced_unless_somebody_says_where_to() {
    assert!(good(SERVER).tracing.is_none());
    let silent = good(&format!("{SERVER}tracing: {{ sample: 0.5 }}\n"));
    assert!(silent.tracing.is_none() && silent.warnings.iter().any(|w| w.what.contains("no endpoint")));
    assert!(with(SERVER, &[(ENDPOINT, " ")]).tracing.is_none());
    let on = "tracing: { endpoint: http://c:4318 }\n";
    for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert!(with(&format!("{SERVER}{on}"), &[off]).tracing.is_none(), "{off:?}");
    }
}

#[test]
fn the_file_says_it_all() {
    let text = "tracing: { endpoint: https://c:4317, protocol: grpc, headers: { Authorization: \"Bearer env:SET\" }, \
                ca: ca.pem, sample: 0.25, resource: { service.name: x }, timeout: 3s, queue: 7 }\n";
    let tracing = good(&format!("{SERVER}{text}")).tracing.unwrap();
    assert_eq!((tracing.endpoint.as_str(), tracing.protocol), ("https://c:4317/", TracingProtocol::Grpc));
    assert_eq!(tracing.headers[0].1.expose(), "Bearer canary-value");
    assert_eq!((tracing.sample, tracing.follow_parent), (0.25, true));
    assert_eq!(tracing.resource, [("service.name".to_owned(), "x".to_owned())]);
    assert_eq!((tracing.timeout, tracing.queue, tracing.batch), (Duration::from_secs(3), 7, 512));
    assert!(tracing.ca.is_some());
    assert!(!format!("{tracing:?}").contains("canary"));
}

#[test]
fn the_path_of_the_service_is_added_where_there_is_none() {
    let url = |text: &str, variables: &[(&str, &str)]| {
        with(&format!("{SERVER}{text}"), variables).tracing.unwrap().endpoint.to_string()
    };
    for (text, want) in [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("http://c/own/path", "http://c/own/path"),
    ] {
        assert_eq!(url(&format!("tracing: {{ endpoint: \"{text}\" }}\n"), &[]), want);
    }
    assert_eq!(url("", &[(ENDPOINT, "http://c:4318/base/")]), "http://c:4318/base/v1/traces");
    assert_eq!(
        url("", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/here")]),
        "http://c:4318/here"
    );
}

#[test]
fn the_environment_completes_the_file() {
    let variables = [
        (ENDPOINT, "http://other:1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b=from%20outside"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=r,team=t"),
        ("OTEL_SERVICE_NAME", "s"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.125"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "99"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9"),
        ("OTEL_BSP_SCHEDULE_DELAY", "250"),
    ];
    let text = "tracing: { endpoint: http://mine:4317, headers: { b: mine }, resource: { team: u } }\n";
    let tracing = with(&format!("{SERVER}{text}"), &variables).tracing.unwrap();
    assert_eq!(tracing.endpoint.as_str(), "http://mine:4317/", "the file goes first");
    assert_eq!(tracing.protocol, TracingProtocol::Grpc);
    let headers: Vec<_> =
        tracing.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("a", "1"), ("b", "mine")]);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(tracing.resource, [pair("service.name", "s"), pair("team", "u")]);
    assert_eq!((tracing.sample, tracing.follow_parent), (0.125, false));
    assert_eq!((tracing.timeout, tracing.queue), (Duration::from_millis(2500), 99));
    assert_eq!((tracing.batch, tracing.delay), (9, Duration::from_millis(250)));
}

#[test]
fn a_variable_that_says_nothing_usable_is_warned_of_and_ignored() {
    for (name, value) in [
        (ENDPOINT, "not a URL"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "no pairs"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_RESOURCE_ATTRIBUTES", "x"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
    ] {
        let checked = with(SERVER, &[(name, value)]);
        let warned = checked.warnings.iter().filter(|w| w.what.contains(name)).count();
        assert_eq!(warned, 1, "{name}: {:?}", checked.warnings);
        assert!(!format!("{:?}", checked.warnings).contains("no pairs"), "a header's value is told");
    }
}

#[test]
fn problems_of_the_section() {
    problem("tracing: { endpoint: c:4317 }", "not the URL of a collector");
    problem("tracing: { endpoint: \"http://u:p@c/\" }", "not the URL of a collector");
    problem("tracing: { endpoint: \"http://c/\", protocol: jaeger }", "tracing.protocol");
    problem("tracing: { endpoint: \"http://c/\", sample: 2 }", "tracing.sample");
    problem("tracing: { endpoint: \"http://c/\", queue: 0 }", "tracing.queue");
    problem("tracing: { endpoint: \"http://c/\", timeout: 1h }", "tracing.timeout");
    problem(
        "tracing: { endpoint: \"http://c/\", headers: { Authorization: Bearer-x } }",
        "a credential in the file",
    );
    problem("tracing: { endpont: x }", "did you mean `endpoint`?");
}
