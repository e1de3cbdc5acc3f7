//! Cases S1 to S5: event streams of servers are read as the format says and written anew, whole events only.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_tests::client::Client;
use tollgate_tests::http::{Answer, Conn};
use tollgate_tests::peer::{Peer, Rpc};
use tollgate_tests::scripted::{Carrier, Out, Scripted};
use tollgate_tests::{json, sse, wait};

use crate::support::Bench;

/// A server whose tool calls are answered by `bad`.
fn bench(bad: impl Fn(&Rpc, &mut Out<'_>) + Send + Sync + 'static) -> Bench {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Sse, move |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            bad(&seen.rpc(), out);
        }
        mine
    });
    Bench::of(up, "", ", limits: { answer_bytes: 256KiB }, timeouts: { call_idle: 3s, call_total: 8s }")
}

fn streamed(bench: &Bench) -> Answer {
    bench.client().log_level("debug").meta("progressToken", "5").call("echo", "{}")
}

fn progress(rpc: &Rpc, n: u32) -> String {
    let token = json::raw(&rpc.params, &["_meta", "progressToken"]).unwrap_or("null".into());
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
    )
}

const FINE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"fine é \u2028 世界"}]}"#;

/// Everything that the gateway writes on a stream is one line of JSON an event, with nothing of the server's framing.
fn must_be_clean(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    for event in sse::events(&answer.body) {
        assert!(!event.raw.contains('\r'), "{what}: a carriage return: {:?}", event.raw);
        assert!(event.retry.is_none(), "{what}: retry came through");
        assert!(event.raw.lines().filter(|l| l.starts_with("data:")).count() <= 1, "{what}: {:?}", event.raw);
        assert!(!event.raw.contains("LEAK"), "{what}: {:?}", event.raw);
    }
    let text = answer.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text, "fine é \u{2028} 世界", "{what}: {}", answer.text());
}

#[test]
fn s1_line_ends_inside_data_are_no_events_of_their_own() {
    for (what, end, spread) in [
        ("LF", "\n", false),
        ("CR", "\r", false),
        ("CRLF", "\r\n", false),
        ("LF spread", "\n", true),
        ("CR spread", "\r", true),
        ("CRLF spread", "\r\n", true),
    ] {
        let bench = bench(move |rpc, out| {
            out.stream(&[]);
            let mut text = rpc.result(FINE);
            if spread {
                // White space between tokens may hold line ends: each becomes a data line of its own.
                text = text.replacen(",\"result\"", &format!(",{end}data: {end}data: \"result\""), 1);
            }
            out.chunk(format!("event: message{end}data: {}{end}{end}", progress(rpc, 1)));
            out.chunk(format!("data: {text}{end}{end}"));
            out.end();
        });
        let answer = streamed(&bench);
        must_be_clean(what, &answer);
        assert_eq!(answer.notifications().len(), 1, "{what}: {}", answer.text());
    }
}

#[test]
fn s1_line_ends_inside_json_answers_are_no_events_either() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let text = seen.rpc().result(FINE).replace(",\"", ",\r\n\t\"");
            out.json(200, text);
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    must_be_clean("pretty JSON", &streamed(&bench));
    let plain = bench.client().call("echo", "{}");
    assert_eq!(plain.result()["content"][0]["type"], "text");
}

#[test]
fn s2_fields_of_the_server_do_not_pass() {
    let bench = bench(|rpc, out| {
        out.stream(&[]);
        out.chunk("\u{feff}: BOM first\n\n");
        out.chunk("retry: 99999999\n\n");
        out.chunk(format!("id: LEAK\nevent: LEAK\nretry: 1\ndata: {}\n\n", progress(rpc, 1)));
        out.chunk("id: nul\0LEAK\ndata\n\n");
        out.chunk("nocolon\n\n");
        out.chunk(format!("{}: LEAK\n\n", "f".repeat(100_000)));
        out.chunk(format!("id: LEAK\ndata:{}\n\n", rpc.result(FINE)));
        out.end();
    });
    must_be_clean("fields", &streamed(&bench));
}

#[test]
fn s3_any_split_gives_the_same_messages() {
    for end in ["\n", "\r\n", "\r"] {
        let bench = bench(move |rpc, out| {
            let all = format!(
                ": hi{end}{end}event: message{end}data: {}{end}{end}data: {}{end}{end}",
                progress(rpc, 1),
                rpc.result(FINE)
            );
            out.stream(&[]);
            for byte in all.as_bytes() {
                out.chunk([*byte]);
            }
            out.end();
        });
        let answer = streamed(&bench);
        must_be_clean(&format!("{end:?} byte by byte"), &answer);
        assert_eq!(answer.notifications().len(), 1, "{end:?}: {}", answer.text());
    }
}

#[test]
fn s3_progress_is_passed_on_as_it_comes() {
    let bench = bench(|rpc, out| {
        out.stream(&[]);
        out.event(&progress(rpc, 1));
        std::thread::sleep(Duration::from_millis(1500));
        out.event(&rpc.result(FINE));
        out.end();
    });
    let start = Instant::now();
    let client = bench.client().meta("progressToken", "\"mine\"");
    let mut stream =
        client.request("tools/call", r#"{"name":"echo","arguments":{}}"#).open(bench.gateway.addr);
    let first = stream.message(wait::LONG).expect("progress");
    assert_eq!(first["params"]["progressToken"], "mine", "{first}");
    assert!(
        start.elapsed() < Duration::from_millis(1400),
        "progress came with the answer: {:?}",
        start.elapsed()
    );
    assert!(stream.message(wait::LONG).expect("the answer").get("result").is_some());
    assert!(stream.message(wait::LONG).is_none(), "the stream ends with the answer");
}

#[test]
fn s4_events_over_the_limit_and_endless_lines_are_cut() {
    for (what, prefix, filler) in [
        ("a large event", "data: {\"x\":\"", "x"),
        ("an endless line", "y", "y"),
        ("an endless comment", ": ", "z"),
        ("many data lines", "data: 1\n", "data: 2\n"),
        ("an endless field name", "fff", "f"),
    ] {
        let bench = bench(move |_, out| {
            out.stream(&[]);
            out.chunk(prefix);
            let block = filler.repeat(16 * 1024);
            for _ in 0..2000 {
                if out.gone() {
                    return;
                }
                out.chunk(&block);
            }
            out.close();
        });
        let answer = streamed(&bench);
        assert!([Some(7004), Some(7002)].contains(&answer.code()), "{what}: {:.300}", answer.text());
        assert!(bench.gateway.rss_kib() < 300 * 1024, "{what}: {} KiB", bench.gateway.rss_kib());
        bench.gateway.assert_alive();
    }
}

#[test]
fn s5_a_slow_reader_holds_a_bounded_buffer() {
    let bench = bench(|rpc, out| {
        out.stream(&[]);
        for n in 0..40_000u32 {
            let long = progress(rpc, n).replace("}}", &format!(",\"message\":\"{}\"}}}}", "m".repeat(1000)));
            out.event(&long);
            if out.gone() {
                return;
            }
        }
        out.event(&rpc.result(FINE));
        out.end();
    });
    let before = bench.gateway.rss_kib();
    let client = bench.client().meta("progressToken", "1");
    let request = client.request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let mut socket = TcpStream::connect(bench.gateway.addr).expect("connect");
    let clone = socket.try_clone().expect("clone");
    Conn::over(Box::new(clone), socket.try_clone().expect("clone"))
        .write(&request.wire(&bench.gateway.addr.to_string()));
    let mut some = [0u8; 1000];
    socket.set_read_timeout(Some(wait::LONG)).expect("timeout");
    socket.read_exact(&mut some).expect("the beginning");
    std::thread::sleep(Duration::from_secs(2));
    assert!(bench.gateway.rss_kib() < before + 32 * 1024, "{} -> {} KiB", before, bench.gateway.rss_kib());
    let start = Instant::now();
    let other = bench.client().send("tools/list", "{}");
    assert_eq!(other.status, 200);
    assert!(start.elapsed() < Duration::from_secs(3), "others wait for the slow reader");
    bench.gateway.assert_alive();
}
