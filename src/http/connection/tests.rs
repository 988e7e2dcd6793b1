//! Limits of a connection.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::Stalling;

const LIMIT: Duration = Duration::from_millis(1);

fn place() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
}

#[tokio::test]
async fn a_client_that_never_says_anything_is_let_go() {
    let (_client, server) = tokio::io::duplex(64);
    let error = Stalling::new(server, LIMIT, place()).read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_client_that_has_spoken_may_be_silent() {
    let (mut client, server) = tokio::io::duplex(64);
    let mut server = Stalling::new(server, LIMIT, place());
    client.write_u8(1).await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), 1);
    assert!(tokio::time::timeout(LIMIT * 20, server.read_u8()).await.is_err(), "it is still read");
}
