//! Reasons for which a command of a conversation has no end of a turn to tell.

use std::{io, process::ExitCode};

use windlass_engine::EngineError;

use super::super::{output, view::screen};

/// The exit code that a shell reports of a program after its reader has gone: 128 and the number of SIGPIPE.
const READER_GONE: u8 = 128 + 13;

/// The same of one after its terminal has gone: 128 and the number of SIGHUP.
const TERMINAL_GONE: u8 = 128 + 1;

/// See the module's comment.
#[derive(Debug)]
pub enum Failure {
    /// The call makes no sense.
    Misuse(String),
    Failed(String),
    /// Standard output.
    Output(io::Error),
}

impl Failure {
    /// Says the reason on standard error.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Misuse(reason) => output::misuse(&reason),
            Failure::Failed(reason) => output::fail(&reason),
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::from(READER_GONE)
            }
            Failure::Output(error) if screen::is_hangup(&error) => ExitCode::from(TERMINAL_GONE),
            Failure::Output(error) => output::fail(&format!("The output was not written: {error}.")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// A server's reason.
impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Failed(error.to_string())
    }
}
