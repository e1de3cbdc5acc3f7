//! A connection to the gateway. Reads what is there and never more than it is asked for.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Answer, Headers, Request, Stream};
use crate::wait::LONG;

/// Any byte stream under HTTP.
pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// A connection to the gateway.
pub struct Conn {
    wire: Box<dyn Wire>,
    pub(super) tcp: TcpStream,
    buffer: Vec<u8>,
}

impl Conn {
    /// Connects.
    pub fn open(addr: SocketAddr) -> Conn {
        Conn::try_open(addr).unwrap_or_else(|e| panic!("connect {addr}: {e}"))
    }

    /// Connects, unless nobody is there.
    pub fn try_open(addr: SocketAddr) -> Result<Conn, String> {
        let tcp = TcpStream::connect_timeout(&addr, LONG).map_err(|e| e.to_string())?;
        tcp.set_nodelay(true).expect("nodelay");
        let wire = Box::new(tcp.try_clone().expect("clone socket"));
        Ok(Conn { wire, tcp, buffer: Vec::new() })
    }

    /// Over something that speaks over `tcp` (TLS).
    pub fn over(wire: Box<dyn Wire>, tcp: TcpStream) -> Conn {
        Conn { wire, tcp, buffer: Vec::new() }
    }

    /// Writes; a connection that the other side has closed already is no error here.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.tcp.set_write_timeout(Some(LONG)).expect("timeout");
        self.wire.write_all(bytes).and_then(|()| self.wire.flush()).is_ok()
    }

    /// Closes the sending half.
    pub fn half_close(&self) {
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Reads what comes before the deadline; 0 = the other side closed.
    pub fn fill(&mut self, end: Instant) -> Result<usize, String> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("deadline".into());
        }
        self.tcp.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
        let mut chunk = [0u8; 16 * 1024];
        match self.wire.read(&mut chunk) {
            Ok(n) => {
                self.buffer.extend_from_slice(&chunk[..n]);
                Ok(n)
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => self.fill(end),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err("deadline".into())
            }
            Err(_) => Ok(0),
        }
    }

    /// Whether the other side closes within `limit`; what it sends before is kept.
    pub fn closes(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            match self.fill(end) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// All bytes received and not yet taken.
    pub fn unread(&self) -> &[u8] {
        &self.buffer
    }

    /// Sends a request on this connection and reads its whole answer; the connection stays usable.
    pub fn exchange(&mut self, request: &Request) -> Answer {
        let host = self.tcp.peer_addr().map(|a| a.to_string()).unwrap_or_default();
        self.write(&request.wire(&host));
        self.answer_to(&request.method)
    }

    /// Reads one whole answer.
    pub fn answer(&mut self) -> Answer {
        self.answer_to("POST")
    }

    /// As `exchange`, or why there is no whole answer.
    pub fn try_exchange(&mut self, request: &Request) -> Result<Answer, String> {
        let host = self.tcp.peer_addr().map(|a| a.to_string()).unwrap_or_default();
        self.write(&request.wire(&host));
        self.try_answer_to(&request.method)
    }

    fn answer_to(&mut self, method: &str) -> Answer {
        self.try_answer_to(method).unwrap_or_else(|e| panic!("no answer: {e}"))
    }

    fn try_answer_to(&mut self, method: &str) -> Result<Answer, String> {
        let (status, headers, framing) = self.read_head(method, LONG)?;
        let mut body = Body { framing, ended: false };
        let mut bytes = Vec::new();
        let end = Instant::now() + LONG;
        while let Some(chunk) = body.chunk(self, end).map_err(|e| format!("body of {status}: {e}"))? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body: bytes })
    }

    /// Reads one answer or says why there is none.
    pub fn try_answer(mut self, limit: Duration) -> Result<Answer, String> {
        let head = self.read_head("POST", limit)?;
        Ok(Stream::new(self, head.0, head.1, Body { framing: head.2, ended: false }).finish())
    }

    /// Reads an answer's head and hands over its body as a stream.
    pub fn stream_after(mut self, method: &str, limit: Duration) -> Result<Stream, String> {
        let (status, headers, framing) = self.read_head(method, limit)?;
        Ok(Stream::new(self, status, headers, Body { framing, ended: false }))
    }

    fn read_head(&mut self, method: &str, limit: Duration) -> Result<(u16, Headers, Framing), String> {
        let end = Instant::now() + limit;
        loop {
            let at = loop {
                if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                    break at;
                }
                if self.fill(end)? == 0 {
                    let text = String::from_utf8_lossy(&self.buffer).into_owned();
                    return Err(format!("closed before an answer: {text:?}"));
                }
            };
            let head: Vec<u8> = self.buffer.drain(..at + 4).collect();
            let (status, headers) = parse_head(&head);
            if status >= 200 {
                let framing = Framing::of(method, status, &headers);
                return Ok((status, headers, framing));
            }
        }
    }
}

fn parse_head(head: &[u8]) -> (u16, Headers) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("HTTP/1.1 "), "odd status line {first:?}");
    let status = first[9..12].parse().expect("a status number");
    let headers = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
        .collect();
    (status, headers)
}

enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Framing {
    fn of(method: &str, status: u16, headers: &Headers) -> Framing {
        let get = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        if method == "HEAD" || status == 204 || status == 304 {
            return Framing::Length(0);
        }
        match (get("transfer-encoding"), get("content-length")) {
            (Some(te), None) if te.eq_ignore_ascii_case("chunked") => Framing::Chunked,
            (None, Some(length)) => Framing::Length(length.parse().expect("a content length")),
            (None, None) => Framing::Close,
            (te, length) => panic!("ambiguous framing: {te:?} {length:?}"),
        }
    }
}

pub(super) struct Body {
    framing: Framing,
    ended: bool,
}

impl Body {
    pub(super) fn chunk(&mut self, conn: &mut Conn, end: Instant) -> Result<Option<Vec<u8>>, String> {
        if self.ended {
            return Ok(None);
        }
        match &mut self.framing {
            Framing::Length(0) => {
                self.ended = true;
                Ok(None)
            }
            Framing::Length(left) => {
                if conn.buffer.is_empty() && conn.fill(end)? == 0 {
                    return Err("closed inside a body with a length".into());
                }
                let n = conn.buffer.len().min(*left);
                *left -= n;
                Ok(Some(conn.buffer.drain(..n).collect()))
            }
            Framing::Chunked => {
                let chunk = read_chunk(conn, end)?;
                self.ended = chunk.is_empty();
                Ok((!chunk.is_empty()).then_some(chunk))
            }
            Framing::Close => {
                if conn.buffer.is_empty() && conn.fill(end)? == 0 {
                    self.ended = true;
                    return Ok(None);
                }
                Ok(Some(std::mem::take(&mut conn.buffer)))
            }
        }
    }
}

fn read_chunk(conn: &mut Conn, end: Instant) -> Result<Vec<u8>, String> {
    let line_end = loop {
        if let Some(at) = conn.buffer.windows(2).position(|w| w == b"\r\n") {
            break at;
        }
        if conn.fill(end)? == 0 {
            return Err("closed inside a chunked body".into());
        }
    };
    let size = String::from_utf8_lossy(&conn.buffer[..line_end]).into_owned();
    let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
        .map_err(|e| format!("chunk size {size:?}: {e}"))?;
    while conn.buffer.len() < line_end + 2 + size + 2 {
        if conn.fill(end)? == 0 {
            return Err("closed inside a chunk".into());
        }
    }
    let all: Vec<u8> = conn.buffer.drain(..line_end + 2 + size + 2).collect();
    Ok(all[line_end + 2..line_end + 2 + size].to_vec())
}
