//! Judges where a connection may lead, and opens it.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Mutex, time::Duration};

use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::base::{
    lock::lock,
    names::{Host, Names, Verdict},
    peer,
};

/// The time in which a connection of a command says where it leads.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Time for a connection to one address.
const CONNECT: Duration = Duration::from_secs(20);
/// Refused hosts that are told of.
const MAX_TOLD: usize = 20;
/// The setting that a refusal names.
const SETTING: &str = "`windlass.sandbox.network`";

/// A question of the proxy: may the command reach this host?
#[derive(Debug)]
pub struct Question {
    /// The host and the port, as a permission names them.
    pub pattern: String,
    /// Takes the user's words with a no. It may be dropped, which is a no too.
    pub answer: oneshot::Sender<Result<(), Option<String>>>,
}

/// A connection that was not opened, and the sentence about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    Refused(String),
    Failed(String),
}

/// Decides for the connections of one command.
#[derive(Debug)]
pub struct Gate {
    names: Names,
    /// None where nobody can be asked.
    questions: Option<mpsc::Sender<Question>>,
    /// The sentences about hosts that were refused, by host and port.
    refused: Mutex<BTreeMap<String, String>>,
}

impl Gate {
    pub fn new(names: Names, questions: Option<mpsc::Sender<Question>>) -> Self {
        Self { names, questions, refused: Mutex::default() }
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the sentences about what was refused so far.
    pub fn refusals(&self) -> Vec<String> {
        lock(&self.refused).values().cloned().collect()
    }

    /// Opens a connection to a host, if the command may reach it there.
    pub async fn open(&self, host: &str, port: u16) -> Result<TcpStream, Closed> {
        let Some(host) = Host::parse(host) else {
            return Err(Closed::Failed(format!("{} is no host.", host.escape_debug())));
        };
        let lookup = async { Ok(tokio::net::lookup_host((host.as_str(), port)).await?.collect()) };
        self.open_by(&host, port, lookup).await
    }

    /// Opens a connection. The lookup is awaited once the host is allowed.
    async fn open_by(
        &self,
        host: &Host,
        port: u16,
        lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> Result<TcpStream, Closed> {
        let at = format!("{host}:{port}");
        let opened = self.open_at(host, port, &at, lookup).await;
        if let Err(Closed::Refused(sentence)) = &opened {
            let mut refused = lock(&self.refused);
            if refused.len() < MAX_TOLD {
                refused.insert(at, sentence.clone());
            }
        }
        opened
    }

    async fn open_at(
        &self,
        host: &Host,
        port: u16,
        at: &str,
        lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> Result<TcpStream, Closed> {
        let is_exact = match self.names.judge(host, port) {
            Verdict::Denied => return Err(Closed::Refused(format!("{at} is denied by {SETTING}."))),
            Verdict::Allowed { is_exact } => is_exact,
            Verdict::Unnamed => false,
        };
        let not_public = |(address, kind): (_, &str)| {
            let is_at = if host.address().is_some() { "is" } else { "is at" };
            let sentence = format!("{at} {is_at} {address}, which is {kind} and not for commands");
            Closed::Refused(format!("{sentence}; the user can name that address itself in {SETTING}."))
        };
        // Such a host is asked about by no name, since a yes would not lead there.
        let known = host.address().map(|it| vec![SocketAddr::new(it, port)]);
        if let Some(known) = &known {
            host.check(is_exact, known).map_err(not_public)?;
        }
        if host.is_loopback() && !is_exact {
            let sentence = format!("{at} is this machine, which is not for commands");
            return Err(Closed::Refused(format!("{sentence}; the user can name it in {SETTING}.")));
        }
        if self.names.judge(host, port) == Verdict::Unnamed {
            self.ask(at).await?;
        }
        let found = match known {
            Some(known) => known,
            None => lookup.await.map_err(|error| Closed::Failed(format!("{at}: {error}.")))?,
        };
        host.check(is_exact, &found).map_err(not_public)?;
        let stream = connect(&found).await.map_err(|error| Closed::Failed(format!("{at}: {error}.")))?;
        let is_own = is_own_server(&stream).await.unwrap_or(true);
        if is_own {
            return Err(Closed::Refused(format!(
                "{at} is a server of windlass, which commands never reach."
            )));
        }
        Ok(stream)
    }

    async fn ask(&self, at: &str) -> Result<(), Closed> {
        let unasked = || Closed::Refused(format!("{at} is not named by {SETTING}; the user can add it."));
        let questions = self.questions.as_ref().ok_or_else(unasked)?;
        let (answer, answered) = oneshot::channel();
        questions.send(Question { pattern: at.to_owned(), answer }).await.map_err(|_| unasked())?;
        let Err(said) = answered.await.unwrap_or(Err(None)) else { return Ok(()) };
        let said = said.map(|words| format!(" The user said: {words}")).unwrap_or_default();
        Err(Closed::Refused(format!("{at} is not named by {SETTING}, and it was not allowed.{said}")))
    }
}

/// Connects to the first address that answers. All were checked, and no name is looked up again.
async fn connect(found: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in found {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failed = error,
            Err(_elapsed) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

/// Returns true if the other end is a windlass: there a connection of this process counts as the user's own.
async fn is_own_server(stream: &TcpStream) -> io::Result<bool> {
    let (own, other) = (stream.local_addr()?, stream.peer_addr()?);
    if !peer::is_here(own, other) {
        return Ok(false);
    }
    tokio::task::spawn_blocking(move || peer::may_be_windlass(other)).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
