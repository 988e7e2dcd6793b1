//! A login that a plugin brings: the choice between its methods, its questions, and its page.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use serde_json::{Map, Value};
use windlass_engine::{
    Engine,
    accounts::plugin_logins::{Begun, Login, LoginPage, Method, Prompt},
};

use super::typed::{self, Echo};
use crate::cli::output::note;

/// Returns the logins of plugins; none where another way is wanted, or where a pipe may hold a key.
pub async fn logins(engine: &Engine, directory: &Path, method: Option<&str>) -> Result<Vec<Login>, String> {
    let is_wanted = match method {
        Some(method) => method == "plugin",
        None => io::stdin().is_terminal(),
    };
    if !is_wanted {
        return Ok(Vec::new());
    }
    engine.accounts().plugin_logins(directory).await.map_err(|error| error.to_string())
}

/// Asks for the login's data, logs in and stores the result.
pub async fn log_in(engine: &Engine, directory: &Path, login: &Login) -> Result<(), String> {
    let provider = login.provider.as_str();
    let (number, method) = choose(login).await?;
    let mut inputs = Map::new();
    for prompt in &method.prompts {
        let given = Value::Object(inputs.clone());
        if engine.accounts().plugin_login_asks(directory, (provider, number), &prompt.key, &given).await? {
            inputs.insert(prompt.key.clone(), answer(prompt).await?.into());
        }
    }
    if method.kind == "api" && !method.authorizes {
        let key = typed::line("Key (not shown): ", Echo::Hidden).await.map_err(|error| error.to_string())?;
        return engine.accounts().store_plugin_key(provider, &key).await;
    }
    match engine.accounts().begin_plugin_login(directory, (provider, number), &Value::Object(inputs)).await? {
        Begun::Invalid { invalid } => Err(format!("{}: {}", invalid.field, invalid.message)),
        Begun::Ended { .. } => Ok(()),
        Begun::Page(LoginPage { url, instructions, method }) => {
            note(&format!("Open {url} in a browser.\n{instructions}"));
            let code = if method == "code" {
                let code = typed::line("Code of the page: ", Echo::Shown).await;
                Some(code.map_err(|error| error.to_string())?)
            } else {
                None
            };
            engine.accounts().end_plugin_login(directory, provider, code.as_deref()).await.map(drop)
        }
    }
}

/// Lets the user choose a method where there are several.
async fn choose(login: &Login) -> Result<(usize, &Method), String> {
    if let [only] = login.methods.as_slice() {
        return Ok((0, only));
    }
    let labels = login.methods.iter().map(|method| method.label.as_str());
    let chosen = number("Log in by (number): ", labels).await?;
    let method = login.methods.get(chosen).ok_or("the plugin has no such login")?;
    Ok((chosen, method))
}

async fn answer(prompt: &Prompt) -> Result<String, String> {
    if prompt.kind == "select" {
        let labels = prompt.options.iter().map(|option| option.label.as_str());
        let chosen = number(&format!("{} (number): ", prompt.message), labels).await?;
        return Ok(prompt.options.get(chosen).map(|option| option.value.clone()).unwrap_or_default());
    }
    let question = match &prompt.placeholder {
        Some(placeholder) => format!("{} ({placeholder}): ", prompt.message),
        None => format!("{}: ", prompt.message),
    };
    typed::line(&question, Echo::Shown).await.map_err(|error| error.to_string())
}

/// Shows rows and returns the place of the one that the user names by its number.
async fn number<'a>(question: &str, labels: impl Iterator<Item = &'a str>) -> Result<usize, String> {
    let rows: Vec<String> =
        labels.enumerate().map(|(idx, label)| format!("{:>3}. {label}", idx + 1)).collect();
    note(&rows.join("\n"));
    let line = typed::line(question, Echo::Shown).await.map_err(|error| error.to_string())?;
    let chosen = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    chosen.filter(|idx| *idx < rows.len()).ok_or_else(|| format!("`{line}` is none of these numbers"))
}
