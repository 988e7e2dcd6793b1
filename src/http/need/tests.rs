//! Each route needs the right for its effect, and one that the table does not name is an administrator's.

use axum::http::Method;
use windlass_accounts::Level;

use super::{Need, of};

#[test]
fn a_route_needs_the_right_for_its_effect() {
    for (method, route, need) in [
        ("GET", "/", Need::Account),
        ("GET", "/account", Need::Open),
        ("GET", "/account/callback/{provider}", Need::Open),
        ("POST", "/account/token", Need::Account),
        ("GET", "/s/{key}", Need::Open),
        ("GET", "/session", Need::Account),
        ("POST", "/session", Need::Member),
        ("POST", "/api/session", Need::Member),
        ("GET", "/session/{id}", Need::Session(Level::Read)),
        ("PATCH", "/session/{id}", Need::Session(Level::Own)),
        ("DELETE", "/session/{id}", Need::Session(Level::Own)),
        ("GET", "/session/{id}/message", Need::Session(Level::Read)),
        ("POST", "/session/{id}/message", Need::Session(Level::Prompt)),
        ("DELETE", "/session/{id}/message/{message}", Need::Session(Level::Own)),
        ("POST", "/session/{id}/shell", Need::Session(Level::Prompt)),
        ("POST", "/session/{id}/fork", Need::Session(Level::Read)),
        ("POST", "/session/{id}/share", Need::Session(Level::Own)),
        ("POST", "/session/{id}/revert", Need::Session(Level::Own)),
        ("GET", "/session/{id}/access", Need::Session(Level::Own)),
        ("POST", "/session/{id}/permissions/{permission}", Need::Session(Level::Answer)),
        ("POST", "/api/session/{id}/question/{question}/reply", Need::Session(Level::Answer)),
        ("POST", "/api/session/{id}/prompt", Need::Session(Level::Prompt)),
        ("PATCH", "/api/session/{id}/inbox/{inbox}", Need::Session(Level::Prompt)),
        ("DELETE", "/experimental/session/{id}/job/{job}", Need::Session(Level::Prompt)),
        ("GET", "/page/session/{id}", Need::Session(Level::Read)),
        ("POST", "/permission/{id}/reply", Need::Permission),
        ("POST", "/question/{id}/reject", Need::Question),
        ("GET", "/permission", Need::Account),
        ("GET", "/file/content", Need::Account),
        ("POST", "/vcs/apply", Need::Member),
        ("GET", "/config", Need::Account),
        ("PATCH", "/config", Need::Admin),
        ("GET", "/global/config", Need::Admin),
        ("PUT", "/auth/{id}", Need::Member),
        ("POST", "/provider/{id}/oauth/authorize", Need::Admin),
        ("POST", "/mcp", Need::Admin),
        ("GET", "/pty", Need::Admin),
        ("GET", "/pty/{id}/connect", Need::Admin),
        ("POST", "/tui/publish", Need::Admin),
        ("POST", "/global/dispose", Need::Admin),
        ("GET", "/metrics", Need::Admin),
        ("GET", "/acp", Need::Nobody),
        ("GET", "/mcp-server", Need::Nobody),
        ("POST", "/page/link", Need::Nobody),
        ("GET", "/of/tomorrow", Need::Admin),
        ("POST", "/of/tomorrow", Need::Admin),
    ] {
        let method: Method = method.parse().unwrap();
        assert_eq!(of(&method, route), need, "{method} {route}");
    }
}
