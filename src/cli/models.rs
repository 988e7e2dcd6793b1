//! `windlass models`: lists the models that can be used in this directory.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::Args;
use serde_json::{Value, json};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, Loaded, Model};

use super::{
    options::{Format, FormatArgs},
    output,
    progress::Progress,
    runtime,
};

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Only the models of this provider.
    provider: Option<String>,
    /// Add each model's limits and cost as JSON.
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    format: FormatArgs,
    /// Fetch the catalog of models first.
    #[arg(long)]
    refresh: bool,
}

pub fn run(environment: Environment, args: ModelsArgs) -> ExitCode {
    let args = &args;
    let may_ask = args.refresh || !environment.is_on("OPENCODE_DISABLE_MODELS_FETCH");
    let read = async move {
        let directory = std::env::current_dir().map_err(|error| error.to_string())?;
        let paths = Paths::new(&environment);
        let engine = Engine::new(environment, paths);
        let _progress = Progress::of("Asking for the models");
        if args.refresh {
            engine.remote().fetch_catalog(true).await?;
        }
        let loaded = engine.workspaces().read_files(&directory).await.map_err(|error| error.to_string())?;
        if !may_ask || !engine.remote().fetch_served(&loaded).await {
            return Ok(loaded);
        }
        engine.workspaces().read_files(&directory).await.map_err(|error| error.to_string())
    };
    runtime::block_on(async move {
        match read.await.and_then(|loaded| list(&loaded, args)) {
            Ok(Listed { text, remark }) => {
                if let Some(remark) = remark {
                    output::note(&remark);
                }
                output::print_answer(&text)
            }
            Err(reason) => output::fail(&format!("{reason}.")),
        }
    })
}

/// Returns the prices of long inputs, each with the tokens of input that it begins above.
fn tiers(model: &Model) -> Vec<Value> {
    let cost = &model.cost;
    let tier = |above: u64, input: f64, output: f64, read: f64, write: f64| json!({"above": above, "input": input, "output": output, "cache": {"read": read, "write": write}});
    let tiers = cost.tiers.iter().filter(|it| it.tier.kind == "context");
    let mut tiers: Vec<Value> =
        tiers.map(|it| tier(it.tier.size, it.input, it.output, it.cache_read, it.cache_write)).collect();
    if let (Some(long), true) = (&cost.context_over_200k, tiers.is_empty()) {
        tiers.push(tier(200_000, long.input, long.output, long.cache_read, long.cache_write));
    }
    tiers
}

/// The list, and the notes beside it.
struct Listed {
    text: String,
    remark: Option<String>,
}

fn list(loaded: &Loaded, args: &ModelsArgs) -> Result<Listed, String> {
    let default = loaded.default_model();
    let is_default =
        |model: &Model| default.as_ref().is_ok_and(|default| default.reference() == model.reference());
    // A pipe gets names alone.
    let is_seen = io::stdout().is_terminal();
    let providers = &loaded.catalog.providers;
    if let Some(wanted) = &args.provider
        && !providers.iter().any(|provider| provider.id == *wanted)
    {
        let ids: Vec<&str> = providers.iter().map(|provider| provider.id.as_str()).collect();
        return Err(format!(
            "There is no provider `{wanted}` that can be used here, only {}",
            ids.join(", ")
        ));
    }
    let is_wanted = |id: &str| args.provider.as_deref().is_none_or(|wanted| wanted == id);
    let is_json = args.format.get() == Format::Json;
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for model in loaded.catalog.models().filter(|model| is_wanted(&model.provider_id)) {
        let mark = if is_seen && is_default(model) { "  (default)" } else { "" };
        lines.push(format!("{}{mark}", model.reference()));
        if args.verbose || is_json {
            let details = json!({
                "id": model.id,
                "providerID": model.provider_id,
                "name": model.name,
                "default": is_default(model),
                "wire": model.wire.name(),
                "reasoning": model.reasons,
                "variants": model.variants.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                "limit": {"context": model.limit.context, "output": model.limit.output},
                "cost": {
                    "input": model.cost.input,
                    "output": model.cost.output,
                    "cache": {"read": model.cost.cache_read, "write": model.cost.cache_write},
                    "tiers": tiers(model),
                },
            });
            lines.push(format!("{details:#}"));
            values.push(details);
        }
    }
    let remark = default.err().map(|unusable| unusable.to_string()).filter(|_| is_seen || args.verbose);
    let text = if is_json { format!("{:#}", Value::from(values)) } else { lines.join("\n") };
    Ok(Listed { text, remark })
}
