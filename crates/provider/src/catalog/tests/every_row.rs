//! Every provider of the catalog with each of its wires: the address, the place of the key, and two steps with calls
//! of tools, against a server that holds requests to the wire's rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::Path,
};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use windlass_core::config::sandbox::{KEY_VARIABLES, SHARED_VARIABLES};

use super::{catalog, config};
use crate as provider;
use crate::{
    AssistantContent, Auth, Delta, Finish, Model, Prompt, PromptMessage, ToolResult, ToolSpec, UserContent,
    Wire,
    catalog::{rows, source, table::Listed},
    http::{
        self,
        fixture::{event_stream, judge::judge},
    },
};

/// Providers that the catalog has and that nothing here speaks to: their packages bring protocols of their own.
const SILENT: [&str; 7] =
    ["aihubmix", "gitlab", "merge-gateway", "qvac", "salad-cloud", "sap-ai-core", "watsonx"];

/// Variables of addresses that the catalog does not name with their providers.
const OTHERS: [&str; 3] = ["CLOUDFLARE_GATEWAY_ID", "CLOUDFLARE_ACCOUNT_ID", "AZURE_RESOURCE_NAME"];

/// Returns a value for a variable of the catalog.
fn value(name: &str) -> String {
    match name {
        "AWS_REGION" => "eu-west-1".to_owned(),
        _ if name.contains("URL") => {
            format!("https://{}.example", name.to_ascii_lowercase().replace('_', "-"))
        }
        _ if name.contains("HOST") => format!("{}.example", name.to_ascii_lowercase().replace('_', "-")),
        _ => format!("v{}", name.to_ascii_lowercase().replace('_', "")),
    }
}

fn listed() -> Vec<Listed> {
    let config = config(&json!({}), &[]);
    source::load(&config.environment, &config.paths, &mut Vec::new()).providers()
}

/// Returns a model for each wire of each provider, with all of the catalog's variables set.
fn models(listed: &[Listed]) -> BTreeMap<String, Model> {
    let mut variables: BTreeMap<String, String> =
        listed.iter().flat_map(|it| &it.env).map(|name| (name.clone(), value(name))).collect();
    for name in OTHERS {
        variables.insert(name.to_owned(), value(name));
    }
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let options = |it: &Listed| (it.id.clone(), json!({"options": {"apiKey": "key-of-the-row"}}));
    let text = json!({"provider": listed.iter().map(options).collect::<Map<String, Value>>()});
    let mut found = BTreeMap::new();
    for provider in catalog(&text, &variables).providers {
        for model in provider.models.into_iter().filter(|model| !model.is_demo()) {
            found.entry(format!("{}, {}", provider.id, model.wire.name())).or_insert(model);
        }
    }
    found
}

fn stream(wire: Wire, case: &str) -> Vec<u8> {
    let folder = match wire {
        Wire::OpenAiChat => "openai_chat",
        Wire::OpenAiResponses => "openai_responses",
        Wire::Anthropic => "anthropic",
        Wire::Google => "google",
        Wire::Bedrock => "bedrock",
        Wire::Demo => panic!("the demo has no wire"),
    };
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/providers").join(folder).join(case);
    if wire == Wire::Bedrock {
        event_stream(&fs::read_to_string(folder.join("stream.json")).unwrap())
    } else {
        fs::read(folder.join("stream.sse")).unwrap()
    }
}

/// Reads one request: its first line, its headers and its body.
async fn receive(socket: &mut TcpStream) -> Option<(String, String, Value)> {
    let mut received = Vec::new();
    loop {
        if let Some(at) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..at]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if received.len() >= at + 4 + length.parse::<usize>().unwrap() {
                let body = serde_json::from_slice(&received[at + 4..]).unwrap();
                let line = head.lines().next().unwrap_or_default().to_owned();
                return Some((line, head, body));
            }
        }
        if socket.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Answers the first step with calls and the second with text, and returns both requests.
async fn serve(listener: &TcpListener, wire: Wire) -> Vec<(String, String, Value)> {
    let mut requests = Vec::new();
    for case in ["tool_calls", "text"] {
        let (mut socket, _) = listener.accept().await.unwrap();
        requests.push(receive(&mut socket).await.unwrap());
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        socket.write_all(&[head.as_bytes(), &stream(wire, case)].concat()).await.unwrap();
    }
    requests
}

async fn ask(client: &http::Client, model: &Model, prompt: &Prompt<'_>) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut stream = provider::stream(client, model, prompt).await.unwrap();
    while stream.next(&mut deltas).await.unwrap() {}
    deltas
}

/// A step's answer as the engine keeps it.
#[derive(Default)]
struct Said {
    text: String,
    thought: Option<(String, String)>,
    calls: Vec<(u32, String, String, Option<String>)>,
}

fn said(deltas: Vec<Delta>) -> Said {
    let mut said = Said::default();
    for delta in deltas {
        match delta {
            Delta::Text { text, .. } => said.text.push_str(&text),
            Delta::Reasoning { text, .. } => said.thought.get_or_insert_default().0.push_str(&text),
            Delta::ToolCallStart { block, call_id, name } => said.calls.push((block, call_id, name, None)),
            Delta::Signature { block, signature } => {
                match said.calls.iter_mut().find(|(known, ..)| *known == block) {
                    Some((.., signed)) => *signed = Some(signature),
                    None => said.thought.get_or_insert_default().1.push_str(&signature),
                }
            }
            Delta::Finish(finish) => assert_eq!(finish, Finish::ToolCalls),
            _ => {}
        }
    }
    said
}

fn prompt<'a>(model: &Model, schema: &'a Value, messages: Vec<PromptMessage<'a>>) -> Prompt<'a> {
    let tool = |name: &'static str| ToolSpec {
        name: name.into(),
        description: "Reads.".into(),
        schema: std::borrow::Cow::Borrowed(schema),
    };
    Prompt {
        system: vec!["You help.".into(), "Here.".into()],
        messages,
        tools: vec![tool("read"), tool("glob")],
        temperature: model.sampling.temperature.filter(|_| model.takes_temperature),
        max_output_tokens: Some(32_000),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    }
}

async fn run(client: &http::Client, listener: &TcpListener, model: &Model) -> Vec<(String, String, Value)> {
    let schema = json!({"$schema": "x", "type": "object", "properties": {"filePath": {"type": "string"}},
        "required": ["filePath"], "additionalProperties": false});
    let user = PromptMessage::User(vec![UserContent::Text("Read both.".into())]);
    let asks = async {
        let first = ask(client, model, &prompt(model, &schema, vec![user.clone()])).await;
        let Said { text, thought, calls } = said(first);
        assert_eq!(calls.len(), 2);
        let input = json!({"filePath": "a.txt"});
        let mut answer = Vec::new();
        if let Some((text, signature)) = &thought {
            let signature = Some(signature.as_str()).filter(|signature| !signature.is_empty());
            answer.push(AssistantContent::Reasoning { text: text.into(), signature });
        }
        if !text.is_empty() {
            answer.push(AssistantContent::Text(text.into()));
        }
        let results = calls.iter().map(|(_, call_id, name, signature)| {
            answer.push(AssistantContent::ToolCall {
                call_id,
                name,
                input: &input,
                signature: signature.as_deref(),
            });
            ToolResult { call_id, name, output: "one".into(), is_error: false, media: Vec::new() }
        });
        let results = PromptMessage::ToolResults(results.collect());
        let second = vec![user.clone(), PromptMessage::Assistant(answer), results];
        let deltas = ask(client, model, &prompt(model, &schema, second)).await;
        assert!(deltas.iter().any(|delta| matches!(delta, Delta::Text { .. })));
    };
    let ((), requests) = tokio::join!(asks, serve(listener, model.wire));
    requests
}

/// Returns the path, without a query, by which a wire asks a model.
fn path_of(model: &Model) -> String {
    let id = &model.api_id;
    match model.wire {
        Wire::OpenAiChat => "/chat/completions".to_owned(),
        Wire::OpenAiResponses => "/responses".to_owned(),
        Wire::Anthropic if model.base_url.ends_with("/publishers/anthropic") => {
            format!("/models/{id}:streamRawPredict")
        }
        Wire::Anthropic => "/messages".to_owned(),
        Wire::Google if id.contains('/') => format!("/{id}:streamGenerateContent"),
        Wire::Google => format!("/models/{id}:streamGenerateContent"),
        Wire::Bedrock => format!("/model/{}/converse-stream", id.replace(':', "%3A")),
        Wire::Demo => panic!("the demo has no wire"),
    }
}

#[test]
fn every_row_takes_two_steps_at_its_address_with_its_key() {
    let listed = listed();
    let models = models(&listed);
    let config = config(&json!({}), &[]);
    let table = source::load(&config.environment, &config.paths, &mut Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = http::Client::default();
    for (name, model) in &models {
        // The host is the row's; the rest of the address is asked here.
        let url = reqwest::Url::parse(&model.base_url).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!model.base_url.contains("${"), "{name}: {}", model.base_url);
        assert!(
            url.scheme() == "https"
                || url.host_str() == Some("127.0.0.1")
                || url.host_str() == Some("localhost")
        );
        // A model may have an address of its own.
        let row = listed.iter().find(|it| it.id == model.provider_id).unwrap();
        let of_models =
            table.models(row).into_iter().map(|(_, entry)| entry.config().provider.and_then(|it| it.api));
        let known: Vec<String> = of_models.chain([row.api.clone()]).flatten().collect();
        let is_plain = !known.is_empty() && known.iter().all(|api| !api.contains("${"));
        if is_plain && rows::find(&row.id).is_none_or(|row| row.url.is_none()) {
            let hosts: Vec<Option<String>> = known
                .iter()
                .map(|api| reqwest::Url::parse(api).unwrap().host_str().map(str::to_owned))
                .collect();
            assert!(hosts.contains(&url.host_str().map(str::to_owned)) || row.api.is_none(), "{name}: {url}");
        }
        let requests = runtime.block_on(async {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let mut model = model.clone();
            // The exchange of a key for a token is another test's matter.
            (model.exchange, model.has_login) = (None, false);
            let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
            let path = url.path().trim_end_matches('/');
            model.base_url = format!("http://{}{path}{query}", listener.local_addr().unwrap());
            run(&client, &listener, &model).await
        });
        for (line, head, body) in &requests {
            let (base, path) = (url.path().trim_end_matches('/'), path_of(model));
            // A row may name the whole address.
            let base = base.strip_suffix(&path).unwrap_or(base);
            let expected = format!("POST {base}{path}");
            let asked = line.split(['?', ' ']).take(2).collect::<Vec<_>>().join(" ");
            assert_eq!(asked, expected, "{name}");
            let key = match model.auth {
                Auth::Bearer => "authorization: Bearer key-of-the-row".to_owned(),
                Auth::Header(header) => format!("{header}: key-of-the-row"),
                Auth::BearerIn(header) => format!("{header}: Bearer key-of-the-row"),
            };
            assert!(head.lines().any(|line| line == key), "{name}: {head}");
            judge(model.wire, body);
        }
        assert!(requests[1].2.to_string().contains("one"), "{name}");
    }
    println!("{} rows with their wires", models.len());
    let is_silent = |id: &&str| !models.values().any(|model| model.provider_id == *id);
    let silent: Vec<&str> = listed.iter().map(|it| it.id.as_str()).filter(is_silent).collect();
    assert!(silent.iter().all(|id| SILENT.contains(id)), "{silent:?}");
}

/// Returns the page of all providers.
fn page(listed: &[Listed]) -> String {
    let models = models(listed);
    let recorded = super::recorded::recorded();
    let is_compared = |id: &str| recorded.iter().any(|it| it.model.split('/').next() == Some(id));
    let mut page = "# All providers\n\nA test writes this page from the catalog.\nIt lists the providers, with the variables of their keys and addresses, their \
        protocols, and the address of the first one.\nEach row is run through two steps with calls of tools against a server \
        that checks address, key and body; ✓ marks those whose requests are also compared with OpenCode's, key by \
        key.\n[Providers](providers.md) explains protocols and configuration.\n\n| id | variables | protocols | address \
        | |\n|---|---|---|---|---|\n"
        .to_owned();
    for provider in listed {
        let own: Vec<&Model> = models.values().filter(|model| model.provider_id == provider.id).collect();
        let variables: Vec<String> = provider.env.iter().map(|name| format!("`{name}`")).collect();
        let wires: Vec<&str> = own.iter().map(|model| model.wire.name()).collect();
        let address = own.first().map_or("a package of its own is needed".to_owned(), |model| {
            let names = provider.env.iter().map(String::as_str).chain(OTHERS);
            names.fold(model.base_url.clone(), |url, name| url.replace(&value(name), &format!("${{{name}}}")))
        });
        let mark = if is_compared(&provider.id) { "✓" } else { "" };
        page.push_str(&format!(
            "| `{}` | {} | {} | {address} | {mark} |\n",
            provider.id,
            variables.join(", "),
            wires.join(", ")
        ));
    }
    page
}

#[test]
fn the_page_lists_every_provider() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let expected = page(&listed());
    if fs::read_to_string(root.join("docs/provider-list.md")).unwrap_or_default() != expected {
        fs::write(root.join("target/provider-list.md"), expected).unwrap();
        panic!("run `cp target/provider-list.md docs/`");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of the test, not a setting")]
fn commands_are_kept_from_every_variable_of_a_key_that_is_windlasss_own() {
    let words = ["KEY", "TOKEN", "SECRET", "PAT"];
    let is_key = |name: &&String| {
        name.split('_').any(|word| words.iter().any(|key| word.ends_with(key)))
            && !name.ends_with("_API_KEY")
            && !SHARED_VARIABLES.contains(&name.as_str())
    };
    let listed = listed();
    let names: BTreeSet<&String> = listed.iter().flat_map(|it| &it.env).filter(is_key).collect();
    let text: String = names.into_iter().map(|name| format!("{name}\n")).collect();
    if text != KEY_VARIABLES {
        assert!(std::env::var("UPDATE_EXPECT").is_ok(), "run with UPDATE_EXPECT=1 to write it:\n{text}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/config/sandbox/key_variables.txt");
        fs::write(file, text).unwrap();
    }
}
