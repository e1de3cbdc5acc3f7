//! A plain reading of the event-stream format, independent of the gateway's. Never joins events.

/// One event, or one comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field.
    pub event: Option<String>,
    /// The `id` field.
    pub id: Option<String>,
    /// The `retry` field.
    pub retry: Option<String>,
    /// The `data` lines joined by line feeds.
    pub data: Option<String>,
    /// Comment lines seen before the event was over.
    pub comments: usize,
    /// The block as it was on the wire.
    pub raw: String,
}

/// Cuts a growing buffer into events.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Takes more bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete block, if any.
    pub fn next_event(&mut self) -> Option<Event> {
        let (end, after) = block_end(&self.buffer)?;
        let block: Vec<u8> = self.buffer.drain(..after).take(end).collect();
        let text = String::from_utf8(block).expect("the gateway's event stream is UTF-8");
        Some(parse(&text))
    }

    /// What is left without a blank line after it.
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

fn block_end(buffer: &[u8]) -> Option<(usize, usize)> {
    let lf = buffer.windows(2).position(|w| w == b"\n\n").map(|at| (at + 1, at + 2));
    let crlf = buffer.windows(4).position(|w| w == b"\r\n\r\n").map(|at| (at + 2, at + 4));
    match (lf, crlf) {
        (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
        (a, b) => a.or(b),
    }
}

fn parse(block: &str) -> Event {
    let mut event = Event { raw: block.to_owned(), ..Event::default() };
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" if line.starts_with(':') => event.comments += 1,
            "event" => event.event = Some(value),
            "id" => event.id = Some(value),
            "retry" => event.retry = Some(value),
            "data" => {
                event.data = Some(match event.data.take() {
                    Some(before) => format!("{before}\n{value}"),
                    None => value,
                });
            }
            _ => {}
        }
    }
    event
}

/// All events of a whole body.
pub fn events(body: &[u8]) -> Vec<Event> {
    let mut decoder = Decoder::default();
    decoder.push(body);
    std::iter::from_fn(|| decoder.next_event()).collect()
}

/// One event frame as servers write it.
pub fn frame(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}
