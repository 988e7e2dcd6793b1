//! Offers of the chat where no model is configured at all: a login, a server of models on this machine, or the demo.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_core::config::Environment;

use super::super::output::plain;

/// Time that a server on this machine may take to list its models.
const LIMIT: Duration = Duration::from_millis(700);
/// Models of a server that are named.
const MAX_NAMED: usize = 4;
/// The model that needs nothing.
pub const DEMO: &str = "windlass/demo";

/// A program that serves models on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// Id and name of the provider that it becomes.
    id: &'static str,
    name: &'static str,
    base_url: String,
    models: Vec<String>,
}

/// A way to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    LogIn,
    Local(LocalServer),
    Demo,
}

impl Offer {
    pub fn sentence(&self) -> String {
        match self {
            Self::LogIn => "log in at a provider, or store its key".to_owned(),
            Self::Local(server) => {
                let named: Vec<String> =
                    server.models.iter().take(MAX_NAMED).map(|model| plain(model)).collect();
                let more = if server.models.len() > MAX_NAMED { ", …" } else { "" };
                format!("use {}, which runs on this machine: {}{more}", server.name, named.join(", "))
            }
            Self::Demo => "look at the demo, which needs no key".to_owned(),
        }
    }
}

/// Looks for servers of models where Ollama and LM Studio have them.
pub async fn offers(environment: &Environment) -> Vec<Offer> {
    let ollama = environment.get("OLLAMA_HOST").map(str::trim).filter(|host| !host.is_empty());
    let ollama = ollama_address(ollama.unwrap_or("127.0.0.1"));
    let lm_studio = "http://127.0.0.1:1234".to_owned();
    let (ollama, lm_studio) =
        tokio::join!(local("ollama", "Ollama", ollama), local("lmstudio", "LM Studio", lm_studio));
    let local = ollama.into_iter().chain(lm_studio).map(Offer::Local);
    std::iter::once(Offer::LogIn).chain(local).chain([Offer::Demo]).collect()
}

/// Returns the address that Ollama's own variable means: a host, a port or both. A server that listens on all addresses is
/// asked at this machine's own.
fn ollama_address(host: &str) -> String {
    let (scheme, host) = host.split_once("://").unwrap_or(("http", host));
    let host = host.trim_end_matches('/').replace("0.0.0.0", "127.0.0.1");
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match host.strip_prefix(':') {
        Some(port) => format!("{scheme}://127.0.0.1:{port}"),
        None if has_port => format!("{scheme}://{host}"),
        None => format!("{scheme}://{host}:11434"),
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

async fn local(id: &'static str, name: &'static str, address: String) -> Option<LocalServer> {
    let base_url = format!("{address}/v1");
    // Fails if another part of the process has installed one, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let client = client.timeout(LIMIT).build().ok()?;
    let listed = client.get(format!("{base_url}/models")).send().await.ok()?.json::<Listed>().await.ok()?;
    let models: Vec<String> = listed.data.into_iter().map(|model| model.id).collect();
    (!models.is_empty()).then_some(LocalServer { id, name, base_url, models })
}

impl LocalServer {
    /// Returns the model that it lists first, by its full name.
    pub fn first(&self) -> String {
        self.models.first().map(|model| format!("{}/{model}", self.id)).unwrap_or_default()
    }

    /// Returns the settings that make its models usable.
    pub fn settings(&self) -> Value {
        let models: Map<String, Value> = self.models.iter().map(|model| (model.clone(), json!({}))).collect();
        json!({
            "model": self.first(),
            "provider": {self.id: {
                "npm": "@ai-sdk/openai-compatible",
                "name": self.name,
                "options": {"baseURL": self.base_url},
                "models": models,
            }},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_of_ollama_names_a_host_a_port_or_both() {
        for (named, address) in [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            (":8000", "http://127.0.0.1:8000"),
            ("https://models.example/", "https://models.example:11434"),
            ("box:80", "http://box:80"),
        ] {
            assert_eq!(ollama_address(named), address);
        }
    }

    #[test]
    fn a_server_on_this_machine_becomes_a_provider() {
        let models = vec!["small".to_owned(), "large".to_owned()];
        let base_url = "http://127.0.0.1:11434/v1".to_owned();
        let server = LocalServer { id: "ollama", name: "Ollama", base_url, models };
        let settings = server.settings();
        assert_eq!(settings["model"], "ollama/small");
        assert_eq!(settings["provider"]["ollama"]["models"], json!({"small": {}, "large": {}}));
        assert_eq!(Offer::Local(server).sentence(), "use Ollama, which runs on this machine: small, large");
    }
}
