//! Reads of OpenCode's younger interface.

use serde_json::json;

use crate::support::server::Server;

#[tokio::test]
async fn its_sessions_are_those_of_the_older_one() {
    let server = Server::start().await;
    let id = server.session().await;
    let sessions = server.get(&format!("/api/session?directory={}", server.scratch.cwd())).await.ok();
    assert_eq!(sessions["data"][0]["id"], id);
    assert_eq!(sessions["data"][0]["location"]["directory"], server.scratch.cwd());
    assert_eq!(server.get(&format!("/api/session/{id}")).await.ok()["data"]["id"], id);
    assert_eq!(server.get("/api/session/active").await.ok(), json!({"data": {}}));
    let gone = server.get("/api/session/ses_nope").await.refused(404);
    assert_eq!((&gone["_tag"], &gone["sessionID"]), (&json!("SessionNotFoundError"), &json!("ses_nope")));
    let bad = server.get("/api/session/xyz").await.refused(400);
    assert_eq!((&bad["_tag"], &bad["field"]), (&json!("InvalidRequestError"), &json!("sessionID")));
    server.finish().await;
}
