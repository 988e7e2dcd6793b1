//! The host of a directory's plugins: one process for all, or one for the user's own and a sandboxed one for the
//! project's, which are asked in this order.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::provider::UsableProviders;

pub mod call;
pub mod login;
pub mod part;

use super::{offer::Offer, packages::Installed, plan::Plan};
use windlass_base::lock::lock;
use windlass_core::config::{Config, sandbox::enclosure::Enclosure};

/// The host of a directory. Dropped, it ends.
pub struct Host {
    first: Arc<part::Part>,
    /// The part of the project, where it runs in another sandbox than the user's own.
    second: Option<Arc<part::Part>>,
    /// The offers of both as they were joined last.
    joined: Mutex<Option<Joined>>,
}

struct Joined {
    of: [Weak<Offer>; 2],
    offer: Arc<Offer>,
}

/// A hook that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError {
    /// The plugin, where it is known.
    pub plugin: Option<String>,
    pub hook: String,
    pub message: String,
    /// The message is the plugin's own.
    pub is_thrown: bool,
}

impl HookError {
    /// Returns the words for a model with a call that failed by it: the plugin's own, where it threw them.
    pub fn for_model(self) -> String {
        if self.is_thrown { self.message } else { self.to_string() }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, hook, message, .. } = self;
        match plugin {
            Some(plugin) => write!(formatter, "the plugin {plugin} failed in its hook {hook}: {message}"),
            None => write!(formatter, "the hook {hook} of a plugin failed: {message}"),
        }
    }
}

/// The model of a request, among the providers that plugins see.
#[derive(Clone, Copy)]
pub struct RequestModel<'a> {
    pub providers: &'a Arc<UsableProviders>,
    pub provider: &'a str,
    pub model: &'a str,
}

impl Host {
    /// Starts the host; it is ready some time later.
    pub fn start(first: part::Setup, second: Option<part::Setup>) -> Self {
        let part = |setup| Arc::new(part::Part::start(setup));
        Self { first: part(first), second: second.map(part), joined: Mutex::default() }
    }

    /// Returns the processes in the order in which they are asked.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &Arc<part::Part>> {
        [Some(&self.first), self.second.as_ref()].into_iter().flatten()
    }

    /// Ends the plugins and their processes.
    pub async fn close(&self) {
        join_all(self.parts().map(|it| it.close())).await;
    }

    pub fn directory(&self) -> &Path {
        &self.configuration().directory
    }

    /// Returns the configuration that it was started with.
    pub fn configuration(&self) -> &Config {
        self.first.configuration()
    }

    /// Ends when each process is ready or down, and returns true if one is ready.
    pub async fn ready(&self) -> bool {
        join_all(self.parts().map(|it| it.ready())).await.contains(&true)
    }

    pub fn plan(&self) -> &Plan {
        self.first.plan()
    }

    /// Returns the packages and dependencies that it was started with.
    pub fn installed(&self) -> &Installed {
        self.first.installed()
    }

    /// Returns the share that each process runs, and the sandbox that it was started in.
    pub fn shares(&self) -> Vec<(part::Share, Option<Enclosure>)> {
        self.parts().map(|it| (it.share(), it.sandbox().cloned())).collect()
    }

    /// Ends when the host is ready, or is known not to come up now; false after `limit`.
    pub async fn settled(&self, limit: Duration) -> bool {
        !join_all(self.parts().map(|it| it.settled(limit))).await.contains(&false)
    }

    /// Ends when the host is ready, or will not be; false after `limit`.
    pub async fn decided(&self, limit: Duration) -> bool {
        !join_all(self.parts().map(|it| it.decided(limit))).await.contains(&false)
    }

    /// Tells the user a sentence about the plugins.
    pub fn tell(&self, sentence: String) {
        self.first.tell(sentence);
    }

    /// Returns the reason why some of the plugins do not run.
    pub fn down(&self) -> Option<String> {
        self.parts().find_map(|it| it.down())
    }

    /// Returns the reason why the user's own plugins do not run, or all where one process runs them.
    pub fn own_down(&self) -> Option<String> {
        self.first.down()
    }

    /// Returns true for a plugin or tool file that ended its process so often that it is left out.
    pub fn leaves_out(&self, name: &str) -> bool {
        self.parts().any(|it| it.leaves_out(name))
    }

    /// Returns the offer of the plugins, as far as they are loaded.
    pub fn offer(&self) -> Arc<Offer> {
        let first = self.first.offer();
        let Some(second) = self.second.as_ref().map(|it| it.offer()) else { return first };
        let mut joined = lock(&self.joined);
        let of = [Arc::downgrade(&first), Arc::downgrade(&second)];
        let is_known = |known: &&Joined| known.of.iter().zip(&of).all(|(known, own)| known.ptr_eq(own));
        if let Some(known) = joined.as_ref().filter(is_known) {
            return known.offer.clone();
        }
        let offer = Arc::new(Offer::clone(&first).and(&second));
        *joined = Some(Joined { of, offer: offer.clone() });
        offer
    }

    /// Returns true if some plugin has this hook.
    pub fn declares(&self, hook: &str) -> bool {
        self.parts().any(|it| it.declares(hook))
    }

    /// Calls a hook of every plugin that has it, in their order, and returns the changed fields of `output`.
    pub async fn hook(
        &self,
        hook: &str,
        input: Value,
        mut output: Value,
    ) -> Result<Map<String, Value>, HookError> {
        let Some(second) = self.second.as_ref().filter(|it| it.declares(hook)) else {
            return self.first.hook(hook, input, output).await;
        };
        if !self.first.declares(hook) {
            return second.hook(hook, input, output).await;
        }
        let mut changed = self.first.hook(hook, input.clone(), output.clone()).await?;
        put(&changed, &mut output);
        changed.extend(second.hook(hook, input, output).await?);
        Ok(changed)
    }

    /// Returns the variables that plugins want set for a command or a terminal. Those of plugins in a sandbox are for
    /// commands in one alone: a variable may make any program run their code, such as `BASH_ENV`.
    pub async fn shell_variables(
        &self,
        input: Value,
        is_in_sandbox: bool,
    ) -> Result<BTreeMap<String, String>, HookError> {
        const HOOK: &str = "shell.env";
        let mut variables = json!({});
        for part in self.parts().filter(|it| it.declares(HOOK)) {
            if part.sandbox().is_some() && !is_in_sandbox {
                part.tell_of_variables();
                continue;
            }
            let mut changed = part.hook(HOOK, input.clone(), json!({ "env": variables })).await?;
            variables = changed.get_mut("env").map_or(variables, Value::take);
        }
        let variables = variables.as_object().into_iter().flatten();
        Ok(variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect())
    }

    /// Calls those of a request's hooks that some plugin has, and returns the changed fields of each. `outputs` are in
    /// the order of the calls.
    pub async fn request_hooks(
        &self,
        request_model: RequestModel<'_>,
        input: Value,
        mut outputs: Map<String, Value>,
    ) -> Result<Value, HookError> {
        let Some(second) = self.second.as_ref() else {
            return self.first.request_hooks(request_model, input, outputs).await;
        };
        let of = |part: &part::Part, outputs: &Map<String, Value>| -> Map<String, Value> {
            let declared = outputs.iter().filter(|(hook, _)| part.declares(hook));
            declared.map(|(hook, output)| (hook.clone(), output.clone())).collect()
        };
        let mut all = Map::new();
        for part in [&self.first, second] {
            let own = of(part, &outputs);
            if own.is_empty() {
                continue;
            }
            let Value::Object(changed) = part.request_hooks(request_model, input.clone(), own).await? else {
                continue;
            };
            for (hook, changed) in changed {
                let Value::Object(changed) = changed else { continue };
                outputs.get_mut(&hook).into_iter().for_each(|output| put(&changed, output));
                let known = all.entry(hook).or_insert_with(|| json!({}));
                put(&changed, known);
            }
        }
        Ok(Value::Object(all))
    }

    /// Returns the id of the provider's model that plugins want asked for small things.
    pub async fn small_model(&self, request_model: RequestModel<'_>) -> Result<Option<String>, HookError> {
        let mut wanted = None;
        for part in self.parts() {
            wanted = part.small_model(request_model).await?.or(wanted);
        }
        Ok(wanted)
    }

    /// Lets plugins change the descriptions of tools; returns those that they changed, the last change of one last.
    pub async fn definitions(&self, mut tools: Vec<Value>) -> Result<Vec<Value>, HookError> {
        let Some(second) = self.second.as_ref() else { return self.first.definitions(tools).await };
        let mut changed = self.first.definitions(tools.clone()).await?;
        for change in &changed {
            let is_it = |tool: &&mut Value| tool.get("toolID") == change.get("toolID");
            if let (Some(tool), Value::Object(change)) = (tools.iter_mut().find(is_it), change) {
                put(change, tool);
            }
        }
        changed.extend(second.definitions(tools).await?);
        Ok(changed)
    }

    /// Hands events to the plugins; ends when they have been taken.
    pub async fn events(&self, events: &[Value]) {
        join_all(self.parts().filter(|it| it.declares("event")).map(|it| it.events(events))).await;
    }

    /// Calls a tool. The last of a name stands.
    pub async fn call(&self, tool: &str, args: Value, context: Value) -> Result<call::Call, String> {
        let has_it = |part: &&Arc<part::Part>| part.offer().tools.iter().any(|it| it.id == tool);
        let part = self.parts().rev().find(has_it).unwrap_or(&self.first);
        part.call(tool, args, context).await
    }

    /// Returns the time that the newest processes took until they were ready.
    pub fn started_in(&self) -> Option<Duration> {
        self.parts().filter_map(|it| it.started_in()).max()
    }

    /// Returns the bytes of memory that the processes have, while one is ready.
    pub async fn memory(&self) -> Option<u64> {
        join_all(self.parts().map(|it| it.memory())).await.into_iter().flatten().reduce(|all, it| all + it)
    }

    /// Returns the process with plugins that have a part in a provider. The user's own come first.
    fn part_of(&self, provider: &str) -> &part::Part {
        let has_it = |part: &&Arc<part::Part>| {
            let offer = part.offer();
            offer.logins.iter().any(|it| it.provider == provider)
                || offer.models.iter().any(|it| it == provider)
        };
        self.parts().find(has_it).unwrap_or(&self.first)
    }
}

/// Sets fields of an object.
fn put(changed: &Map<String, Value>, output: &mut Value) {
    if let Value::Object(output) = output {
        output.extend(changed.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}
