//! Answers to questions of the engine where no person can be asked. Pure.

use serde_json::Value;
use windlass_core::config::policy::{LEAVE_SANDBOX, REACH_HOST};
use windlass_engine as engine;
use windlass_protocol::opencode::permission::{PermissionRequest, Reply};

use super::super::output;

/// The answers that are given without the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Everything that is not denied is allowed.
    pub is_auto: bool,
    /// Commands may leave their sandbox too.
    pub leaves_sandbox: bool,
    /// A refusal, of a rule or of anybody, ends the run.
    pub is_strict: bool,
}

/// An answer, and the remark about it.
#[derive(Debug)]
pub struct Answer {
    pub reply: Reply,
    /// The option that allowed it, if the rules do not name it.
    pub by: Option<String>,
    pub remark: Option<String>,
    /// The run met something that a person could have allowed.
    pub is_refusal: bool,
}

impl Policy {
    pub fn answer(self, request: &PermissionRequest) -> Answer {
        if engine::is_about_configuration(&request.permission) {
            // Not for `--auto` either: a denial that goes away would be nobody's decision.
            let changes = request.metadata.get("prompt").and_then(Value::as_str).unwrap_or_default();
            let line = format!(
                "The configuration was changed, and nobody can be asked, so the rules from before still hold. \
                 Start again to use: {}.",
                output::plain(&changes.replace('\n', "; "))
            );
            return Answer { reply: Reply::Reject, by: None, remark: Some(line), is_refusal: false };
        }
        let asked = output::plain(&request.patterns.join(", "));
        let is_outside = request.permission == LEAVE_SANDBOX;
        let is_host = request.permission == REACH_HOST;
        if self.is_auto && !is_host && (!is_outside || self.leaves_sandbox) {
            let line = format!("Run again outside its sandbox, as --leave-sandbox allows: {asked}.");
            let by = is_outside.then(|| "The option --leave-sandbox".to_owned());
            return Answer { reply: Reply::Once, by, remark: is_outside.then_some(line), is_refusal: false };
        }
        let line = if is_outside {
            // The boundary makes it safe to allow the rest unseen.
            let (does_not_help, option) = if self.is_auto {
                (", and --auto does not let it out", "--leave-sandbox too")
            } else {
                (", and nobody can be asked", "--auto with --leave-sandbox")
            };
            format!(
                "The sandbox refused a command something{does_not_help}: {asked}. Use {option}, or allow it by \
                 `permission.sandbox` in opencode.json."
            )
        } else if is_host {
            format!(
                "A command may not reach {asked}, which no setting names, and nobody can be asked. Name it in \
                 `windlass.sandbox.network`, or allow it by `permission.network`, in opencode.json."
            )
        } else {
            format!(
                "Permission rejected, since nobody can be asked: {} ({asked}). \
                 Use --auto, or allow it by `permission` in opencode.json.",
                output::plain(&request.permission)
            )
        };
        // A program that reaches no host goes on, and may do without.
        Answer { reply: Reply::Reject, by: None, remark: Some(line), is_refusal: !is_host }
    }
}
