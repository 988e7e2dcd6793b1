//! An encoder without a connection, for measures of it alone.

use std::sync::Arc;

use windlass_engine::Workspace;
use windlass_protocol::opencode::{event::Event, id::SessionId};
use windlass_protocol_acp::decode::{ClientCapabilities, Version};

use super::{Encoder, Lines, Outgoing, Sink, Waiting};

/// The encoder of a client that asks for nothing special and is shown one session.
pub struct Alone {
    encoder: Encoder,
}

impl Alone {
    pub fn new(version: Version, workspace: Arc<Workspace>, session_id: SessionId) -> Self {
        let mut alone = Self { encoder: Encoder::default() };
        alone.encoder.set_client(ClientCapabilities { version, ..ClientCapabilities::default() });
        alone.encode(
            Outgoing::Attach { session_id, workspace, title: String::new(), cost: 0.0 },
            &mut Vec::new(),
        );
        alone
    }

    /// Appends the lines that the client is shown for an event.
    pub fn show(&mut self, event: Arc<Event>, bytes: &mut Vec<u8>) {
        self.encode(Outgoing::Event(event), bytes);
    }

    fn encode(&mut self, item: Outgoing, bytes: &mut Vec<u8>) {
        let waiting = Waiting { is_waiting: &|_| false, of_session: &|_| Vec::new() };
        let lines = Lines { dialect: self.encoder.dialect(), bytes };
        self.encoder.encode(item, &mut Sink { lines, waiting: &waiting, answered: Vec::new() });
    }
}
