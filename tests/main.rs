//! End-to-end tests: the real binary, spoken to on its pipes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, reports on stderr, and starts processes itself"
)]

mod support;

mod agent_cli;
mod agents;
mod ask;
mod attach;
mod auth;
mod bad_input;
mod batch;
mod browser;
mod cancel;
mod catalog;
mod chat;
mod cli;
mod command_names;
mod commands;
mod compaction;
mod completions;
mod config;
mod config_broken;
mod config_check;
mod config_examples;
mod config_guard;
mod config_layers;
mod crash;
mod db;
mod demo;
mod directories;
mod disks;
mod doctor;
mod editor;
mod editor_files;
mod envelope;
mod events;
mod faults;
mod files;
mod formatters;
mod guard;
mod import;
mod initialize;
mod instructions;
mod interleavings;
mod log;
mod logins;
mod lsp;
mod market;
mod mcp;
mod mcp_cli;
mod mcp_login;
mod mcp_prompts;
mod mcp_resources;
mod models;
mod network;
mod noted;
mod output;
mod own_commands;
mod page;
mod permission;
mod permission_sweep;
mod picture;
mod plan;
mod plugins;
mod process;
mod prompt;
mod protected_paths;
mod providers;
mod questions;
mod readme;
mod reaper;
mod registry;
mod reload;
mod reload_files;
mod remembered;
mod retry;
mod revert;
mod run_options;
mod rust_sdk;
mod sandbox;
mod sandbox_levels;
mod sandbox_prepared;
mod sandbox_servers;
mod serve;
mod session;
mod session_records;
mod session_settings;
mod sessions_seen;
mod skill_urls;
mod skills;
mod state;
mod store;
mod structured;
mod subagents;
mod terminal;
mod thought_level;
mod tidy;
mod tools;
mod undo;
mod web;
