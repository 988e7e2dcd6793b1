//! Reads under `/api`: the same data as the other routes, in the envelopes of OpenCode's newer clients.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::Workspace;
use windlass_files::{FileQuery, Files, Projects};
use windlass_protocol::opencode::{file::NodeType, provider::Provider};

use super::{
    api_work::permission_view,
    body::{Answer, Params, number},
    by::By,
    error::{Failure, Piece},
    files::{DEFAULT_FOUND, MAX_FOUND},
    here::{Here, required},
    routes::{Routes, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/health", get(health))
        .route("/api/location", get(location))
        .route("/api/agent", get(agents))
        .route("/api/command", get(commands))
        .route("/api/skill", get(skills))
        .route("/api/model", get(models))
        .route("/api/provider", get(providers))
        .route("/api/reference", get(none))
        .route("/api/permission/request", get(permissions))
        .route("/api/permission/saved", get(saved))
        .route("/api/question/request", get(questions))
        .route("/api/fs/list", get(list))
        .route("/api/fs/find", get(find))
}

/// An answer about a directory.
#[derive(Debug, Serialize)]
pub struct Envelope {
    location: Value,
    data: Value,
}

/// Answers with data about a directory.
pub async fn envelope(
    server: &Shared,
    workspace: &Workspace,
    data: Value,
) -> Result<Answer<Envelope>, Failure> {
    Ok(Answer(Envelope { location: place(server, workspace).await?, data }))
}

async fn place(server: &Shared, workspace: &Workspace) -> Result<Value, Failure> {
    let project = Projects::of(&server.engine).project(workspace).await?;
    let directory = workspace.directory();
    Ok(json!({"directory": directory, "project": {"id": project.id, "directory": project.worktree}}))
}

async fn health() -> Answer<Value> {
    Answer(json!({"healthy": true}))
}

async fn location(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Value>, Failure> {
    Ok(Answer(place(&server, &workspace).await?))
}

async fn agents(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let loaded = workspace.loaded();
    let agents = loaded.agents.iter().map(|agent| {
        let rules = agent.policy.layers().iter().flat_map(|layer| layer.rules.iter());
        let permissions: Vec<Value> = rules
            .map(|rule| json!({"action": rule.permission, "resource": rule.pattern, "effect": rule.action}))
            .collect();
        let mut shown = json!({
            "id": agent.name,
            "request": {"headers": {}, "body": agent.options},
            "mode": agent.mode,
            "hidden": agent.hidden,
            "permissions": permissions,
        });
        if let (Some(shown), Some(description)) = (shown.as_object_mut(), &agent.description) {
            shown.insert("description".to_owned(), description.as_str().into());
        }
        shown
    });
    envelope(&server, &workspace, agents.collect()).await
}

async fn commands(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let commands = workspace.loaded().shown_commands(&workspace.server_commands().await);
    envelope(&server, &workspace, commands.into()).await
}

async fn skills(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let skills = workspace.loaded().shown_skills().await;
    envelope(&server, &workspace, skills.into()).await
}

async fn models(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let loaded = workspace.loaded();
    let usable = loaded.usable_providers().await;
    let models = usable.providers.iter().flat_map(|provider| provider.models.values());
    let mut models: Vec<_> = models.collect();
    // The best of each provider first, as in every other list of ours.
    let order: Vec<String> = loaded.model_choices().into_iter().map(|choice| choice.id).collect();
    let at = |id: &str| order.iter().position(|known| known == id).unwrap_or(order.len());
    models.sort_by_cached_key(|model| at(&format!("{}/{}", model.provider_id, model.id)));
    let shown = models.into_iter().map(|model| {
        let media = |media: &windlass_protocol::opencode::provider::Media| {
            let kinds = [
                ("text", media.text),
                ("audio", media.audio),
                ("image", media.image),
                ("video", media.video),
                ("pdf", media.pdf),
            ];
            kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect::<Vec<_>>()
        };
        let variants: Vec<Value> = model.variants.iter().map(|(id, _)| json!({"id": id})).collect();
        json!({
            "id": model.id,
            "providerID": model.provider_id,
            "family": model.family.clone().unwrap_or_default(),
            "name": model.name,
            "api": {"id": model.api.id, "type": "aisdk", "package": model.api.npm, "url": model.api.url},
            "capabilities": {
                "tools": model.capabilities.toolcall,
                "input": media(&model.capabilities.input),
                "output": media(&model.capabilities.output),
            },
            "request": {"headers": {}, "body": {}},
            "variants": variants,
            "time": {"released": 0},
            "cost": [model.cost],
            "status": model.status,
            "enabled": true,
            "limit": model.limit,
        })
    });
    let data: Value = shown.collect();
    envelope(&server, &workspace, data).await
}

async fn providers(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let usable = workspace.loaded().usable_providers().await;
    let shown = usable.providers.iter().map(|provider: &Provider| {
        let api = provider.models.values().next().map(|model| &model.api);
        let (package, url) = api.map_or(("", ""), |api| (api.npm.as_str(), api.url.as_str()));
        json!({
            "id": provider.id,
            "name": provider.name,
            "api": {"type": "aisdk", "package": package, "url": url},
            "request": {"headers": {}, "body": {}},
        })
    });
    let data: Value = shown.collect();
    envelope(&server, &workspace, data).await
}

async fn none(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    envelope(&server, &workspace, json!([])).await
}

async fn permissions(
    State(server): State<Shared>,
    by: By,
    Here(workspace): Here,
) -> Result<Answer<Envelope>, Failure> {
    let waiting = server.engine.asking().all_pending_permissions().into_iter();
    let directory = workspace.directory().display().to_string();
    let here = waiting.filter(|it| server.is_in(&it.session_id, &directory) && by.sees(&it.session_id));
    envelope(&server, &workspace, here.map(permission_view).collect()).await
}

async fn saved() -> Answer<Value> {
    Answer(json!({"data": []}))
}

async fn questions(
    State(server): State<Shared>,
    by: By,
    Here(workspace): Here,
) -> Result<Answer<Envelope>, Failure> {
    let waiting = server.engine.asking().all_pending_questions().into_iter();
    let directory = workspace.directory().display().to_string();
    let here = waiting.filter(|it| server.is_in(&it.session_id, &directory) && by.sees(&it.session_id));
    envelope(&server, &workspace, here.map(|request| json!(request)).collect()).await
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListParams {
    path: Option<String>,
}

async fn list(
    State(server): State<Shared>,
    Here(workspace): Here,
    Params(params): Params<ListParams>,
) -> Result<Answer<Envelope>, Failure> {
    let nodes = Files::of(&workspace).list_directory(params.path.as_deref().unwrap_or(".")).await?;
    let shown = nodes.iter().map(|node| json!({"path": node.path, "type": node.r#type}));
    envelope(&server, &workspace, shown.collect()).await
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindParams {
    #[cfg_attr(test, schemars(required))]
    query: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
}

async fn find(
    State(server): State<Shared>,
    Here(workspace): Here,
    Params(params): Params<FindParams>,
) -> Result<Answer<Envelope>, Failure> {
    let letters = required(params.query, Piece::Query, "query")?;
    let limit = number(params.limit.as_deref())
        .filter(|limit| (1..=MAX_FOUND).contains(limit))
        .unwrap_or(DEFAULT_FOUND);
    let found = Files::of(&workspace).find_files(FileQuery { letters, limit, only: None }).await;
    let shown = found.into_iter().map(|path| {
        let kind = if path.ends_with('/') { NodeType::Directory } else { NodeType::File };
        json!({"path": path, "type": kind})
    });
    envelope(&server, &workspace, shown.collect()).await
}
