//! What the sessions above a subagent's may not do, and so it may not either.

use std::sync::Arc;

use windlass_protocol::opencode::{permission::Rule, session::Session};

use super::{Engine, EngineError, workspace::Loaded};
use crate::{
    config::rules::impose,
    permission::{self, Ask, Verdict},
};

/// Sessions above one another; more is a mistake in the store.
const MAX_LEVELS: usize = 32;
/// Each session's own affair: its list.
const OWN: [&str; 2] = ["todowrite", "todoread"];

/// The rules of every session above, each on its own: what one of them allows lifts nothing that another denies.
#[derive(Debug, Clone, Default)]
pub struct Limits(Vec<Arc<[Rule]>>);

impl Limits {
    /// The limits of a subagent's session that the user opened by itself, or of a copy of one: those of the sessions
    /// above it, with the agents they have now, and those that it was copied with.
    pub async fn of_stored(engine: &Engine, loaded: &Loaded, info: &Session) -> Result<Self, EngineError> {
        let copied = |session: &Session| -> Vec<Arc<[Rule]>> {
            session.limits.iter().rev().map(|rules| Arc::from(rules.as_slice())).collect()
        };
        let mut levels = copied(info);
        let mut above = info.parent_id.clone();
        while let Some(id) = above.take().filter(|_| levels.len() < MAX_LEVELS) {
            // Asked before the store is: what is chosen no longer is stored by then.
            let chosen = engine.chosen_agent(&id);
            let Some(session) = engine.storage().session(id).await? else { break };
            let of_copy = copied(&session);
            let agent = chosen.as_deref().or(session.agent.as_deref()).and_then(|name| loaded.agent(name));
            let agent = agent.unwrap_or_else(|| loaded.default_agent());
            let mut rules = agent.permission.clone();
            rules.extend(session.permission.into_iter().flatten());
            impose(&mut rules, &loaded.config.managed.rules(&agent.name));
            levels.push(Arc::from(rules));
            levels.extend(of_copy);
            above = session.parent_id;
        }
        levels.reverse();
        Ok(Self(levels))
    }

    /// The limits as a session keeps them.
    pub fn levels(&self) -> Vec<Vec<Rule>> {
        self.0.iter().map(|rules| rules.to_vec()).collect()
    }

    /// Whether nothing stands above.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits of what is started by a session with these rules.
    pub fn below(&self, rules: &Arc<[Rule]>) -> Self {
        Self(self.0.iter().chain([rules]).cloned().collect())
    }

    /// What the model is told when one of the sessions above could not do this.
    pub fn refusal(&self, ask: &Ask) -> Option<String> {
        let levels = self.0.iter().filter(|_| !OWN.contains(&ask.permission.as_str()));
        let mut refusals = levels.filter_map(|rules| match permission::evaluate_all(ask, rules, &[]) {
            Verdict::Deny { rules } => Some(permission::denied_message(&rules)),
            Verdict::Allow | Verdict::Ask => None,
        });
        refusals.next()
    }

    /// Whether one of the sessions above is not offered tools of this permission.
    pub fn hides(&self, name: &str) -> bool {
        !OWN.contains(&name) && self.0.iter().any(|rules| permission::is_tool_hidden(name, rules))
    }
}

#[cfg(test)]
mod tests {
    //! What is above limits, and nothing there widens.

    use std::sync::Arc;

    use windlass_protocol::opencode::permission::{Action, Rule};

    use super::Limits;
    use crate::{config::rules::rule, permission::Ask};

    fn limits(levels: &[&[Rule]]) -> Limits {
        levels.iter().fold(Limits::default(), |limits, rules| limits.below(&Arc::from(*rules)))
    }

    fn is_refused(limits: &Limits, permission: &str, pattern: &str) -> bool {
        let patterns = vec![pattern.to_owned()];
        let ask = Ask {
            permission: permission.to_owned(),
            patterns,
            always: Vec::new(),
            metadata: Default::default(),
        };
        limits.refusal(&ask).is_some()
    }

    #[test]
    fn each_level_denies_by_itself_exceptions_included() {
        let reader = [rule("*", "*", Action::Deny), rule("read", "*", Action::Allow)];
        let git = [
            rule("*", "*", Action::Allow),
            rule("bash", "*", Action::Deny),
            rule("bash", "git *", Action::Allow),
        ];
        let both = limits(&[&git, &reader]);
        let only_git = limits(&[&git]);
        assert!(!is_refused(&both, "read", "x") && is_refused(&both, "edit", "x"));
        assert!(is_refused(&both, "bash", "git log"), "the upper level lifts nothing");
        assert!(!is_refused(&only_git, "bash", "git log") && is_refused(&only_git, "bash", "rm x"));
        assert!(!is_refused(&Limits::default(), "edit", "x"));
        assert!(both.hides("edit") && !both.hides("read") && !only_git.hides("bash"));
    }

    #[test]
    fn what_is_asked_above_is_not_refused_below() {
        let asking = limits(&[&[rule("*", "*", Action::Ask)]]);
        assert!(!is_refused(&asking, "bash", "ls") && !asking.hides("bash"));
    }

    #[test]
    fn a_list_is_each_sessions_own() {
        let alone = limits(&[&[rule("*", "*", Action::Deny)]]);
        assert!(!alone.hides("todowrite") && !is_refused(&alone, "todowrite", "*"));
        assert!(alone.hides("task") && is_refused(&alone, "task", "general"));
    }
}
