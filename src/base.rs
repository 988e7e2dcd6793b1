//! Small, general pieces that know nothing of sessions.

pub mod cause;
pub mod clock;
pub mod diff;
pub mod figures;
pub mod file_change;
pub mod hash;
pub mod home;
pub mod ids;
pub mod lock;
pub mod log;
pub mod memory;
pub mod mime;
pub mod money;
pub mod path;
pub mod pinned;
pub mod process;
pub mod program;
pub mod queue;
pub mod rpc_peer;
pub mod sandbox;
pub mod sse;
pub mod stderr;
pub mod text;
pub mod watch;
pub mod words;
