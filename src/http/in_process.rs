//! Answers requests of plugins by the same routes, without a port.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{Request, header},
    response::Response,
};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use windlass_engine::{Answerable, Api, ApiBody, ApiRequest, ApiResponse, Engine};

use super::{
    access::Access,
    peer::Peer,
    router,
    server::{Options, Server},
};

/// Returns the function that answers plugins' requests. The routes are built with the first of them.
pub fn api(engine: &Engine, directory: PathBuf) -> Api {
    let routes: Arc<std::sync::OnceLock<Router>> = Arc::default();
    let engine = engine.clone();
    Arc::new(move |request| {
        let routes = routes.get_or_init(|| {
            let access = Arc::new(Access::new(None, Vec::new()));
            // The login command is for sockets, which need a port.
            let options =
                Options { directory: directory.clone(), access, team: None, login_command: Vec::new() };
            // A plugin is asked nothing: questions are for people.
            let server = Server::new(engine.clone(), options, Answerable::Nothing, CancellationToken::new());
            router::router(&server)
        });
        Box::pin(answer(routes.clone(), request))
    })
}

async fn answer(routes: Router, request: ApiRequest) -> ApiResponse {
    let ApiRequest { plugin, method, path, headers, body } = request;
    tracing::debug!(plugin, method, path, "a plugin asks");
    let mut builder = Request::builder().method(method.as_str()).uri(path);
    for (name, value) in &headers {
        builder = builder.header(name, value);
    }
    let built = builder.extension(Peer::plugin()).body(Body::from(body.unwrap_or_default()));
    let request = match built {
        Ok(request) => request,
        Err(error) => return failed(400, &error.to_string()),
    };
    match routes.oneshot(request).await {
        Ok(response) => read(response).await,
        Err(never) => match never {},
    }
}

async fn read(response: Response) -> ApiResponse {
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let headers: Vec<(String, String)> = headers.collect();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_stream = content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
    if is_stream {
        let chunks = response.into_body().into_data_stream();
        let texts = chunks.filter_map(async |chunk| Some(String::from_utf8_lossy(&chunk.ok()?).into_owned()));
        return ApiResponse { status, headers, body: ApiBody::Stream(texts.boxed()) };
    }
    match response.into_body().collect().await {
        Ok(body) => {
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            ApiResponse { status, headers, body: ApiBody::Whole(text) }
        }
        Err(error) => failed(500, &error.to_string()),
    }
}

fn failed(status: u16, reason: &str) -> ApiResponse {
    ApiResponse { status, headers: Vec::new(), body: ApiBody::Whole(reason.to_owned()) }
}
