//! Permission rules in layers: each layer is evaluated by itself, and the strictest verdict holds.

use std::sync::Arc;

use windlass_protocol::opencode::permission::{Action, Rule};

use super::rules::{covers, last_match, strictest, wildcard};

/// Permissions that are each session's own affair: no session above has a say.
const OWN: [&str; 2] = ["todowrite", "todoread"];

/// Permission to run a command outside its sandbox. Only a rule under this very name allows it: `"*": "allow"`
/// speaks of
/// the permissions that are asked for inside.
pub const LEAVE_SANDBOX: &str = "sandbox";

/// Permission of a sandboxed command to reach a host that the settings do not name. As [`LEAVE_SANDBOX`], only a rule
/// under this very name allows it.
pub const REACH_HOST: &str = "network";

/// Rules of the sessions above, each list by itself.
pub type Above = Vec<Arc<[Rule]>>;

/// Everything that decides about a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    layers: Vec<Layer>,
}

/// Rules of one origin. Within a layer the last match decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub origin: Origin,
    pub rules: Arc<[Rule]>,
}

/// The origin of a layer, which decides its action where no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The agent: the defaults, its own nature, the user's rules. Asks where nothing matches.
    Agent,
    /// An agent's limits, which the user's general rules cannot loosen. Has no opinion where nothing matches.
    Floor,
    /// The administrator. Has no opinion where nothing matches.
    Administrator,
    /// A session above this one. Only its denials count.
    Above,
}

impl Origin {
    /// Returns the heading under which people see a layer.
    pub fn title(self) -> &'static str {
        match self {
            Self::Agent => "Rules (the last that matches decides)",
            Self::Floor => "Limits of this agent",
            Self::Administrator => "Administrator's rules (the stricter counts)",
            Self::Above => "Denied by a session above",
        }
    }

    /// Returns the key under which JSON shows a layer.
    pub fn key(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Floor => "floor",
            Self::Administrator => "administrator",
            Self::Above => "above",
        }
    }
}

impl Policy {
    /// Returns the policy of an agent with these rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { layers: vec![Layer { origin: Origin::Agent, rules: rules.into() }] }
    }

    /// Adds a layer, unless it says nothing.
    #[must_use]
    pub fn with(mut self, origin: Origin, rules: &[Rule]) -> Self {
        if !rules.is_empty() {
            self.layers.push(Layer { origin, rules: rules.into() });
        }
        self
    }

    /// Appends rules to the agent's own, its floor included. An administrator and the sessions above stay.
    pub fn extend(&mut self, rules: &[Rule]) {
        if rules.is_empty() {
            return;
        }
        for layer in &mut self.layers {
            match layer.origin {
                Origin::Agent | Origin::Floor => layer.rules = [&*layer.rules, rules].concat().into(),
                Origin::Administrator | Origin::Above => {}
            }
        }
    }

    /// Adds the denials of the sessions above.
    #[must_use]
    pub fn below(mut self, above: &Above) -> Self {
        let layers = above.iter().map(|rules| Layer { origin: Origin::Above, rules: rules.clone() });
        self.layers.extend(layers);
        self
    }

    /// Returns the layers, each as one list, that bind a session started under this policy.
    pub fn for_children(&self) -> Above {
        self.layers.iter().map(|layer| layer.rules.clone()).collect()
    }

    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the agent's own rules: those that a user reads and changes.
    pub fn rules(&self) -> &[Rule] {
        self.layers.iter().find(|layer| layer.origin == Origin::Agent).map_or(&[], |layer| &layer.rules)
    }

    /// Returns the strictest verdict of all layers.
    pub fn evaluate(&self, permission: &str, pattern: &str) -> Action {
        let verdicts = self.layers.iter().map(|layer| layer.evaluate(permission, pattern));
        verdicts.reduce(strictest).unwrap_or(Action::Ask)
    }

    /// Returns the rule that decides: that of the first layer with the strictest verdict; none where it says nothing.
    pub fn last_match(&self, permission: &str, pattern: &str) -> Option<&Rule> {
        let verdict = self.evaluate(permission, pattern);
        let layer = self.layers.iter().find(|layer| layer.evaluate(permission, pattern) == verdict)?;
        layer.last_match(permission, pattern)
    }

    /// Returns the agent's own rules that speak of a permission.
    pub fn about(&self, permission: &str) -> Vec<Rule> {
        let agent = self.layers.iter().find(|layer| layer.origin == Origin::Agent);
        agent.map(|layer| layer.about(permission)).unwrap_or_default()
    }

    /// Returns every rule about a permission in the layer that denies a pattern, for the model to see the possible
    /// calls.
    pub fn denial(&self, permission: &str, pattern: &str) -> Vec<Rule> {
        let denies = |layer: &&Layer| layer.evaluate(permission, pattern) == Action::Deny;
        self.layers.iter().find(denies).map(|layer| layer.about(permission)).unwrap_or_default()
    }

    /// Returns true if some pattern of a permission is asked about or denied.
    pub fn is_restricted(&self, permission: &str) -> bool {
        self.layers.is_empty() || self.layers.iter().any(|layer| layer.is_restricted(permission))
    }

    /// Returns true if a layer denies everything of a permission, so that its tools are not offered.
    pub fn hides(&self, permission: &str) -> bool {
        self.layers.iter().any(|layer| layer.hides(permission, |_| true))
    }

    /// Does the same as [`Policy::hides`] for the patterns that `is_meant` accepts.
    pub fn hides_all(&self, permission: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        self.layers.iter().any(|layer| layer.hides(permission, &is_meant))
    }
}

impl Layer {
    /// Returns the action of this layer alone.
    pub fn evaluate(&self, permission: &str, pattern: &str) -> Action {
        if self.origin == Origin::Above && OWN.contains(&permission) {
            return Action::Allow;
        }
        let said = self.last_match(permission, pattern).map(|rule| rule.action);
        match (self.origin, said) {
            (Origin::Agent, None) => Action::Ask,
            (Origin::Floor | Origin::Administrator | Origin::Above, None) => Action::Allow,
            (Origin::Above, Some(Action::Ask)) => Action::Allow,
            (_, Some(action)) => action,
        }
    }

    fn last_match(&self, permission: &str, pattern: &str) -> Option<&Rule> {
        let may_decide = |rule: &&Rule| {
            let is_bounded = matches!(permission, LEAVE_SANDBOX | REACH_HOST);
            !is_bounded || rule.permission == permission || rule.action != Action::Allow
        };
        last_match(permission, pattern, self.rules.iter().filter(may_decide))
    }

    /// Returns the rules that speak of a permission, the general ones too, in order.
    pub fn about(&self, permission: &str) -> Vec<Rule> {
        self.rules.iter().filter(|rule| wildcard(&rule.permission, permission)).cloned().collect()
    }

    fn is_restricted(&self, permission: &str) -> bool {
        if self.origin == Origin::Above && OWN.contains(&permission) {
            return false;
        }
        let mut later: Vec<&Rule> = Vec::new();
        for rule in self.rules.iter().rev().filter(|rule| wildcard(&rule.permission, permission)) {
            let counts = match rule.action {
                Action::Allow if rule.pattern == "*" => return false,
                Action::Allow => false,
                Action::Ask => self.origin != Origin::Above,
                Action::Deny => true,
            };
            if counts && !later.iter().any(|later| covers(&later.pattern, &rule.pattern)) {
                return true;
            }
            later.push(rule);
        }
        self.origin == Origin::Agent
    }

    /// Returns true if a rule denies everything and none behind it does anything else.
    fn hides(&self, permission: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        if self.origin == Origin::Above && OWN.contains(&permission) {
            return false;
        }
        let about = self.rules.iter().rev().filter(|rule| wildcard(&rule.permission, permission));
        let about = about.filter(|rule| is_meant(&rule.pattern));
        let mut denials = about.take_while(|rule| rule.action == Action::Deny);
        denials.any(|rule| rule.pattern == "*")
    }
}

#[cfg(test)]
mod tests;
