//! Servers behind TLS: whose certificate is taken, and whose is not.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use super::*;
use crate::ports::upstream::FaultKind;

/// A TLS server that answers every request as a modern one; its certificate, and where it is written.
fn secure(folder: &tempfile::TempDir) -> (SocketAddr, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, stream) = (Arc::clone(&config), stream.unwrap());
            std::thread::spawn(move || answer(rustls::ServerConnection::new(config).unwrap(), stream));
        }
    });
    (address, file)
}

fn answer(connection: rustls::ServerConnection, stream: std::net::TcpStream) {
    let mut stream = rustls::StreamOwned::new(connection, stream);
    let mut buffer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        buffer.extend_from_slice(&part[..n]);
        let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let Ok(body) = serde_json::from_slice::<Value>(&buffer[end + 4..]) else { continue };
        buffer.clear();
        let result = if body["method"] == "server/discover" { discovered() } else { json!({"secure": true}) };
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
        for step in reply(200, &answer) {
            if let Do::Send(bytes) = step {
                stream.write_all(&bytes).unwrap();
            }
        }
    }
}

fn with_ca(address: SocketAddr, ca: Option<PathBuf>) -> Server {
    let mut spec = spec(&format!("https://localhost:{}/mcp", address.port()));
    if let Transport::Http(http) = &mut spec.transport {
        http.ca = ca;
    }
    spec
}

#[tokio::test]
async fn a_configured_authority_is_trusted_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (address, ca) = secure(&folder);
    let answer = run(&client_of(with_ca(address, Some(ca))), tool_call()).await.unwrap();
    assert_eq!(text(&answer), r#"{"secure":true}"#);
    let fault = run(&client_of(with_ca(address, None)), tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false), "{fault}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (address, ca) = secure(&folder);
    let mut spec = with_ca(address, Some(ca));
    if let Transport::Http(http) = &mut spec.transport {
        http.url = format!("https://{address}/mcp").parse().unwrap();
    }
    let fault = run(&client_of(spec), tool_call()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable, "{fault}");
}
