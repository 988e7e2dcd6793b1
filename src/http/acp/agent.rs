//! The protocol behind one connection: it reads lines and writes lines, however they are carried.

use std::{io, sync::Arc};

use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio_util::sync::CancellationToken;
use windlass_engine::{Client, Engine};

use crate::acp::{self, Options};

/// Bytes between a connection and the protocol, in each direction.
pub const BUFFER: usize = 64 << 10;

/// The parts of the server that serve a client of the protocol.
#[derive(Clone)]
pub struct Agent {
    pub engine: Engine,
    /// Takes over the sessions that still work when the client leaves.
    pub lease: Arc<Client>,
    /// Program and arguments that start the login in a terminal.
    pub login_command: Vec<String>,
    /// The client is another node, and speaks for one of its own.
    pub is_of_fleet: bool,
    /// Ends the connection.
    pub stop: CancellationToken,
}

/// The carrier's end of the protocol.
pub struct Pipe {
    /// Takes the client's lines; shut down, it ends the input.
    pub input: WriteHalf<DuplexStream>,
    /// Gives the lines for the client.
    pub lines: ReadHalf<DuplexStream>,
    /// To be cancelled once the client can say nothing more.
    pub hung_up: CancellationToken,
}

impl Agent {
    /// Connects a client; the future serves it to its end.
    pub fn connect(self) -> (Pipe, impl Future<Output = io::Result<()>>) {
        let Self { engine, lease, login_command, is_of_fleet, stop } = self;
        let (near, far) = duplex(BUFFER);
        let (input, output) = split(near);
        let (lines, messages) = split(far);
        let hung_up = CancellationToken::new();
        let options = Options {
            trace: None,
            login_command,
            max_line: acp::MAX_LINE,
            is_of_fleet,
            stop,
            hung_up: hung_up.clone(),
        };
        let serving = acp::serve_beside(engine, lease, input, output, options);
        (Pipe { input: messages, lines, hung_up }, serving)
    }
}

/// Makes a message a line: JSON has line feeds only between its tokens, where a space does as well.
pub fn line(message: &[u8]) -> Vec<u8> {
    let mut line = message.trim_ascii().to_vec();
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}
