//! The tools of all connected servers by their keys, and why one cannot be called.

use std::{collections::BTreeMap, sync::Arc};

use super::{CallError, McpTool, Slot, Slots, Status};

/// The tools by key.
pub(super) type Table = BTreeMap<String, Arc<McpTool>>;

/// Collects the tools of connected servers. The later one of two with the same key wins; `on_hidden` gets both.
pub(super) fn table(slots: &Slots, on_hidden: impl Fn(&McpTool, &McpTool)) -> Table {
    let mut table = Table::new();
    for leased in slots.values() {
        let state = leased.slot.lock();
        let tools = if state.connection.is_some() { state.tools.as_slice() } else { &[] };
        for tool in tools {
            if let Some(hidden) = table.insert(tool.key.clone(), tool.clone()) {
                on_hidden(tool, &hidden);
            }
        }
    }
    table
}

/// Returns the servers without those that have a connected successor.
pub(super) fn serving(slots: &Slots) -> impl DoubleEndedIterator<Item = &Arc<Slot>> {
    let is_succeeded = |slot: &Slot| {
        let is_successor = |other: &Slot| {
            other.spec.name == slot.spec.name
                && !std::ptr::eq(other, slot)
                && other.lock().connection.is_some()
        };
        let is_replaced = slot.lock().is_replaced;
        is_replaced && slots.values().any(|leased| is_successor(&leased.slot))
    };
    slots.values().map(|leased| &leased.slot).filter(move |slot| !is_succeeded(slot))
}

/// Returns the reason that `key` cannot be called.
pub(super) fn missing(slots: &Slots, key: &str) -> CallError {
    for leased in slots.values().rev() {
        let slot = &leased.slot;
        let state = slot.lock();
        let is_its_tool = state.tools.iter().any(|tool| tool.key == key);
        match &state.status {
            Status::Failed { error } if is_its_tool => {
                return CallError::Failed(format!("the tool is gone: {error}"));
            }
            Status::Disabled if is_its_tool => {
                return CallError::Failed(format!("MCP server {} was closed", slot.spec.name));
            }
            Status::Connecting if is_its_tool => {
                let name = &slot.spec.name;
                return CallError::Failed(format!(
                    "MCP server {name} has ended and is started again; repeat the call"
                ));
            }
            Status::Failed { .. }
            | Status::Disabled
            | Status::Connecting
            | Status::Connected
            | Status::NeedsAuth
            | Status::NeedsClientRegistration { .. } => {}
        }
    }
    CallError::Unknown
}
