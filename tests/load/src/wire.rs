//! A keep-alive HTTP/1.1 connection with as little work per answer as correct framing allows.

use std::net::SocketAddr;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Error;
use crate::mcp::start_of;

/// Answers larger than this are refused.
const BODY_LIMIT: usize = 64 << 20;

/// One connection; the body of the last answer stays in it until the next request.
pub(crate) struct Wire {
    stream: TcpStream,
    input: BytesMut,
    body: Vec<u8>,
}

/// What an answer's head says.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) sse: bool,
    pub(crate) session: Option<String>,
    /// The server closes after this answer.
    pub(crate) close: bool,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: BytesMut::with_capacity(4096), body: Vec::new() })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Head, Error> {
        let head = self.open(request).await?;
        self.read_body(head.framing).await?;
        if !self.input.is_empty() {
            return Err(format!("bytes after the answer's end: {}", start_of(&self.input)).into());
        }
        Ok(head)
    }

    /// Sends a request and reads the head of the answer only.
    pub(crate) async fn open(&mut self, request: &[u8]) -> Result<Head, Error> {
        self.stream.write_all(request).await?;
        loop {
            if let Some((head, length)) = parse_head(&self.input)? {
                self.input.advance(length);
                return Ok(head);
            }
            self.fill(4096).await?;
        }
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the peer has closed the connection.
    pub(crate) fn closed(&self) -> bool {
        let mut bytes = [0; 256];
        match self.stream.try_read(&mut bytes) {
            Ok(length) => length == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    async fn fill(&mut self, at_least: usize) -> Result<(), Error> {
        self.input.reserve(at_least.max(4096));
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err("the connection was closed inside an answer".into()),
            _ => Ok(()),
        }
    }

    async fn read_body(&mut self, framing: Framing) -> Result<(), Error> {
        self.body.clear();
        match framing {
            Framing::Length(length) => self.take(length).await,
            Framing::Chunked => self.read_chunks().await,
            Framing::UntilClose => {
                self.body.extend_from_slice(&self.input);
                self.input.clear();
                self.stream.read_to_end(&mut self.body).await?;
                Ok(())
            }
        }
    }

    /// Moves exactly `length` bytes into the body.
    async fn take(&mut self, length: usize) -> Result<(), Error> {
        if self.body.len() + length > BODY_LIMIT {
            return Err("an answer over 64 MiB".into());
        }
        let mut left = length;
        loop {
            let ready = left.min(self.input.len());
            self.body.extend_from_slice(self.input.get(..ready).unwrap_or_default());
            self.input.advance(ready);
            left -= ready;
            if left == 0 {
                return Ok(());
            }
            self.fill(left.min(128 << 10)).await?;
        }
    }

    async fn read_chunks(&mut self) -> Result<(), Error> {
        loop {
            let line = self.line().await?;
            let digits = line.as_ref().split(|byte: &u8| *byte == b';').next().unwrap_or_default();
            let size = std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
            let size = size.ok_or("a chunk without a size")?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(());
            }
            self.take(size).await?;
            if !self.line().await?.is_empty() {
                return Err("a chunk longer than its size".into());
            }
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<BytesMut, Error> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.input) {
                let mut line = self.input.split_to(end + 1);
                if !line.ends_with(b"\r\n") {
                    return Err("a line that ends without CR".into());
                }
                line.truncate(end - 1);
                return Ok(line);
            }
            self.fill(4096).await?;
        }
    }
}

/// The head at the start of the input and its length, or `None` while it isn't complete.
fn parse_head(input: &[u8]) -> Result<Option<(Head, usize)>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(input)? else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    let mut framing = if status == 204 { Framing::Length(0) } else { Framing::UntilClose };
    let (mut sse, mut session, mut close) = (false, None, response.version == Some(0));
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(std::str::from_utf8(header.value)?.parse()?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        } else if header.name.eq_ignore_ascii_case("content-type") {
            sse = header.value.starts_with(b"text/event-stream");
        } else if header.name.eq_ignore_ascii_case("mcp-session-id") {
            session = Some(String::from_utf8(header.value.to_vec())?);
        } else if header.name.eq_ignore_ascii_case("connection") {
            close |= header.value.eq_ignore_ascii_case(b"close");
        }
    }
    close |= matches!(framing, Framing::UntilClose);
    Ok(Some((Head { status, sse, session, close, framing }, length)))
}
