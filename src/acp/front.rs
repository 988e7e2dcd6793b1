//! What a connection knows of the sessions its client has opened.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use windlass_protocol::opencode::{id::SessionId, message::ModelRef};

use crate::engine::{Loaded, Workspace};

/// A session as this connection uses it.
pub struct FrontSession {
    pub workspace: Arc<Workspace>,
    /// The mode the client chose, or the session had.
    pub agent: Option<String>,
    /// The model the client chose, or the session had.
    pub model: Option<ModelRef>,
    /// What the client knows the modes, options, commands and warnings of.
    pub shown: Arc<Loaded>,
    /// Which of `shown`'s warnings the user has not been told of, for a client without notices.
    pub untold: Vec<usize>,
}

/// The sessions a client has opened.
pub type FrontSessions = Arc<Mutex<HashMap<SessionId, FrontSession>>>;
