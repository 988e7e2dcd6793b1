//! A proxy on loopback that ends TLS as `models.example` and speaks HTTP/2 there, with one short answer for all.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

/// The certificate of the authority that signed the server's.
pub const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/ca.pem");

const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Over TLS.\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The traffic that the proxy saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The targets of `CONNECT`.
    pub tunnels: Vec<String>,
    /// Method, path and `authorization` of each request behind TLS.
    pub requests: Vec<(String, String, Option<String>)>,
}

pub struct TlsProxy {
    pub url: String,
    seen: watch::Receiver<Seen>,
}

impl TlsProxy {
    pub async fn start() -> TlsProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, seen) = watch::channel(Seen::default());
        let sender = Arc::new(sender);
        let acceptor = TlsAcceptor::from(Arc::new(server_config()));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(tunnel(socket, acceptor.clone(), sender.clone()));
            }
        });
        TlsProxy { url, seen }
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until the proxy has seen this many requests.
    pub async fn requests(&self, n: usize) -> Seen {
        let mut seen = self.seen.clone();
        let waited = seen.wait_for(|seen| seen.requests.len() >= n);
        tokio::time::timeout(super::agent::DEADLINE, waited).await.expect("no request came").unwrap().clone()
    }
}

fn server_config() -> ServerConfig {
    let file =
        |name: &str| std::fs::read(format!("{}/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let certificate = CertificateDer::from_pem_slice(&file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn tunnel(mut socket: TcpStream, acceptor: TlsAcceptor, seen: Arc<watch::Sender<Seen>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = socket.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    assert!(head.starts_with("CONNECT "), "{head}");
    seen.send_modify(|seen| seen.tunnels.push(target));
    socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // A client that does not trust the certificate hangs up.
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let open = Arc::new(Mutex::new(Vec::new()));
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let header = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let entry = (head.method.to_string(), head.uri.path().to_owned(), header.map(str::to_owned));
        let is_prompt = entry.0 == "POST";
        let (seen, open) = (seen.clone(), open.clone());
        tokio::spawn(async move {
            while let Some(Ok(chunk)) = body.data().await {
                let _ = body.flow_control().release_capacity(chunk.len());
            }
            let status = if is_prompt { 200 } else { 404 };
            let answer = http::Response::builder().status(status).header("content-type", "text/event-stream");
            let mut sender = respond.send_response(answer.body(()).unwrap(), !is_prompt).unwrap();
            if is_prompt {
                sender.send_data(Bytes::from_static(ANSWER.as_bytes()), true).unwrap();
            }
            open.lock().unwrap().push(respond);
            seen.send_modify(|seen| seen.requests.push(entry));
        });
    }
}
