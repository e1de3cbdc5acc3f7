//! Reads requests off a socket. Strict: a request framed in two ways is noted, never guessed at.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::out::Out;
use super::{Handler, Seen, Shared};

pub(super) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

pub(super) fn serve(
    tcp: TcpStream,
    number: usize,
    tls: Option<Arc<rustls::ServerConfig>>,
    shared: &Shared,
    handler: &Arc<Handler>,
) {
    let _ = tcp.set_nodelay(true);
    let _ = tcp.set_read_timeout(Some(Duration::from_secs(120)));
    let _ = tcp.set_write_timeout(Some(Duration::from_secs(60)));
    let Ok(clone) = tcp.try_clone() else { return };
    let mut wire: Box<dyn Wire> = match tls {
        Some(config) => match rustls::ServerConnection::new(config) {
            Ok(connection) => Box::new(rustls::StreamOwned::new(connection, clone)),
            Err(_) => return,
        },
        None => Box::new(clone),
    };
    let mut buffer = Vec::new();
    while let Some(seen) = request(&mut wire, &mut buffer, number) {
        shared.seen.lock().push(seen.clone());
        let mut out = Out::new(&mut *wire, &tcp, shared);
        handler(&seen, &mut out);
        if !out.keeps_alive() {
            let _ = tcp.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn more(wire: &mut Box<dyn Wire>, buffer: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0u8; 16 * 1024];
    match wire.read(&mut chunk) {
        Ok(n) if n > 0 => {
            buffer.extend_from_slice(&chunk[..n]);
            Some(())
        }
        _ => None,
    }
}

fn request(wire: &mut Box<dyn Wire>, buffer: &mut Vec<u8>, connection: usize) -> Option<Seen> {
    let at = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        more(wire, buffer)?;
    };
    let head: Vec<u8> = buffer.drain(..at + 4).collect();
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.split("\r\n").filter(|l| !l.is_empty());
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (first.next()?, first.next()?);
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(':')).map(|(n, v)| (n.into(), v.trim().into())).collect();
    let get =
        |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
    let body = match (get("content-length"), get("transfer-encoding")) {
        (Some(length), None) => {
            let length: usize = length.parse().ok()?;
            while buffer.len() < length {
                more(wire, buffer)?;
            }
            buffer.drain(..length).collect()
        }
        (None, Some(_)) => chunked(wire, buffer)?,
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => b"framed twice".to_vec(),
    };
    Some(Seen { method, path, headers, body: String::from_utf8_lossy(&body).into_owned(), connection })
}

fn chunked(wire: &mut Box<dyn Wire>, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let at = loop {
            if let Some(at) = buffer.windows(2).position(|w| w == b"\r\n") {
                break at;
            }
            more(wire, buffer)?;
        };
        let size = usize::from_str_radix(String::from_utf8_lossy(&buffer[..at]).trim(), 16).ok()?;
        while buffer.len() < at + 2 + size + 2 {
            more(wire, buffer)?;
        }
        let chunk: Vec<u8> = buffer.drain(..at + 2 + size + 2).collect();
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[at + 2..at + 2 + size]);
    }
}
