//! HTTP proxying: tunnels by CONNECT, and plain requests, each of which is judged by itself.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri, header,
    uri::{Authority, Scheme},
};
use http_body_util::{Either, Full};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client, server,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::{
    gate::{self, Gate, PATIENCE},
    intercept::{self, Tunnel},
    message::{MAX_HEAD, Refusal, malformed, refusal, refused, strip},
};
use crate::{lock::lock, names::Host};

const TLS_PORT: u16 = 443;

type Answer = Response<Either<Full<Bytes>, Upstream>>;
/// The tunnel that begins when the connection's HTTP has ended.
type Pending = Mutex<Option<(OnUpgrade, Tunnel)>>;

pub(super) async fn serve(stream: TcpStream, gate: Arc<Gate>) -> io::Result<()> {
    let pending: Arc<Pending> = Arc::default();
    let service = service_fn(|request| {
        let (gate, pending) = (gate.clone(), pending.clone());
        async move { Ok::<_, Infallible>(answer(&gate, &pending, request).await) }
    });
    let mut builder = server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_HEAD);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    connection.await.map_err(io::Error::other)?;
    let Some((upgrade, tunnel)) = lock(&pending).take() else { return Ok(()) };
    tunnel.serve(TokioIo::new(upgrade.await.map_err(io::Error::other)?), &gate).await
}

async fn answer(gate: &Gate, pending: &Pending, mut request: Request<Incoming>) -> Answer {
    let opened = if request.method() == Method::CONNECT {
        connect(gate, request.uri()).await.map(|tunnel| {
            *lock(pending) = Some((hyper::upgrade::on(&mut request), tunnel));
            Response::new(Either::Left(Full::default()))
        })
    } else {
        forward(gate, request).await
    };
    opened.unwrap_or_else(|refusal| refused(refusal).map(Either::Left))
}

async fn connect(gate: &Gate, target: &Uri) -> Result<Tunnel, Refusal> {
    let target = target.authority().and_then(|it| Some((it.host(), it.port_u16()?)));
    let (host, port) = target.ok_or_else(|| malformed("CONNECT names a host and a port."))?;
    intercept::open(gate, host, port).await.map_err(refusal)
}

/// Sends a plain request on, over a connection of its own.
async fn forward(gate: &Gate, mut request: Request<Incoming>) -> Result<Answer, Refusal> {
    let (authority, path) = target(&request)?;
    let port = authority.port_u16().unwrap_or(80);
    let named = gate::read(authority.host()).map_err(refusal)?;
    let stream = gate.open(&named, port).await.map_err(refusal)?;
    strip(request.headers_mut());
    // A key is sent in the clear only where the user names a port that is not that of TLS.
    if port != TLS_PORT
        && let Some(keys) = gate.keys().and_then(|keys| keys.of_host(gate.names(), &named, port))
    {
        keys.put(request.headers_mut()).map_err(|sentence| malformed(&sentence))?;
    }
    let host = HeaderValue::from_str(host_header(&authority));
    let host = host.map_err(|_| malformed("the host has letters that no header has."))?;
    request.headers_mut().insert(header::HOST, host);
    *request.uri_mut() = path;
    *request.version_mut() = http::Version::HTTP_11;
    let failed = |error: hyper::Error| (StatusCode::BAD_GATEWAY, format!("{authority}: {error}."));
    let (mut sender, connection) = client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    // Ends with the answer's body, which it carries.
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let mut response = sender.send_request(request).await.map_err(failed)?;
    strip(response.headers_mut());
    Ok(response.map(|body| Either::Right(Upstream { body, _connection: connection })))
}

/// Returns the host that a request names, and the path there.
fn target<T>(request: &Request<T>) -> Result<(Authority, Uri), Refusal> {
    let uri = request.uri();
    let Some(authority) = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP)) else {
        return Err(malformed("this is a proxy: a request names an http:// address, or is a CONNECT."));
    };
    let same = |text: &str| {
        let other: Authority = text.parse().ok()?;
        let ports = (other.port_u16().unwrap_or(80), authority.port_u16().unwrap_or(80));
        Some(Host::parse(other.host())? == Host::parse(authority.host())? && ports.0 == ports.1)
    };
    let named = request.headers().get_all(header::HOST);
    if !named.iter().all(|it| it.to_str().ok().and_then(same) == Some(true)) {
        return Err(malformed("the header Host names another host than the address."));
    }
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let path = path.parse().map_err(|_| malformed("the address has no path."))?;
    Ok((authority.clone(), path))
}

fn host_header(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// The body of an answer, with the connection that it comes over.
struct Upstream {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl Body for Upstream {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    //! Requests to a proxy, as they are sent on.

    use super::*;

    #[test]
    fn a_request_names_one_host() {
        for (uri, host, expected) in [
            ("http://a.example/x?y", Some("a.example"), Some("/x?y")),
            ("http://a.example:80/", Some("A.example"), Some("/")),
            ("http://a.example", None, Some("/")),
            ("http://a.example/", Some("b.example"), None),
            ("http://a.example/", Some("a.example:81"), None),
            ("https://a.example/", Some("a.example"), None),
            ("/x", Some("a.example"), None),
        ] {
            let mut request = Request::builder().uri(uri);
            if let Some(host) = host {
                request = request.header(header::HOST, host);
            }
            let found = target(&request.body(()).expect("a request")).ok();
            assert_eq!(found.map(|(_, path)| path.to_string()).as_deref(), expected, "{uri} at {host:?}");
        }
    }
}
