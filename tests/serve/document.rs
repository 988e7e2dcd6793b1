//! `/doc`: what it says of queries, bodies and answers is what the server takes and gives.

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::support::server::Server;

/// Answers that are no JSON, and requests that wait.
const STREAMS: [&str; 5] = ["/event", "/global/event", "/api/event", "/tui/control/next", "/vcs/diff/raw"];

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String, Value)> {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| (method.clone(), path.clone(), operation.clone())).collect()
    };
    paths.flat_map(of_path).collect()
}

#[tokio::test]
async fn every_operation_has_a_summary_and_answers_are_the_ones_of_the_document() {
    let server = Server::start().await;
    let document = server.get("/doc").await.ok();
    server.scratch.write("note.txt", "a note\n");
    let session = server.session().await;
    let command = json!({"agent": "build", "command": "echo hi"});
    let message = server.post(&format!("/session/{session}/shell"), command).await.ok();
    let message = message["info"]["id"].as_str().unwrap();
    let mut compiler = Compiler::new();
    compiler.add_resource("mem:/doc.json", document.clone()).unwrap();
    let mut schemas = Schemas::new();
    let mut n_compared = 0;
    let mut problems = Vec::new();
    for (method, path, operation) in operations(&document) {
        if operation["summary"].as_str().is_none_or(|summary| !summary.ends_with('.')) {
            problems.push(format!("{method} {path} has no summary"));
        }
        let filled = path.replace("{sessionID}", &session).replace("{messageID}", message);
        if method != "get" || filled.contains('{') || STREAMS.contains(&path.as_str()) {
            continue;
        }
        let required = operation["parameters"].as_array().unwrap().iter().filter(|it| it["in"] == "query");
        let required = required.filter(|it| it["required"] == true).map(|it| it["name"].as_str().unwrap());
        let query = required.map(|name| match name {
            "mode" => "mode=git".to_owned(),
            "path" if path == "/file/content" => "path=note.txt".to_owned(),
            name => format!("{name}=."),
        });
        let query: Vec<String> = query.collect();
        let answer = server.get(&format!("{filled}?{}", query.join("&"))).await;
        assert_eq!(answer.status, 200, "{filled}: {}", answer.text);
        let place = path.replace('~', "~0").replace('/', "~1").replace('{', "%7B").replace('}', "%7D");
        let pointer =
            format!("mem:/doc.json#/paths/{place}/get/responses/200/content/application~1json/schema");
        let schema =
            compiler.compile(&pointer, &mut schemas).unwrap_or_else(|error| panic!("{pointer}: {error}"));
        if let Err(error) = schemas.validate(&answer.json(), schema) {
            problems.push(format!("{path}: {error:#}"));
        }
        n_compared += 1;
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_compared > 60, "{n_compared}");
    server.finish().await;
}

#[tokio::test]
async fn every_body_that_is_read_is_in_the_document() {
    let server = Server::start().await;
    let document = server.get("/doc").await.ok();
    let session = server.session().await;
    let mut problems = Vec::new();
    let mut n_bodies = 0;
    for (method, path, operation) in operations(&document) {
        let ends_it = method == "delete" && path == "/session/{sessionID}" || path.ends_with("/dispose");
        if method == "get" || ends_it {
            continue;
        }
        let question = if path.contains("question") { "que_x" } else { "per_x" };
        let filled = path
            .replace("{sessionID}", &session)
            .replace("{messageID}", "msg_x")
            .replace("{partID}", "prt_x")
            .replace("{permissionID}", "per_x")
            .replace("{requestID}", question)
            .replace(['{', '}'], "");
        // No body of a request is a number.
        let answer = server.send(&method.to_uppercase(), &filled, json!(5)).await;
        let is_read = answer.status == 400 && answer.text.contains("The body cannot be used");
        let is_known = operation.get("requestBody").is_some();
        n_bodies += usize::from(is_known);
        // A body of any kind is taken as it is, and a thing that is not there is told first.
        let is_any = operation["requestBody"]["content"]["application/json"]["schema"] == json!({});
        if is_read != is_known && !is_any {
            problems.push(format!("{method} {path}: {} {}", answer.status, answer.text));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_bodies > 20, "{n_bodies}");
    server.finish().await;
}

#[tokio::test]
async fn keys_that_nobody_reads_are_named_in_the_answer() {
    let server = Server::start().await;
    let answer = server.post("/session", json!({"titel": "Mine", "parentId": null, "title": "Yours"})).await;
    assert_eq!(answer.header("x-windlass-unknown-keys"), Some("parentId, titel"));
    assert_eq!(answer.ok()["title"], "Yours");
    let answer = server.post("/session", json!({"title": "Mine"})).await;
    assert_eq!(answer.header("x-windlass-unknown-keys"), None);
    server.finish().await;
}
