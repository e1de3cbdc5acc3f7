//! Tests of SSE framing by case id (security cases S1–S4).

use super::*;

fn decode_in(chunks: &[&[u8]], max: usize) -> (Vec<SseEvent>, Decoder) {
    let mut decoder = Decoder::new(max);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(chunk).unwrap();
        events.extend(decoder.by_ref());
    }
    (events, decoder)
}

fn decode(text: &str) -> Vec<SseEvent> {
    decode_in(&[text.as_bytes()], 1 << 20).0
}

fn data(text: &str) -> Vec<String> {
    decode(text).into_iter().map(|event| String::from_utf8(event.data.to_vec()).unwrap()).collect()
}

const STREAM: &str = concat!(
    "\u{feff}: hello\n",
    "event: message\r\nid: 1\r\ndata: {\"a\":\"é世\u{2028}界\"}\r\n\r\n",
    "data:x\rdata\rdata: y\r\r",
    "id: 2\nretry: 250\n\n",
    ":\n\ndata:  two spaces\nunknown: 1\nnocolon\n\n",
    "event: end\ndata: \n\n\n\n",
    "data: cut off by the end",
);

#[test]
fn s2_fields_as_the_standard_says() {
    let (events, decoder) = decode_in(&[STREAM.as_bytes()], 1 << 20);
    let shown: Vec<_> = events
        .iter()
        .map(|event| (event.event.as_deref(), event.id.as_deref(), std::str::from_utf8(&event.data).unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            (Some("message"), Some("1"), "{\"a\":\"é世\u{2028}界\"}"),
            (None, None, "x\n\ny"),
            (None, None, " two spaces"),
            (Some("end"), None, ""),
        ]
    );
    assert_eq!((decoder.comments(), decoder.last_event_id(), decoder.retry()), (2, Some("2"), Some(250)));
}

#[test]
fn s3_cut_at_every_byte_boundary_nothing_changes() {
    let bytes = STREAM.as_bytes();
    let (whole, _) = decode_in(&[bytes], 1 << 20);
    for cut in 0..=bytes.len() {
        let (first, rest) = bytes.split_at(cut);
        let (events, decoder) = decode_in(&[first, rest], 1 << 20);
        assert_eq!(events, whole, "cut at {cut}");
        assert_eq!(
            (decoder.comments(), decoder.last_event_id(), decoder.retry()),
            (2, Some("2"), Some(250)),
            "cut at {cut}"
        );
        for second in cut..=bytes.len().min(cut + 12) {
            let (middle, last) = bytes[cut..].split_at(second - cut);
            assert_eq!(decode_in(&[first, middle, last], 1 << 20).0, whole, "cut at {cut} and {second}");
        }
    }
    for size in 1..8 {
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(decode_in(&chunks, 1 << 20).0, whole, "chunks of {size}");
    }
}

#[test]
fn s3_line_ends() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\n\r\ndata: b\r\n\r",
    ] {
        assert_eq!(data(stream), ["a", "b"], "{stream:?}");
    }
    // A CR that ends a chunk finishes its line at once; the LF after it is no second line.
    let mut decoder = Decoder::new(100);
    decoder.push(b"data: a\r\n\r").unwrap();
    assert_eq!(decoder.next().unwrap().data, "a");
    decoder.push(b"\ndata: b\n\n").unwrap();
    assert_eq!(decoder.next().unwrap().data, "b");
    assert_eq!(decoder.next(), None);
    // One byte order mark, at the very start alone.
    assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\n"), ["a"]);
    assert_eq!(data("\u{feff}\u{feff}data: a\n\n"), [""; 0]);
}

#[test]
fn s2_odd_fields_are_ignored() {
    let (events, decoder) = decode_in(&["id: a\u{0}b\nretry: 12x\nretry: -1\nretry:\nretry: 99999999999999999999\nDATA: x\n data: y\ndata: z\n\n".as_bytes()], 4096);
    assert_eq!(events, [SseEvent { event: None, id: None, retry: None, data: Bytes::from_static(b"z") }]);
    assert_eq!((decoder.last_event_id(), decoder.retry()), (None, None));
    let (events, decoder) = decode_in(&[b"id: 7\nevent:\ndata: x\n\nid\ndata: y\n\n"], 4096);
    assert_eq!(events[0].id.as_deref(), Some("7"));
    assert_eq!(
        (events[0].event.as_deref(), events[1].id.as_deref(), decoder.last_event_id()),
        (None, Some(""), None)
    );
}

#[test]
fn s4_events_and_lines_are_bounded() {
    let mut decoder = Decoder::new(1000);
    decoder.push(b"data: ok\n\ndata: ").unwrap();
    let mut pushed = 0;
    while decoder.push(&[b'x'; 100]).is_ok() {
        pushed += 100;
        assert!(pushed <= 1000);
    }
    assert_eq!(decoder.push(b"\n\n"), Err(SseError::TooLarge), "nothing more is taken");
    assert_eq!(decoder.next().unwrap().data, "ok");
    assert_eq!(decoder.next(), None);
    // Many lines, a huge field name, an endless comment, an event name.
    let fails = |line: &str, times: usize| {
        let mut decoder = Decoder::new(1000);
        (0..times).any(|_| decoder.push(line.as_bytes()).is_err())
    };
    assert!(fails("data: 0123456789\n", 100));
    assert!(fails("data\n", 1001));
    assert!(fails("xxxxxxxxxxxxxxxxxxxx", 51));
    assert!(fails(":xxxxxxxxxxxxxxxxxxx", 51));
    assert!(fails(&format!("event: {}\n", "x".repeat(1000)), 1));
    assert!(fails(&format!("{}: 1\n", "n".repeat(1 << 20)), 1));
    // What is not kept does not add up.
    assert!(!fails("data: 0123456789\n\n", 10_000));
    assert!(!fails(": keep-alive\n", 10_000));
    assert!(!fails("event: x\nother: y\n", 10_000));
}

#[test]
fn s1_the_encoder_cannot_break_its_framing() {
    let text = encode(Some("me\r\nss\u{0}age"), Some("1\n2"), b"a\r\nb\rc\nd\n");
    assert_eq!(text, "event: message\nid: 12\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    assert_eq!(encode(None, None, b"{}"), "data: {}\n\n");
    assert_eq!(encode(None, Some("7"), b""), "id: 7\ndata: \n\n");
    let nasty = "{\"a\":\"\u{2028}\u{85}\\n\"}";
    let (events, _) = decode_in(&[&encode(Some("e"), Some("i"), nasty.as_bytes()), &comment()], 4096);
    assert_eq!(
        events,
        [SseEvent {
            event: Some("e".into()),
            id: Some("i".into()),
            retry: None,
            data: Bytes::from(nasty.to_owned())
        }]
    );
}

#[test]
fn s1_json_over_several_data_lines_becomes_one_line() {
    use crate::json::{Limits, Raw};
    let events = decode("data: {\"a\":\ndata: [1,\rdata:2]}\r\n\r\n");
    let raw = Raw::parse(events[0].data.clone(), &Limits::ANSWER).unwrap();
    assert_eq!(encode(None, None, raw.single_line().bytes()), "data: {\"a\":[1,2]}\n\n");
    // A raw line break inside a string is no JSON, however it was cut into data lines.
    let events = decode("data: {\"a\":\"x\ndata: y\"}\n\n");
    assert!(Raw::parse(events[0].data.clone(), &Limits::ANSWER).is_err());
}
