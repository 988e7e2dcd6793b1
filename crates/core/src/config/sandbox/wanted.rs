//! Looks up the settings of the sandbox of an agent or a server.

use serde_json::{Value, json};
use windlass_base::{names::Names, sandbox::Level};
use windlass_protocol::opencode::settings::{
    AgentSandbox, SandboxAtStart, SandboxMode, SandboxNetwork, SandboxSettings, ServerSandbox, WholeNetwork,
};

/// Agents that change nothing, unless the user says otherwise.
const READING: [&str; 2] = ["plan", "explore"];

/// The network that commands reach, from none to all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Deny,
    Loopback,
    Named(Names),
    Allow,
}

/// Settings for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub mode: SandboxMode,
    pub network: Reach,
    pub writable: Vec<String>,
    /// Variables to keep.
    pub environment: Vec<String>,
    /// Places of credentials that can be read all the same.
    pub readable: Vec<String>,
    pub ask_less: bool,
    /// Set when no command may run outside, on any machine.
    pub is_required: bool,
    /// Set when the user did not ask for this mode: it is then only for machines that can hold all of it.
    pub is_default: bool,
}

/// Returns true if the user's own settings do not say where an agent's commands run: then those that rules let through
/// unasked may be bounded all the same.
pub fn is_left_open(settings: &SandboxSettings, agent: &str) -> bool {
    let wanted = wanted(settings, agent);
    wanted.mode == SandboxMode::Off && wanted.is_default && settings.at_start != SandboxAtStart::Off
}

/// Looks up the settings of an agent; those by its name are stronger.
pub fn wanted(settings: &SandboxSettings, agent: &str) -> Wanted {
    let none = AgentSandbox::default();
    let own = settings.agents.get(agent).unwrap_or(&none);
    let is_reader = READING.contains(&agent);
    let is_own_mode = !is_reader || settings.mode == Some(SandboxMode::Off);
    let said = own.mode.or(settings.mode.filter(|_| is_own_mode));
    let network = Reach::of(own.network.as_ref().or(settings.network.as_ref()));
    let is_off_for_all = own.mode.is_none() && said == Some(SandboxMode::Off);
    // A network cannot be closed without a sandbox.
    let is_implied = network != Reach::Allow && (said.is_none() || is_off_for_all && own.network.is_some());
    let is_required = settings.required == Some(true);
    let is_usual = is_required || settings.at_start == SandboxAtStart::Usual;
    let is_reader = is_reader || settings.at_start == SandboxAtStart::ReadOnly;
    let fallback = match (is_reader, is_implied || is_usual) {
        (true, _) => SandboxMode::ReadOnly,
        (false, true) => SandboxMode::WorkspaceWrite,
        (false, false) => SandboxMode::Off,
    };
    let mode = match said.filter(|_| !is_implied).unwrap_or(fallback) {
        SandboxMode::Off if is_required => fallback,
        _ if settings.at_start == SandboxAtStart::Off && !is_required => SandboxMode::Off,
        mode => mode,
    };
    let list = |own: &Option<Vec<String>>, general: &Option<Vec<String>>| {
        own.as_ref().or(general.as_ref()).cloned().unwrap_or_default()
    };
    Wanted {
        mode,
        network,
        writable: list(&own.writable, &settings.writable),
        environment: list(&own.environment, &settings.environment),
        readable: list(&own.readable, &settings.readable),
        ask_less: own.ask_less.or(settings.ask_less).unwrap_or(false),
        is_required,
        is_default: said.is_none() && !is_implied && !is_required,
    }
}

/// Looks up the settings of servers, such as those of MCP.
pub fn wanted_of_servers(settings: &ServerSandbox) -> Wanted {
    let network = Reach::of(settings.network.as_ref());
    let is_open = network == Reach::Allow;
    let fallback = if is_open { SandboxMode::Off } else { SandboxMode::WorkspaceWrite };
    Wanted {
        mode: settings.mode.unwrap_or(fallback),
        network,
        writable: settings.writable.clone().unwrap_or_default(),
        environment: settings.environment.clone().unwrap_or_default(),
        readable: settings.readable.clone().unwrap_or_default(),
        ask_less: false,
        is_required: false,
        is_default: false,
    }
}

/// Looks up the settings of servers that a project brings: they are held where the user's `own` settings say nothing else
/// and the machine holds the full level. The `whole` settings, to which the project adds, can only be stricter.
pub fn wanted_of_projects_servers(
    own: &ServerSandbox,
    whole: &ServerSandbox,
    at_start: SandboxAtStart,
) -> Wanted {
    let said = wanted_of_servers(own);
    let is_said = own.mode.is_some() || said.mode != SandboxMode::Off;
    let wanted = if is_said || at_start == SandboxAtStart::Off {
        said
    } else {
        Wanted { mode: SandboxMode::WorkspaceWrite, is_default: true, ..said }
    };
    let whole = wanted_of_servers(whole);
    match (wanted.mode, whole.mode) {
        (_, SandboxMode::Off) => wanted,
        (SandboxMode::Off, _) => whole,
        _ => wanted.narrowed(whole),
    }
}

/// Looks up the agents of a session and of those above it and returns the sandbox that holds for all of them; none
/// where all run outside. `level` is the machine's.
pub fn narrowest<'a>(
    settings: &SandboxSettings,
    agents: impl Iterator<Item = &'a str>,
    level: Level,
) -> Option<Wanted> {
    agents.map(|agent| wanted(settings, agent)).filter(|it| it.is_used(level)).reduce(Wanted::narrowed)
}

impl Reach {
    /// Reads a setting. One that cannot be understood is the strictest.
    fn of(setting: Option<&SandboxNetwork>) -> Self {
        match setting {
            None | Some(SandboxNetwork::Whole(WholeNetwork::Allow)) => Self::Allow,
            Some(SandboxNetwork::Whole(WholeNetwork::Deny)) => Self::Deny,
            Some(SandboxNetwork::Whole(WholeNetwork::Loopback)) => Self::Loopback,
            Some(SandboxNetwork::Named(named)) => Names::parse(named).map_or(Self::Deny, Self::Named),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Deny => 0,
            Self::Loopback => 1,
            Self::Named(_) => 2,
            Self::Allow => 3,
        }
    }

    /// Returns, in words, the places that are reached here and not there.
    fn wider_than(&self, old: &Self) -> Vec<String> {
        let mut acc = match (self, old) {
            (Self::Named(new), Self::Named(old)) => new.wider_than(old),
            _ if self.rank() > old.rank() => vec!["more of the network".to_owned()],
            _ => Vec::new(),
        };
        // Such as a key that a command does not have although it has all of the network.
        acc.extend(self.names().into_iter().flat_map(|new| new.gives_more_than(old.names())));
        acc
    }

    /// Returns the network that both reach.
    fn narrowed(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named(mine), Self::Named(others)) => Self::Named(mine.and(others)),
            (mine, others) if mine.rank() <= others.rank() => mine,
            (_, others) => others,
        }
    }

    /// Returns the lists of a network by name.
    pub fn names(&self) -> Option<&Names> {
        match self {
            Self::Named(names) => Some(names),
            Self::Deny | Self::Loopback | Self::Allow => None,
        }
    }

    /// Returns the word for it, or its lists, as people are shown them.
    pub fn shown(&self) -> Value {
        match self {
            Self::Deny => json!("deny"),
            Self::Loopback => json!("loopback"),
            Self::Named(names) => {
                let (allow, deny) = names.shown();
                let allow = match allow.as_slice() {
                    [list] => json!(list),
                    // A host has to be in each of them.
                    lists => json!(lists),
                };
                let mut shown = json!({"allow": allow, "deny": deny});
                let keys = names.shown_keys();
                if !keys.is_empty() {
                    shown["keys"] = json!(keys);
                }
                shown
            }
            Self::Allow => json!("allow"),
        }
    }
}

impl Wanted {
    /// Returns the sandbox that only bounds writes, to the places that [`Writes`](super::Writes) says.
    pub fn of_writes() -> Self {
        Self {
            mode: SandboxMode::WorkspaceWrite,
            network: Reach::Allow,
            writable: Vec::new(),
            environment: Vec::new(),
            readable: Vec::new(),
            ask_less: false,
            is_required: false,
            is_default: true,
        }
    }

    /// Returns true if commands run in a sandbox, or ask to run outside because there is none, on a machine that holds
    /// this level.
    pub fn is_used(&self, level: Level) -> bool {
        self.mode != SandboxMode::Off && (level.is_full() || !self.is_default)
    }

    /// Returns the parts that are wider than in another sandbox.
    pub fn wider_than(&self, old: &Self) -> Vec<String> {
        let new = self;
        let mut acc = Vec::new();
        if new.mode > old.mode {
            acc.push(format!("mode {} → {}", old.mode.name(), new.mode.name()));
        } else if new.is_default && !old.is_default && new.mode != SandboxMode::Off {
            acc.push("its mode holds only where the machine can hold all of it".to_owned());
        }
        acc.extend(new.network.wider_than(&old.network));
        for (word, old, new) in [
            ("writes", &old.writable, &new.writable),
            ("sees the variable", &old.environment, &new.environment),
            ("reads", &old.readable, &new.readable),
        ] {
            acc.extend(new.iter().filter(|it| !old.contains(it)).map(|it| format!("{word} {it}")));
        }
        if new.ask_less && !old.ask_less {
            acc.push("`ask` rules of `bash` are skipped".to_owned());
        }
        if old.is_required && !new.is_required {
            acc.push("commands may run outside".to_owned());
        }
        acc
    }

    /// Returns the sandbox that both allow.
    fn narrowed(self, other: Self) -> Self {
        let both = |mine: Vec<String>, others: &[String]| -> Vec<String> {
            mine.into_iter().filter(|it| others.contains(it)).collect()
        };
        Self {
            mode: self.mode.min(other.mode),
            network: self.network.narrowed(other.network),
            writable: both(self.writable, &other.writable),
            environment: both(self.environment, &other.environment),
            readable: both(self.readable, &other.readable),
            is_required: self.is_required || other.is_required,
            ask_less: self.ask_less && other.ask_less,
            is_default: self.is_default && other.is_default,
        }
    }
}
