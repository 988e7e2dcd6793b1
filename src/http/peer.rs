//! The other end of a connection. Its process is looked up once, with the connection's first request.

use std::{
    fs::File,
    io,
    net::{IpAddr, SocketAddr},
    os::{fd::AsFd, unix::fs::MetadataExt},
    sync::Arc,
};

use tokio::{
    net::{TcpStream, UnixStream},
    sync::{OnceCell, Semaphore},
};
use windlass_base::peer::{self, OtherEnd, Standing};

/// Searches for the processes of connections that run at once.
static SEARCHES: Semaphore = Semaphore::const_new(2);

/// The caller of all requests of one connection.
#[derive(Debug, Clone)]
pub struct Peer {
    caller: Caller,
    standing: Arc<OnceCell<Standing>>,
}

#[derive(Debug, Clone, Copy)]
enum Caller {
    /// A plugin of this very server, without a connection.
    Plugin,
    Tcp {
        address: SocketAddr,
        end: OtherEnd,
    },
    Unix {
        user: u32,
        pid: Option<i32>,
    },
    Nobody,
}

impl Peer {
    pub fn plugin() -> Self {
        Self::new(Caller::Plugin)
    }

    /// Returns a caller that nothing is known of.
    pub fn nobody() -> Self {
        Self::new(Caller::Nobody)
    }

    /// Looks at the other end of a connection that was just taken.
    pub fn of_tcp(stream: &TcpStream, address: SocketAddr) -> Self {
        let look = || -> io::Result<OtherEnd> {
            let inode = File::from(stream.as_fd().try_clone_to_owned()?).metadata()?.ino();
            Ok(peer::other_end(inode, stream.local_addr()?, address))
        };
        Self::new(Caller::Tcp { address, end: look().unwrap_or(OtherEnd::Unknown) })
    }

    pub fn of_socket(stream: &UnixStream) -> Self {
        let credentials = stream.peer_cred();
        Self::new(credentials.map_or(Caller::Nobody, |it| Caller::Unix { user: it.uid(), pid: it.pid() }))
    }

    fn new(caller: Caller) -> Self {
        Self { caller, standing: Arc::default() }
    }

    /// Returns the address that a request comes from; none but for TCP.
    pub fn address(&self) -> Option<IpAddr> {
        match self.caller {
            Caller::Tcp { address, .. } => Some(address.ip().to_canonical()),
            Caller::Plugin | Caller::Unix { .. } | Caller::Nobody => None,
        }
    }

    /// Returns the kernel's facts about the caller.
    pub async fn standing(&self) -> Standing {
        *self.standing.get_or_init(|| look(self.caller)).await
    }
}

async fn look(caller: Caller) -> Standing {
    let read: Box<dyn FnOnce() -> Standing + Send> = match caller {
        Caller::Plugin => return Standing::Own,
        Caller::Nobody | Caller::Tcp { end: OtherEnd::Unknown, .. } => return Standing::Unknown,
        Caller::Tcp { end: OtherEnd::Gone, .. } => return Standing::Gone,
        Caller::Tcp { end: OtherEnd::Socket { user, inode }, .. } => {
            Box::new(move || peer::of_socket(user, inode))
        }
        Caller::Unix { user, pid } => Box::new(move || peer::of_process(user, pid)),
    };
    // A caller that hides makes each search one over all processes.
    let _place = SEARCHES.acquire().await;
    tokio::task::spawn_blocking(read).await.unwrap_or(Standing::Unknown)
}
