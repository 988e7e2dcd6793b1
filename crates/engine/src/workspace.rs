//! The workspace of a directory: its files as read, watched and read again.

pub mod config_change;
pub mod directory;
pub mod dispose;
pub mod files;
pub mod lint;
pub mod loaded;
pub mod loosening;
pub mod model_names;
pub mod models;
pub mod pending_login;
pub mod reload;
pub mod server_choice;
pub mod server_login;
pub mod servers;
pub mod settings;
pub mod state_file;
pub mod trust;
