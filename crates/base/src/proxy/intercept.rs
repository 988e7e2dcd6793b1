//! Ends the TLS of a command towards hosts that get keys, and speaks HTTP/1.1 with both sides.

use std::{convert::Infallible, io, sync::Mutex};

use http::{HeaderValue, Request, Response, StatusCode, Uri, header, uri::Authority};
use http_body_util::{Either, Full};
use hyper::{
    body::Incoming,
    client::{self, conn::http1::SendRequest},
    server,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, copy_bidirectional, join, split},
    net::TcpStream,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    gate::{self, Closed, Gate, PATIENCE},
    keys::{HostKeys, Keys},
    message::{MAX_HEAD, Refusal, malformed, refusal, refused, strip},
};
use crate::{lock::lock, names::Host};

/// The first byte of a connection that begins TLS (<https://www.rfc-editor.org/rfc/rfc8446#section-5.1>: handshake).
const HANDSHAKE: u8 = 22;

/// A tunnel that was opened.
pub(super) struct Tunnel {
    host: Host,
    port: u16,
    out: TcpStream,
}

/// The connection to the host, for one request after another.
struct Upstream {
    sender: SendRequest<Incoming>,
    _connection: AbortOnDropHandle<()>,
}

struct Side<'a> {
    tunnel: (&'a Host, u16),
    gate: &'a Gate,
    keys: &'a Keys,
    own: HostKeys,
    /// None while a request has it, and where the last one has ended it.
    upstream: Mutex<Option<Upstream>>,
}

/// Opens a tunnel to a host, as a program writes it.
pub(super) async fn open(gate: &Gate, host: &str, port: u16) -> Result<Tunnel, Closed> {
    let host = gate::read(host)?;
    let out = gate.open(&host, port).await?;
    Ok(Tunnel { host, port, out })
}

impl Tunnel {
    /// Carries bytes in both directions until both sides have ended. Requests to a host that gets keys are read.
    pub async fn serve(self, mut inner: impl AsyncRead + AsyncWrite + Unpin, gate: &Gate) -> io::Result<()> {
        let Self { host, port, mut out } = self;
        let keys = gate.keys().and_then(|keys| Some((keys, keys.of_host(gate.names(), &host, port)?)));
        let Some((keys, own)) = keys else { return copy_bidirectional(&mut inner, &mut out).await.map(drop) };
        let mut first = [0];
        if timeout(PATIENCE, inner.read(&mut first)).await?? == 0 {
            return Ok(());
        }
        let (reader, writer) = split(inner);
        let mut inner = join((&first[..]).chain(reader), writer);
        // Another protocol, such as ssh, has no place for a key.
        if first != [HANDSHAKE] {
            return copy_bidirectional(&mut inner, &mut out).await.map(drop);
        }
        let inner = timeout(PATIENCE, keys.authority().acceptor(host.as_str())?.accept(inner)).await??;
        let first = greet(keys, &host, out).await?;
        let side = Side { tunnel: (&host, port), gate, keys, own, upstream: Mutex::new(Some(first)) };
        let service = service_fn(|request| async {
            Ok::<_, Infallible>(
                side.answer(request).await.unwrap_or_else(|refusal| refused(refusal).map(Either::Left)),
            )
        });
        let mut builder = server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_HEAD);
        builder.serve_connection(TokioIo::new(inner), service).await.map_err(io::Error::other)
    }
}

/// Begins TLS and HTTP with a host.
async fn greet(keys: &Keys, host: &Host, out: TcpStream) -> io::Result<Upstream> {
    let name = match host.address() {
        Some(address) => ServerName::IpAddress(address.into()),
        None => ServerName::try_from(host.as_str().to_owned()).map_err(io::Error::other)?,
    };
    let out = timeout(PATIENCE, keys.authority().connector().connect(name, out)).await??;
    let (sender, connection) = client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(out))
        .await
        .map_err(io::Error::other)?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    Ok(Upstream { sender, _connection: connection })
}

impl Side<'_> {
    async fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Either<Full<bytes::Bytes>, Incoming>>, Refusal> {
        let (host, port) = self.tunnel;
        self.check(&request)?;
        strip(request.headers_mut());
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        let path: Uri = path.parse().map_err(|_| malformed("the address has no path."))?;
        self.own.put(request.headers_mut()).map_err(|sentence| malformed(&sentence))?;
        let named = if port == 443 { host.to_string() } else { format!("{host}:{port}") };
        let named = HeaderValue::from_str(&named)
            .map_err(|_| malformed("the host has letters that no header has."))?;
        request.headers_mut().insert(header::HOST, named);
        *request.uri_mut() = path;
        *request.version_mut() = http::Version::HTTP_11;
        let mut upstream = self.upstream().await?;
        let failed = |error: hyper::Error| (StatusCode::BAD_GATEWAY, format!("{host}:{port}: {error}."));
        let mut response = upstream.sender.send_request(request).await.map_err(failed)?;
        *lock(&self.upstream) = Some(upstream);
        strip(response.headers_mut());
        Ok(response.map(Either::Right))
    }

    /// Refuses a request that names another host than the one that was allowed: at the same address it may be
    /// somebody else's.
    fn check<T>(&self, request: &Request<T>) -> Result<(), Refusal> {
        let (host, port) = self.tunnel;
        let same = |text: &str| {
            let named: Authority = text.parse().ok()?;
            Some(Host::parse(named.host())? == *host && named.port_u16().unwrap_or(443) == port)
        };
        let mut named =
            request.headers().get_all(header::HOST).iter().map(|it| it.to_str().ok().and_then(same));
        let is_same = named.all(|it| it == Some(true));
        let in_address = request.uri().authority().is_none_or(|it| same(it.as_str()) == Some(true));
        if is_same && in_address {
            Ok(())
        } else {
            Err(malformed("the header Host names another host than the connection."))
        }
    }

    /// Returns the connection to the host, a new one where the last has ended.
    async fn upstream(&self) -> Result<Upstream, Refusal> {
        let (host, port) = self.tunnel;
        let known = lock(&self.upstream).take();
        if let Some(mut known) = known
            && known.sender.ready().await.is_ok()
        {
            return Ok(known);
        }
        let out = self.gate.open(host, port).await.map_err(refusal)?;
        let failed = |error: io::Error| refusal(Closed::Failed(format!("{host}:{port}: {error}.")));
        greet(self.keys, host, out).await.map_err(failed)
    }
}
