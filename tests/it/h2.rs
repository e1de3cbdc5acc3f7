//! Case H15: HTTP/2 misuse over h2c, written frame by frame. The attacker loses its connection or its streams;
//! everybody else is served on.

use std::time::{Duration, Instant};

use tollgate_tests::http::Conn;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::support::Bench;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        let length = text.len();
        if length < 127 {
            out.push(u8::try_from(length).expect("short"));
        } else {
            out.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                out.push(u8::try_from(rest % 128 + 128).expect("a byte"));
                rest /= 128;
            }
            out.push(u8::try_from(rest).expect("a byte"));
        }
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// The header block of a good request.
fn block(bench: &Bench) -> Vec<u8> {
    let good = bench.good();
    let mut out = [
        literal(":method", "POST"),
        literal(":scheme", "http"),
        literal(":authority", &bench.gateway.addr.to_string()),
        literal(":path", &good.path),
    ]
    .concat();
    for (name, value) in &good.headers {
        out.extend(literal(&name.to_ascii_lowercase(), value));
    }
    out.extend(literal("content-length", &good.body.len().to_string()));
    out
}

fn bench() -> Bench {
    Bench::of(Scripted::json(Peer::modern("up")), "h2c: true\n", "")
}

fn connect(bench: &Bench) -> Conn {
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    conn
}

/// Frames received so far as (type, stream, payload).
fn frames(
    conn: &mut Conn,
    limit: Duration,
    enough: impl Fn(&[(u8, u32, Vec<u8>)]) -> bool,
) -> Vec<(u8, u32, Vec<u8>)> {
    let end = Instant::now() + limit;
    loop {
        let mut bytes = conn.unread();
        let mut out = Vec::new();
        while bytes.len() >= 9 {
            let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
            if bytes.len() < 9 + length {
                break;
            }
            let stream = u32::from_be_bytes([bytes[5] & 0x7f, bytes[6], bytes[7], bytes[8]]);
            out.push((bytes[3], stream, bytes[9..9 + length].to_vec()));
            bytes = &bytes[9 + length..];
        }
        if enough(&out) || !matches!(conn.fill(end), Ok(n) if n > 0) {
            return out;
        }
    }
}

fn others_are_served(bench: &Bench) {
    let start = Instant::now();
    bench.still_works();
    assert!(start.elapsed() < Duration::from_secs(8), "others wait: {:?}", start.elapsed());
    bench.gateway.assert_alive();
}

#[test]
fn h2c_serves_a_good_request() {
    let bench = bench();
    let mut conn = connect(&bench);
    conn.write(&frame(HEADERS, END_HEADERS, 1, &block(&bench)));
    conn.write(&frame(DATA, END_STREAM, 1, &bench.good().body));
    let seen =
        frames(&mut conn, Duration::from_secs(10), |f| f.iter().any(|(k, s, _)| *k == DATA && *s == 1));
    let data: Vec<u8> =
        seen.into_iter().filter(|(k, s, _)| *k == DATA && *s == 1).flat_map(|(_, _, p)| p).collect();
    let text = String::from_utf8_lossy(&data).into_owned();
    assert!(text.contains("\"result\""), "{text}");
}

#[test]
fn h2c_is_off_unless_asked_for() {
    let bench = Bench::modern();
    let mut conn = connect(&bench);
    conn.write(&frame(HEADERS, END_HEADERS, 1, &block(&bench)));
    conn.write(&frame(DATA, END_STREAM, 1, &bench.good().body));
    assert!(conn.closes(Duration::from_secs(15)), "HTTP/2 without TLS is answered");
    assert_eq!(bench.up.calls(), 0);
    others_are_served(&bench);
}

#[test]
fn h15_rapid_reset_costs_the_attacker_its_connection_or_is_bounded() {
    let bench = bench();
    let mut conn = connect(&bench);
    let block = block(&bench);
    for n in 0..4000u32 {
        let stream = 2 * n + 1;
        let burst = [frame(HEADERS, END_HEADERS, stream, &block), frame(RST, 0, stream, &8u32.to_be_bytes())]
            .concat();
        if !conn.write(&burst) {
            break;
        }
    }
    others_are_served(&bench);
    assert_eq!(bench.up.seen_of("tools/call").len(), 1, "resets reached the server");
    assert!(bench.gateway.rss_kib() < 400 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
}

#[test]
fn h15_continuation_flood_is_cut() {
    let bench = bench();
    let mut conn = connect(&bench);
    conn.write(&frame(HEADERS, 0, 1, &block(&bench)));
    let junk = literal("x-junk", &"j".repeat(8000));
    let mut sent = 0;
    while sent < 4000 && conn.write(&frame(CONTINUATION, 0, 1, &junk)) {
        sent += 1;
    }
    assert!(conn.closes(Duration::from_secs(10)) || sent < 4000, "32 MiB of continuations are swallowed");
    assert!(bench.gateway.rss_kib() < 300 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
    others_are_served(&bench);
}

#[test]
fn h15_hpack_bomb_is_bounded() {
    let bench = bench();
    let mut conn = connect(&bench);
    // One 4,000 byte field put into the dynamic table, then named 16,000 times by one byte each: 64 MiB.
    let mut field = literal("x-bomb", &"b".repeat(3900));
    field[0] = 0x40;
    let mut block = block(&bench);
    block.extend(field);
    block.extend(std::iter::repeat_n(0xbe, 15_000));
    conn.write(&frame(HEADERS, END_HEADERS, 1, &block[..16_000.min(block.len())]));
    let seen = frames(&mut conn, Duration::from_secs(5), |f| {
        f.iter().any(|(k, _, _)| matches!(*k, HEADERS | RST | GOAWAY))
    });
    assert!(!seen.iter().any(|(k, _, _)| *k == DATA), "accepted");
    assert_eq!(bench.up.calls(), 0);
    assert!(bench.gateway.rss_kib() < 300 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
    others_are_served(&bench);
}

#[test]
fn h15_a_closed_window_holds_no_server_answer_for_ever() {
    let bench = Bench::of(Scripted::json(Peer::modern("up")), "h2c: true\n", "");
    let mut conn = Conn::open(bench.gateway.addr);
    // SETTINGS_INITIAL_WINDOW_SIZE = 0: no answer body may be sent.
    let window = [0, 4, 0, 0, 0, 0];
    conn.write(&[PREFACE, &frame(SETTINGS, 0, 0, &window)].concat());
    for n in 0..100u32 {
        conn.write(&frame(HEADERS, END_HEADERS, 2 * n + 1, &block(&bench)));
        conn.write(&frame(DATA, END_STREAM, 2 * n + 1, &bench.good().body));
    }
    others_are_served(&bench);
    assert!(bench.gateway.rss_kib() < 300 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
}

#[test]
fn h15_made_you_reset_and_floods_of_control_frames_are_bounded() {
    let bench = bench();
    let mut conn = connect(&bench);
    let block = block(&bench);
    for n in 0..3000u32 {
        let stream = 2 * n + 1;
        let burst = [
            frame(HEADERS, END_HEADERS, stream, &block),
            // A zero window increment is a stream error: the server resets, not the client.
            frame(WINDOW, 0, stream, &0u32.to_be_bytes()),
            frame(PING, 0, 0, &[0; 8]),
            frame(SETTINGS, 0, 0, &[]),
        ]
        .concat();
        if !conn.write(&burst) {
            break;
        }
    }
    others_are_served(&bench);
    assert!(bench.gateway.rss_kib() < 400 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
}
