//! The MCP server at one address: programs have sessions work for them, as on the pipes of `windlass mcp serve`. Clients
//! share the server's sessions.

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};

use super::{
    routes::{Routes, get},
    server::Shared,
};
use crate::mcp_server;

pub fn routes() -> Routes {
    Routes::new().route("/mcp-server", get(serve).post(serve).delete(serve))
}

async fn serve(State(server): State<Shared>, request: Request) -> Response {
    let programs = server.mcp.get_or_init(|| {
        mcp_server::at_address(
            server.engine.clone(),
            server.options.directory.clone(),
            server.stop.child_token(),
        )
    });
    programs.handle(request).await.map(Body::new)
}
