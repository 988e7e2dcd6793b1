//! `windlass models`: lists the models that can be used in this directory.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{output, runtime};
use crate::{
    config::{Environment, paths::Paths},
    engine::{Engine, Loaded},
};

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Only the models of this provider.
    provider: Option<String>,
    /// Add each model's limits and cost as JSON.
    #[arg(long)]
    verbose: bool,
}

pub fn run(environment: Environment, args: ModelsArgs) -> ExitCode {
    let read = async {
        let directory = std::env::current_dir().map_err(|error| error.to_string())?;
        let paths = Paths::new(&environment);
        let engine = Engine::new(environment, paths);
        engine.read_files(&directory).await.map_err(|error| error.to_string())
    };
    runtime::block_on(async move {
        match read.await.and_then(|loaded| list(&loaded, &args)) {
            Ok(list) => output::say(&list),
            Err(reason) => output::fail(&format!("{reason}.")),
        }
    })
}

fn list(loaded: &Loaded, args: &ModelsArgs) -> Result<String, String> {
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
    let mut lines = Vec::new();
    for model in loaded.catalog.models().filter(|model| is_wanted(&model.provider_id)) {
        lines.push(model.reference().to_string());
        if args.verbose {
            let details = json!({
                "id": model.id,
                "providerID": model.provider_id,
                "name": model.name,
                "limit": {"context": model.limit.context, "output": model.limit.output},
                "cost": {
                    "input": model.cost.input,
                    "output": model.cost.output,
                    "cache": {"read": model.cost.cache_read, "write": model.cost.cache_write},
                },
            });
            lines.push(format!("{details:#}"));
        }
    }
    Ok(lines.join("\n"))
}
