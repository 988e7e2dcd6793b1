//! Judges where a connection may lead, and opens it.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Mutex,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::keys::Keys;
use crate::{
    lock::lock,
    names::{Host, Names, Verdict},
    peer,
};

/// The time in which a connection of a command says where it leads.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Time for a connection to one address.
const CONNECT: Duration = Duration::from_secs(20);
/// Time for a name to be looked up, with those before it.
const LOOKUP: Duration = Duration::from_secs(20);
/// Names, and programs behind ports of this machine, that are looked up at once: a lookup that nobody waits for any more
/// runs to its end, on a thread that all of the daemon shares.
static LOOKUPS: Semaphore = Semaphore::const_new(4);
/// Refused hosts that are told of.
const MAX_TOLD: usize = 20;
/// The setting that a refusal names.
const SETTING: &str = "`windlass.sandbox.network`";

/// A question of the proxy: may the command reach this host?
#[derive(Debug)]
pub struct Question {
    /// The host and the port, as a permission names them.
    pub pattern: String,
    /// Dropped, it is a no.
    pub answer: oneshot::Sender<Answer>,
}

/// An answer about a host, which holds for all of a command's connections there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// With the user's words.
    No(Option<String>),
    /// The command has asked for too many hosts, or was refused too often.
    Unasked,
}

/// A function that returns the decision about a pattern; none where a person has to decide.
pub type Decide = dyn Fn(&str) -> Option<Answer> + Send + Sync;

/// The way to ask about hosts.
pub struct Asking {
    /// Returns the decision of the rules and remembered answers about a pattern.
    pub decided: Box<Decide>,
    pub questions: mpsc::Sender<Question>,
}

/// A connection that was not opened, and the sentence about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    Refused(String),
    Failed(String),
}

/// Decides for the connections of one command.
pub struct Gate {
    names: Names,
    /// None where no person can be asked.
    asking: Option<Asking>,
    /// Answers of persons.
    known: Mutex<BTreeMap<String, Answer>>,
    keys: Option<Keys>,
    /// The sentences about hosts that were refused, by host and port.
    refused: Mutex<BTreeMap<String, String>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(names: Names, asking: Option<Asking>, keys: Option<Keys>) -> Self {
        Self { names, asking, keys, known: Mutex::default(), refused: Mutex::default() }
    }

    /// Returns the keys of the command.
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the sentences about the connections that were refused so far.
    pub fn refusals(&self) -> Vec<String> {
        lock(&self.refused).values().cloned().collect()
    }

    /// Opens a connection to a host, if the command may reach it there.
    pub async fn open(&self, host: &Host, port: u16) -> Result<TcpStream, Closed> {
        self.open_by(host, port, look_up(host, port)).await
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
        let denied = || Closed::Refused(format!("{at} is denied by {SETTING}."));
        let (is_exact, is_named) = match self.names.judge(host, port) {
            Verdict::Denied => return Err(denied()),
            Verdict::Allowed { is_exact } => (is_exact, true),
            Verdict::Unnamed => (false, false),
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
        let this_machine = || {
            let sentence = format!("{at} is this machine, which is not for commands");
            Closed::Refused(format!("{sentence}; the user can name the address itself in {SETTING}."))
        };
        if host.is_loopback() && !is_exact {
            return Err(this_machine());
        }
        if !is_named {
            self.ask(at).await?;
        }
        let found = match known {
            Some(known) => known,
            None => lookup.await.map_err(|error| Closed::Failed(format!("{at}: {error}.")))?,
        };
        if self.names.denied(&found).is_some() {
            return Err(denied());
        }
        host.check(is_exact, &found).map_err(not_public)?;
        let stream = connect(&found).await.map_err(|error| Closed::Failed(format!("{at}: {error}.")))?;
        let may_be_here = is_exact && host.is_machine();
        match other_end(&stream).await {
            End::Elsewhere => Ok(stream),
            End::Here if may_be_here => Ok(stream),
            End::Here => Err(this_machine()),
            End::Windlass => {
                Err(Closed::Refused(format!("{at} is a server of windlass, or one that hides.")))
            }
        }
    }

    async fn ask(&self, at: &str) -> Result<(), Closed> {
        let unasked = || Closed::Refused(format!("{at} is not named by {SETTING}; the user can add it."));
        let asking = self.asking.as_ref().ok_or_else(unasked)?;
        let known = lock(&self.known).get(at).cloned();
        let answer = match known.or_else(|| (asking.decided)(at)) {
            Some(answer) => answer,
            None => {
                let (answer, answered) = oneshot::channel();
                let question = Question { pattern: at.to_owned(), answer };
                asking.questions.send(question).await.map_err(|_| unasked())?;
                let answer = answered.await.unwrap_or(Answer::No(None));
                if answer != Answer::Unasked {
                    lock(&self.known).insert(at.to_owned(), answer.clone());
                }
                answer
            }
        };
        match answer {
            Answer::Yes => Ok(()),
            Answer::Unasked => Err(unasked()),
            Answer::No(said) => {
                let said = said.map(|words| format!(" The user said: {words}")).unwrap_or_default();
                let sentence = format!("{at} is not named by {SETTING}, and it was not allowed.{said}");
                Err(Closed::Refused(sentence))
            }
        }
    }
}

/// Reads a host as a program writes it.
pub(super) fn read(host: &str) -> Result<Host, Closed> {
    Host::parse(host).ok_or_else(|| Closed::Failed(format!("{} is no host.", host.escape_debug())))
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

/// Looks up a name. A lookup that has lost its connection keeps its place until it has ended.
async fn look_up(host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    let name = host.as_str().to_owned();
    let lookup = async {
        let place = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let lookup = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), port).to_socket_addrs();
            drop(place);
            found.map(Iterator::collect)
        });
        lookup.await.map_err(io::Error::other)?
    };
    timeout(LOOKUP, lookup).await?
}

/// The other end of a connection.
enum End {
    Elsewhere,
    /// On this machine.
    Here,
    /// A windlass, where a connection of this process counts as the user's own, or a process that hides.
    Windlass,
}

async fn other_end(stream: &TcpStream) -> End {
    let look = async {
        let (own, other) = (stream.local_addr()?, stream.peer_addr()?);
        let place = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let look = tokio::task::spawn_blocking(move || {
            let end = if !peer::is_here(own, other) {
                End::Elsewhere
            } else if peer::may_be_windlass(other) {
                End::Windlass
            } else {
                End::Here
            };
            drop(place);
            end
        });
        look.await.map_err(io::Error::other)
    };
    look.await.unwrap_or(End::Windlass)
}

#[cfg(test)]
mod tests;
