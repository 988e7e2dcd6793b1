//! Places of connections.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    routing::get,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{HEAD_LIMIT, Stalling, serve};
use crate::http::peer::Peer;

/// Upgrades a connection, and sends back the bytes that come on it.
async fn echo(mut request: Request) -> (StatusCode, [(header::HeaderName, &'static str); 2]) {
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrading.await.unwrap());
        let byte = stream.read_u8().await.unwrap();
        stream.write_u8(byte).await.unwrap();
        // It ends with its client.
        let _ = stream.read_u8().await;
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers)
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place_until_it_ends() {
    let places = Arc::new(Semaphore::new(1));
    let (mut client, server) = tokio::io::duplex(4096);
    let place = places.clone().try_acquire_owned().unwrap();
    let stream = Stalling::new(Box::new(server) as Box<dyn super::Stream>, HEAD_LIMIT, place);
    let router = Router::new().route("/", get(echo));
    let served = tokio::spawn(serve(stream, Peer::nobody(), router, CancellationToken::new()));
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n")
        .await
        .unwrap();
    served.await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    client.write_u8(7).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 7);
    assert_eq!(places.available_permits(), 0, "the socket is open");
    drop(client);
    let _place = places.acquire().await.unwrap();
}
