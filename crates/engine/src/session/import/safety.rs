//! Takes out of imported sessions everything that could loosen the user's rules, change files or name a path.

use windlass_protocol::opencode::{
    part::{Part, PartKind},
    permission::{Action, Rule},
    session::{Revert, Session},
};

use super::SessionFile;
use crate::project;

/// Returns the session of a file without the settings that a stranger must not decide. Every field is named, so that a
/// new one is thought about.
pub fn without_powers(file: &SessionFile) -> Session {
    let Session {
        id,
        slug,
        project_id,
        directory,
        path,
        parent_id,
        title,
        version,
        agent,
        model,
        cost,
        tokens,
        summary,
        share: _,
        metadata,
        permission,
        limits,
        revert,
        time,
    } = file.info.clone();
    Session {
        id,
        // It becomes a part of the path of the plan.
        slug: if is_word(&slug) { slug } else { project::slug() },
        project_id,
        directory,
        path,
        parent_id,
        title,
        version,
        // Both only choose among the entries of the user's configuration.
        agent,
        model,
        cost,
        tokens,
        summary,
        // Its page is not this user's.
        share: None,
        metadata,
        permission: permission.map(denials).filter(|rules| !rules.is_empty()),
        // These bind beside all other rules, so they only forbid.
        limits,
        revert: revert.and_then(|revert| without_tree(revert, file)),
        time,
    }
}

/// Returns the rules that forbid: they come behind the user's, so that any others would override a denial or question.
fn denials(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.retain(|rule| rule.action == Action::Deny);
    rules
}

fn is_word(slug: &str) -> bool {
    (1..=64).contains(&slug.len()) && slug.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns an undo of the conversation alone.
fn without_tree(revert: Revert, file: &SessionFile) -> Option<Revert> {
    let Revert { message_id, part_id, snapshot: _, diff: _ } = revert;
    let is_here = file.messages.iter().any(|message| *message.info.id() == message_id);
    is_here.then_some(Revert { message_id, part_id, snapshot: None, diff: None })
}

/// Returns a part without the git trees from which an undo would restore files: they are arguments for git, and any tree
/// of the repository would do, the empty one too.
pub fn without_snapshots(part: &Part) -> Option<Part> {
    let mut part = part.clone();
    match &mut part.kind {
        PartKind::Patch { .. } | PartKind::Snapshot { .. } => return None,
        PartKind::StepStart { snapshot } | PartKind::StepFinish { snapshot, .. } => *snapshot = None,
        PartKind::Text(_)
        | PartKind::Reasoning(_)
        | PartKind::File(_)
        | PartKind::Tool(_)
        | PartKind::Agent { .. }
        | PartKind::Subtask { .. }
        | PartKind::Retry { .. }
        | PartKind::Compaction { .. } => {}
    }
    Some(part)
}
