//! A link between a node and its database, which a test makes slow, one-sided or dead.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

/// How a link works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Open,
    /// Each way takes so long.
    Slow(Duration),
    /// Nothing reaches the node.
    Deaf,
    /// Nothing reaches the database.
    Mute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToNode,
    ToDatabase,
}

/// A link to a port of this machine. What it holds back arrives once it lets it, as a network sends again.
pub struct Link {
    pub port: u16,
    mode: watch::Sender<Mode>,
    _serving: AbortOnDropHandle<()>,
}

impl Link {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Open);
        let serving = tokio::spawn(async move {
            let mut pumps = Vec::new();
            while let Ok((node, _)) = listener.accept().await {
                let Ok(database) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let ((from_node, to_node), (from_database, to_database)) =
                    (node.into_split(), database.into_split());
                let ways = [(from_node, to_database, Way::ToDatabase), (from_database, to_node, Way::ToNode)];
                for (from, to, way) in ways {
                    pumps.push(AbortOnDropHandle::new(tokio::spawn(pump(from, to, way, modes.clone()))));
                }
            }
        });
        Self { port: own, mode, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Way, mut modes: watch::Receiver<Mode>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n_read @ 1..) = from.read(&mut bytes).await {
        let mode = *modes.borrow();
        if let Mode::Slow(delay) = mode {
            tokio::time::sleep(delay).await;
        }
        let is_let = |mode: &Mode| match mode {
            Mode::Open | Mode::Slow(_) => true,
            Mode::Deaf => way == Way::ToDatabase,
            Mode::Mute => way == Way::ToNode,
        };
        if modes.wait_for(is_let).await.is_err() || to.write_all(&bytes[..n_read]).await.is_err() {
            return;
        }
    }
}
