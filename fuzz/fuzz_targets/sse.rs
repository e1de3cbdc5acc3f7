//! SSE decoding: the same events however the bytes are split, bounded, and what our encoder writes reads back as
//! the one event that it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp::sse::{self, Decoder};

const CAP: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let whole = events(&mut [data].into_iter());
    let step = usize::from(data.first().copied().unwrap_or(1) % 7) + 1;
    let pieces = events(&mut data.chunks(step));
    assert_eq!(whole, pieces);
    let line: Vec<u8> = data.iter().copied().filter(|b| *b != b'\r' && *b != b'\n').take(CAP / 2).collect();
    if std::str::from_utf8(&line).is_ok() && !line.is_empty() {
        let encoded = sse::encode(Some("message"), None, &line);
        let (read, fault) = events(&mut [encoded.as_ref()].into_iter());
        assert!(!fault && read.len() == 1 && read[0] == line, "one event in, one event out");
    }
});

fn events(chunks: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = Decoder::new(CAP);
    let mut events = Vec::new();
    for chunk in chunks {
        let fault = decoder.push(chunk).is_err();
        events.extend(decoder.by_ref().map(|event| event.data.to_vec()));
        if fault {
            return (events, true);
        }
    }
    (events, false)
}
