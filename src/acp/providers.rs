//! `providers/list`, `providers/set` and `providers/disable`: the client routes requests to models (facts: ACP §2).
//! Headers and parts of addresses, which may be keys, are never told.

use std::path::PathBuf;

use jsonrpsee::types::ErrorObjectOwned;
use reqwest::Url;
use windlass_base::shown_url::without_secrets;
use windlass_engine::ProviderRoute;
use windlass_protocol::rpc::code;
use windlass_protocol_acp::{
    decode,
    schema::{
        DisableProviderResponse, ListProvidersResponse, LlmProtocol, ProviderCurrentConfig, ProviderInfo,
        SetProviderResponse,
    },
};

use super::{
    call::Call,
    connection::{Connection, Reply},
    error::{engine_error, error, invalid_params},
    outbox::Responder,
};

pub fn list(
    connection: &mut Connection,
    call: &mut Call,
    _params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (engine, directory) = (connection.engine.clone(), directory()?);
    call.spawn(connection, None, async move {
        let routes = engine.provider_routes(&directory).await.map_err(|failure| engine_error(&failure))?;
        let response = ListProvidersResponse::new(routes.into_iter().map(info).collect());
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&response)) as Reply)
    })
}

pub fn set(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let wanted = decode::set_provider(params).map_err(|reason| invalid_params(&reason))?;
    let (engine, directory) = (connection.engine.clone(), directory()?);
    call.spawn_whole(connection, None, async move {
        let decode::SetProvider { provider_id, api_type, base_url, headers } = wanted;
        let routed = engine.route_provider(&directory, &provider_id, &api_type, base_url, headers).await;
        routed.map_err(|failure| engine_error(&failure))?;
        let response = SetProviderResponse::new();
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&response)) as Reply)
    })
}

pub fn disable(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let id = decode::disable_provider(params).map_err(|reason| invalid_params(&reason))?;
    let (engine, directory) = (connection.engine.clone(), directory()?);
    call.spawn_whole(connection, None, async move {
        engine.disable_provider(&directory, &id).await.map_err(|failure| engine_error(&failure))?;
        let response = DisableProviderResponse::new();
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&response)) as Reply)
    })
}

/// Returns the directory of this process: the requests name none.
fn directory() -> Result<PathBuf, ErrorObjectOwned> {
    std::env::current_dir().map_err(|failure| error(code::INTERNAL_ERROR, &failure.to_string()))
}

fn info(route: ProviderRoute) -> ProviderInfo {
    let ProviderRoute { id, protocol, base_url } = route;
    let shown = base_url.map(|url| Url::parse(&url).map_or(url, |url| without_secrets(&url)));
    let current = protocol.zip(shown).map(|(name, url)| ProviderCurrentConfig::new(named(name), url));
    ProviderInfo::new(id, protocol.map(named).into_iter().collect(), false, current)
}

fn named(protocol: &str) -> LlmProtocol {
    match protocol {
        "anthropic" => LlmProtocol::Anthropic,
        "openai" => LlmProtocol::OpenAi,
        "azure" => LlmProtocol::Azure,
        "vertex" => LlmProtocol::Vertex,
        "bedrock" => LlmProtocol::Bedrock,
        other => LlmProtocol::Other(other.to_owned()),
    }
}
