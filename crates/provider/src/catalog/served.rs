//! Models that a server lists itself: local servers, and services with a list that depends on the account.
//!
//! A list is asked for in the background and kept in a file; the next reading of the configuration finds it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_base::hash;
use windlass_core::config::paths::Paths;

use crate::{Model, http};

/// Time that a server may take to list its models.
const LIMIT: Duration = Duration::from_secs(5);

/// Models of a list that are kept.
const MAX_MODELS: usize = 2000;

/// A model of a server's list, as far as it says something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Served {
    pub id: String,
    pub name: Option<String>,
    pub context: Option<u64>,
    pub output: Option<u64>,
    pub takes_images: Option<bool>,
    /// Paths that serve the model, the preferred one first.
    pub endpoints: Vec<String>,
}

/// The kept list of an address.
#[derive(Serialize, Deserialize)]
struct Kept {
    url: String,
    models: Vec<Served>,
}

/// Returns the list that was kept for an address. Does a blocking read.
pub(super) fn kept(paths: &Paths, url: &str) -> Option<Vec<Served>> {
    let kept: Kept = serde_json::from_slice(&fs::read(file(paths, url)).ok()?).ok()?;
    (kept.url == url).then_some(kept.models)
}

/// Asks a server for its list and keeps it; returns true if it is another one now.
pub async fn refresh(client: &http::Client, paths: &Paths, model: &Model) -> Result<bool, String> {
    let answer = http::list(client, model, LIMIT).await.map_err(|error| error.to_string())?;
    let models = decode(&answer).ok_or_else(|| format!("{} lists no models", model.base_url))?;
    let (paths, url) = (paths.clone(), model.base_url.clone());
    let kept = tokio::task::spawn_blocking(move || {
        if kept(&paths, &url).is_some_and(|before| before == models) {
            return Ok(false);
        }
        let file = file(&paths, &url);
        write(&file, &serde_json::to_vec(&Kept { url, models })?).map(|()| true)
    });
    kept.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Reads the list of OpenAI's form, and the additions of servers to it.
fn decode(answer: &Value) -> Option<Vec<Served>> {
    let items = answer.get("data").or(answer.get("models")).unwrap_or(answer).as_array()?;
    Some(items.iter().filter_map(served).take(MAX_MODELS).collect())
}

fn served(item: &Value) -> Option<Served> {
    let id = item.get("id").or(item.get("name"))?.as_str().filter(|id| !id.is_empty())?;
    // Copilot lists models that the account may not use, and some that are not for conversations.
    let is_picked = item.get("model_picker_enabled").is_none_or(|it| it != false);
    let is_allowed = item.pointer("/policy/state").is_none_or(|state| state != "disabled");
    if !is_picked || !is_allowed {
        return None;
    }
    let number = |paths: &[&str]| {
        paths.iter().find_map(|path| item.pointer(path)?.as_u64()).filter(|number| *number > 0)
    };
    let endpoints = item.get("supported_endpoints").and_then(Value::as_array);
    let endpoints = endpoints.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Some(Served {
        id: id.to_owned(),
        name: item.get("name").and_then(Value::as_str).map(str::to_owned),
        // Copilot's, vLLM's, that of routers, llama.cpp's.
        context: number(&[
            "/capabilities/limits/max_context_window_tokens",
            "/max_model_len",
            "/context_length",
            "/max_context_length",
            "/meta/n_ctx_train",
        ]),
        output: number(&["/capabilities/limits/max_output_tokens"]),
        takes_images: item.pointer("/capabilities/supports/vision").and_then(Value::as_bool),
        endpoints: endpoints.collect(),
    })
}

fn file(paths: &Paths, url: &str) -> PathBuf {
    paths.cache().join("served").join(format!("{:016x}.json", hash::fnv(url.as_bytes())))
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    let draft = file.with_extension(format!("{}.draft", std::process::id()));
    fs::write(&draft, bytes)?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    //! Lists as servers write them.

    use serde_json::json;

    use super::{Served, decode};

    #[test]
    fn lists_of_local_servers_and_of_copilot_are_read() {
        let of = |id: &str, context| Served { id: id.to_owned(), context, ..Served::default() };
        let ollama = json!({"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}]});
        assert_eq!(decode(&ollama), Some(vec![of("qwen3:8b", None)]));
        let vllm = json!({"data": [{"id": "m", "max_model_len": 32768}]});
        assert_eq!(decode(&vllm), Some(vec![of("m", Some(32768))]));
        let llama_cpp = json!({"models": [], "data": [{"id": "g.gguf", "meta": {"n_ctx_train": 4096}}]});
        assert_eq!(decode(&llama_cpp), Some(vec![of("g.gguf", Some(4096))]));
        let copilot = json!({"data": [
            {"id": "a", "name": "A", "model_picker_enabled": true, "policy": {"state": "enabled"},
             "supported_endpoints": ["/v1/messages"],
             "capabilities": {"limits": {"max_context_window_tokens": 5, "max_output_tokens": 3},
                              "supports": {"vision": true}}},
            {"id": "b", "model_picker_enabled": false},
            {"id": "c", "policy": {"state": "disabled"}},
            {"name": ""}, 7,
        ]});
        let expected = Served {
            id: "a".to_owned(),
            name: Some("A".to_owned()),
            context: Some(5),
            output: Some(3),
            takes_images: Some(true),
            endpoints: vec!["/v1/messages".to_owned()],
        };
        assert_eq!(decode(&copilot), Some(vec![expected]));
        assert_eq!(decode(&json!({"error": "x"})), None);
    }
}
