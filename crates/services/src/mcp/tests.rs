//! Servers may hang, lie, die and leave children without harm to sessions.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{sys::signal::kill, unistd::Pid};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use windlass_base::queue::Queue;
use windlass_core::bus::{Bus, Filter};
use windlass_protocol::opencode::{
    config::{McpConfig, McpOauthClient},
    event::{Event, EventKind, EventPayload},
};

use super::{
    CallError, CallOutput, Caller, Directories, Progress, Server, ServerSpec, Servers, Status,
    login::LoginFiles, spec::DEFAULT_TIMEOUT, tools,
};

mod real;
mod resources;

const LONG: Duration = Duration::from_secs(20);

fn scripted(name: &str, quirks: &[&str]) -> ServerSpec {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/mcp/server.py");
    let mut command = vec!["python3".to_owned(), script.display().to_string()];
    command.extend(quirks.iter().map(|quirk| (*quirk).to_owned()));
    local(name, command)
}

fn local(name: &str, command: Vec<String>) -> ServerSpec {
    let server = Server::Local { command, cwd: None, environment: BTreeMap::new() };
    ServerSpec { name: name.to_owned(), server, timeout: LONG, sandbox: None, is_foreign: false }
}

fn directories(directory: &str) -> Directories {
    Directories {
        directory: directory.into(),
        results: std::env::temp_dir().join("windlass-mcp-results"),
        logins: LoginFiles::default(),
    }
}

async fn settled(specs: Vec<ServerSpec>) -> Servers {
    let servers = Servers::start(specs, directories("/tmp"), Bus::default());
    servers.settled(LONG).await;
    servers
}

/// Connects to a server with a short time limit; a busy machine may start it too late.
async fn connected(spec: &ServerSpec) -> Servers {
    for _ in 0..10 {
        let servers = settled(vec![spec.clone()]).await;
        if statuses(&servers) == [Status::Connected] {
            return servers;
        }
        servers.close().await;
    }
    panic!("{} never connects", spec.name);
}

/// A caller that is told when the server works on its call.
struct Begun(CancellationToken);

impl Caller for Begun {
    fn progressed(&self, _: &Progress) {
        self.0.cancel();
    }
}

fn statuses(servers: &Servers) -> Vec<Status> {
    servers.statuses().into_iter().map(|(_, status)| status).collect()
}

fn failure(servers: &Servers) -> String {
    match statuses(servers).pop() {
        Some(Status::Failed { error }) => error,
        other => panic!("not failed: {other:?}"),
    }
}

async fn call(servers: &Servers, key: &str, input: Value) -> Result<CallOutput, CallError> {
    servers.lease().call(key, input, &CancellationToken::new(), &()).await
}

async fn text(servers: &Servers, key: &str, input: Value) -> String {
    call(servers, key, input).await.expect("the call succeeds").text
}

/// Waits for the next change of any server's tools.
async fn changed(events: &Queue<Arc<Event>>) -> String {
    let mut batch = VecDeque::new();
    let next = tokio::time::timeout(LONG, events.next_batch(&mut batch));
    assert!(next.await.expect("an event in time"));
    match &batch[0].payload {
        EventPayload::McpToolsChanged { server } => server.clone(),
        other => panic!("unexpected {other:?}"),
    }
}

fn is_alive(pid: &str) -> bool {
    let exists = kill(Pid::from_raw(pid.parse().expect("a number")), None).is_ok();
    // A zombie that was not collected yet is dead.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    exists && !stat.contains(") Z ")
}

async fn wait_until_dead(pids: &[String]) {
    let start = Instant::now();
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(start.elapsed() < LONG, "still alive: {pids:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn servers_hear_of_other_roots_while_they_run() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    let command = vec!["python3".to_owned(), script.display().to_string(), "wishes".to_owned()];
    let servers = settled(vec![local("shop", command)]).await;
    let roots = |directories: &[&str]| {
        let roots: Vec<Value> = directories.iter().map(|it| json!({"uri": format!("file://{it}")})).collect();
        json!({ "roots": roots })
    };
    let told = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
    assert_eq!(told(text(&servers, "shop_roots", json!({})).await), roots(&["/tmp"]));
    let (moved, ()) = tokio::join!(text(&servers, "shop_moved", json!({})), async {
        servers.set_more_roots(&["/srv/a b".into()]);
    });
    assert_eq!(told(moved), roots(&["/tmp", "/srv/a%20b"]));
    servers.close().await;
}

#[test]
fn configuration_becomes_a_spec() {
    let check = |json: Value, expected: Option<ServerSpec>| {
        let config: McpConfig = serde_json::from_value(json).expect("decodes");
        assert_eq!(
            ServerSpec::from_config(
                "x",
                &config,
                DEFAULT_TIMEOUT,
                None,
                &windlass_core::config::ProjectAddresses::default()
            ),
            expected
        );
    };
    check(json!({"type": "local", "command": ["a"], "enabled": false}), None);
    let server = Server::Local {
        command: vec!["a".to_owned(), "b".to_owned()],
        cwd: Some("sub".into()),
        environment: BTreeMap::from([("K".to_owned(), "v".to_owned())]),
    };
    check(
        json!({"type": "local", "command": ["a", "b"], "cwd": "sub", "environment": {"K": "v"}}),
        Some(ServerSpec {
            name: "x".to_owned(),
            server,
            timeout: Duration::from_secs(30),
            sandbox: None,
            is_foreign: false,
        }),
    );
    let server = Server::Remote {
        url: "http://h".to_owned(),
        headers: BTreeMap::new(),
        oauth: Some(McpOauthClient::default()),
    };
    check(
        json!({"type": "remote", "url": "http://h", "timeout": 1500}),
        Some(ServerSpec {
            name: "x".to_owned(),
            server,
            timeout: Duration::from_millis(1500),
            sandbox: None,
            is_foreign: false,
        }),
    );
}

#[test]
fn keys_and_schemas_are_what_providers_accept() {
    assert_eq!(tools::key("my server.1", "get/user-ä"), "my_server_1_get_user-_");
    let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(tools::schema(Map::new()), closed);
    let Value::Object(open) = json!({"required": ["a"], "properties": {"a": {}}}) else { unreachable!() };
    let closed = json!({
        "required": ["a"], "properties": {"a": {}}, "type": "object", "additionalProperties": false,
    });
    assert_eq!(tools::schema(open), closed);
}

#[tokio::test]
async fn all_pages_are_listed_and_tools_called() {
    let servers = settled(vec![scripted("my server", &[])]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    let tools = servers.lease().tools();
    assert_eq!(tools.len(), 11);
    let add = &tools[0];
    assert_eq!(
        (&*add.key, &*add.server, &*add.name, &*add.description),
        ("my_server_add_numbers", "my server", "add numbers", "Adds.")
    );
    assert_eq!(
        serde_json::from_str::<Value>(&add.schema).unwrap(),
        json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false})
    );
    assert_eq!(text(&servers, "my_server_add_numbers", json!({"a": 1, "b": 2})).await, "3");
    assert_eq!(call(&servers, "my_server_nothing", json!({})).await, Err(CallError::Unknown));
    let not_object = CallError::Failed("the input of my_server_hang must be a JSON object".to_owned());
    assert_eq!(call(&servers, "my_server_hang", json!([])).await, Err(not_object));
    let roots: Value = serde_json::from_str(&text(&servers, "my_server_roots", json!({})).await).unwrap();
    assert_eq!(roots, json!([{"uri": "file:///tmp"}]));
    servers.close().await;
    assert_eq!(statuses(&servers), [Status::Disabled]);
    assert!(servers.lease().tools().is_empty());
}

#[tokio::test]
async fn results_become_text_and_files() {
    let servers = settled(vec![scripted("s", &[])]).await;
    let files = call(&servers, "s_files", json!({})).await.expect("succeeds");
    assert_eq!(
        files.text,
        "first\n\n[audio of type audio/wav, not shown]\n\nsecond\n\n[resource link: a://link (text/plain)]\n\n\
         [image of type image/png is not valid base64, not shown]\n\n\
         [image of type image/png is no file of that type, not shown]"
    );
    let urls: Vec<&str> = files.attachments.iter().map(|file| file.url.as_str()).collect();
    let (png, pdf) = ("data:image/png;base64,iVBORw0KGgo=", "data:application/pdf;base64,JVBERg==");
    assert_eq!(urls, [png, pdf, png, "data:image/gif;base64,R0lGODlh"]);
    let foreign = text(&servers, "s_foreign", json!({})).await;
    assert_eq!(foreign, "known\n\n[content of the unknown kind hologram, not shown]");
    assert_eq!(text(&servers, "s_structured", json!({})).await, r#"{"sum":3}"#);
    let broken = CallError::Failed("it broke".to_owned());
    assert_eq!(call(&servers, "s_fail", json!({})).await, Err(broken));
}

#[tokio::test]
async fn a_hanging_server_does_not_delay_others() {
    let mut hanging = scripted("hanging", &["silent"]);
    hanging.timeout = Duration::from_millis(300);
    let servers = Servers::start(vec![hanging, scripted("good", &[])], directories("/"), Bus::default());
    assert_eq!(statuses(&servers), [Status::Connecting, Status::Connecting]);
    servers.settled(LONG).await;
    let error = "MCP server hanging did not answer initialize within 300ms".to_owned();
    assert_eq!(statuses(&servers), [Status::Failed { error }, Status::Connected]);
    assert_eq!(servers.lease().tools().len(), 11);
}

#[tokio::test]
async fn waiting_for_a_hanging_server_is_bounded() {
    let servers = Servers::start(vec![scripted("s", &["silent"])], directories("/"), Bus::default());
    let start = Instant::now();
    servers.settled(Duration::from_millis(100)).await;
    servers.close().await;
    // Long before the time limit.
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn close_kills_a_stubborn_server_and_its_children() {
    let servers = settled(vec![scripted("s", &["stubborn"])]).await;
    let pids = stubborn_pids(&servers);
    assert!(pids.iter().all(|pid| is_alive(pid)));
    let start = Instant::now();
    servers.close().await;
    assert!(start.elapsed() < Duration::from_secs(15));
    wait_until_dead(&pids).await;
}

#[tokio::test]
async fn dropping_kills_a_stubborn_server_and_its_children() {
    let servers = settled(vec![scripted("s", &["stubborn"])]).await;
    let pids = stubborn_pids(&servers);
    drop(servers);
    wait_until_dead(&pids).await;
}

fn stubborn_pids(servers: &Servers) -> Vec<String> {
    let tools = servers.lease().tools();
    let named = tools.iter().find_map(|tool| tool.name.strip_prefix("pids_")).expect("is listed");
    named.split('_').map(str::to_owned).collect()
}

#[tokio::test]
async fn a_cancelled_call_returns_at_once_and_notifies_the_server() {
    let servers = settled(vec![scripted("s", &[])]).await;
    let (lease, cancel) = (servers.lease(), CancellationToken::new());
    let result = lease.call("s_hang", json!({}), &cancel, &Begun(cancel.clone())).await;
    assert_eq!(result, Err(CallError::Cancelled));
    let (never, begun) = (CancellationToken::new(), Begun(CancellationToken::new()));
    tokio::select! {
        result = lease.call("s_hang", json!({}), &never, &begun) => panic!("{result:?}"),
        () = begun.0.cancelled() => {}
    }
    let told = text(&servers, "s_cancelled", json!({})).await;
    assert_eq!(told, r#"["cancelled by the user", "request abandoned"]"#);
}

#[tokio::test]
async fn a_call_times_out_unless_it_makes_progress() {
    let mut spec = scripted("s", &[]);
    // Shorter than the slow tool takes in all.
    spec.timeout = Duration::from_millis(1800);
    let servers = connected(&spec).await;
    let timed_out = CallError::TimedOut(Duration::from_millis(1800));
    assert_eq!(call(&servers, "s_hang", json!({})).await, Err(timed_out));
    assert_eq!(text(&servers, "s_slow", json!({})).await, "done");
    assert_eq!(text(&servers, "s_cancelled", json!({})).await, r#"["request timed out"]"#);
}

#[tokio::test]
async fn a_server_that_stops_reading_holds_up_neither_calls_nor_close() {
    let servers = settled(vec![scripted("s", &["deaf"])]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    // More than the pipe's capacity, so that the write never ends.
    let input = json!({"text": "x".repeat(1 << 20)});
    let cancel = CancellationToken::new();
    let cancelling = async {
        // All tasks are of this thread, so the write has filled the pipe by then.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let start = Instant::now();
    let lease = servers.lease();
    let (result, ()) = tokio::join!(lease.call("s_hang", input, &cancel, &()), cancelling);
    assert_eq!(result, Err(CallError::Cancelled));
    servers.close().await;
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn noise_on_standard_output_is_skipped() {
    let servers = settled(vec![scripted("s", &["garbage", "malformed-tool"])]).await;
    assert_eq!(servers.lease().tools().len(), 11);
    assert_eq!(text(&servers, "s_add_numbers", json!({"a": 1, "b": 2})).await, "3");
}

#[tokio::test]
async fn a_server_that_exits_says_why() {
    let servers = settled(vec![scripted("s", &["exits"])]).await;
    assert_eq!(failure(&servers), "MCP server s stopped (exit status: 2): bad key");
    let servers = settled(vec![local("s", vec!["no-such-program-1".to_owned()])]).await;
    let error = "MCP server s could not be started: install no-such-program-1 or correct the command";
    assert_eq!(failure(&servers), error);
    let plain = tempfile::NamedTempFile::new().unwrap();
    let path = plain.path().display().to_string();
    let servers = settled(vec![local("s", vec![path.clone()])]).await;
    let error = format!("MCP server s could not be started with {path}: Permission denied");
    assert_eq!(failure(&servers), error);
    let servers = settled(vec![local("s", Vec::new())]).await;
    assert_eq!(failure(&servers), "MCP server s has an empty command");
}

#[tokio::test]
async fn a_server_of_an_unknown_version_is_not_used_and_an_old_one_is() {
    let long = "9".repeat(10_000);
    for (version, shown) in
        [("1999-01-01", "1999-01-01"), ("", ""), ("2\x1b[0m", "2\\u{1b}[0m"), (&long, &long[..40])]
    {
        let servers = settled(vec![scripted("s", &[&format!("={version}")])]).await;
        let error = format!(
            "MCP server s speaks version `{shown}` of the protocol, which windlass does not; update one of the two"
        );
        assert_eq!(failure(&servers), error);
        assert!(servers.lease().tools().is_empty());
    }
    for version in ["2024-10-07", "2024-11-05", "2025-11-25"] {
        let servers = settled(vec![scripted("s", &[&format!("={version}")])]).await;
        assert_eq!(text(&servers, "s_add_numbers", json!({"a": 1, "b": 2})).await, "3", "{version}");
    }
}

#[tokio::test]
async fn the_tools_of_a_dead_server_vanish() {
    let bus = Bus::default();
    let events = bus.listen(Filter::Only(vec![EventKind::McpToolsChanged]));
    let servers = Servers::start(vec![scripted("s", &[])], directories("/"), bus);
    assert_eq!(changed(&events).await, "s");
    let failed = |words: &str| Err(CallError::Failed(words.to_owned()));
    let died = failed("MCP server s closed the connection before die was done");
    assert_eq!(call(&servers, "s_die", json!({})).await, died);
    assert_eq!(changed(&events).await, "s");
    // It is at no time seen as failed, so that the next prompt waits for it.
    assert_eq!(statuses(&servers), [Status::Connecting]);
    assert!(servers.lease().tools().is_empty());
    let back_soon = failed("MCP server s has ended and is started again; repeat the call");
    assert_eq!(call(&servers, "s_die", json!({})).await, back_soon);
    servers.lease().started().await;
    assert_eq!(changed(&events).await, "s");

    assert_eq!(call(&servers, "s_die", json!({})).await, died);
    assert_eq!(changed(&events).await, "s");
    assert_eq!(failure(&servers), "MCP server s stopped (exit status: 3): the end is near");
    assert!(servers.lease().tools().is_empty());
    let gone = failed("the tool is gone: MCP server s stopped (exit status: 3): the end is near");
    assert_eq!(call(&servers, "s_die", json!({})).await, gone);
}

#[tokio::test]
async fn a_changed_list_is_fetched_again() {
    let bus = Bus::default();
    let events = bus.listen(Filter::Only(vec![EventKind::McpToolsChanged]));
    let servers = Servers::start(vec![scripted("s", &[])], directories("/"), bus);
    assert_eq!(changed(&events).await, "s");
    assert_eq!(text(&servers, "s_grow", json!({})).await, "grew");
    assert_eq!(changed(&events).await, "s");
    assert!(servers.lease().tools().iter().any(|tool| tool.key == "s_grown"));
}

#[tokio::test]
async fn a_server_serves_until_the_one_in_its_place_has_started_or_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let gate = scratch.path().join("gate");
    let wait = |behind: &str, arguments: &[String]| {
        let script = format!("while [ ! -e \"$0\" ]; do sleep 0.01; done; {behind}");
        let command = ["sh", "-c", &script, gate.to_str().unwrap()].map(str::to_owned);
        local("s", [&command, arguments].concat())
    };
    let first = scripted("s", &[]);
    let Server::Local { command, .. } = &first.server else { panic!("it is a local one") };
    let bus = Bus::default();
    let events = bus.listen(Filter::Only(vec![EventKind::McpToolsChanged]));
    let servers = Servers::start(vec![first.clone()], directories("/"), bus);
    assert_eq!(changed(&events).await, "s");

    servers.replace(vec![wait("exec \"$@\" malformed-tool", command)]);
    assert_eq!(text(&servers, "s_add_numbers", json!({"a": 1, "b": 2})).await, "3");
    assert_eq!(statuses(&servers), [Status::Connecting]);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(changed(&events).await, "s");
    assert_eq!((statuses(&servers), servers.lease().tools().len()), (vec![Status::Connected], 11));
    assert_eq!(text(&servers, "s_add_numbers", json!({"a": 1, "b": 2})).await, "3");

    // The one that comes next fails.
    std::fs::remove_file(&gate).unwrap();
    servers.replace(vec![wait("echo no key >&2; exit 2", &[])]);
    assert_eq!(servers.lease().tools().len(), 11);
    std::fs::write(&gate, "").unwrap();
    servers.settled(LONG).await;
    assert_eq!(failure(&servers), "MCP server s stopped (exit status: 2): no key");
    assert!(servers.lease().tools().is_empty());

    // One that is taken away ends at once.
    servers.replace(vec![first]);
    servers.settled(LONG).await;
    assert_eq!(servers.lease().tools().len(), 11);
    servers.replace(Vec::new());
    assert!(servers.lease().tools().is_empty());
    servers.close().await;
}

#[tokio::test]
async fn the_later_of_two_tools_with_one_key_is_used() {
    let servers = settled(vec![scripted("a b", &[]), scripted("a.b", &[])]).await;
    let tools = servers.lease().tools();
    assert_eq!(tools.len(), 11);
    assert!(tools.iter().all(|tool| tool.server == "a.b"));
}

#[tokio::test]
async fn an_unreachable_url_fails_with_its_name() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::Remote {
        url: format!("http://{address}/mcp?key=secret"),
        headers: BTreeMap::new(),
        oauth: None,
    };
    let servers = settled(vec![ServerSpec {
        name: "far".to_owned(),
        server,
        timeout: LONG,
        sandbox: None,
        is_foreign: false,
    }])
    .await;
    let error = failure(&servers);
    assert_eq!(error, format!("MCP server far at http://{address}/mcp cannot be used: Connection refused"));
}

#[tokio::test]
async fn an_answer_of_401_asks_for_a_login() {
    let refused = |challenge: &str| format!("401 Unauthorized\r\n{challenge}Content-Length: 0\r\n");
    let challenge = "WWW-Authenticate: Bearer\r\n";
    assert_eq!(status_of_http_server(|_| refused("")).await, Status::NeedsAuth);
    assert_eq!(status_of_http_server(|_| refused(challenge)).await, Status::NeedsAuth);
    let only_after_handshake = |request: &Value| match request["method"].as_str() {
        Some("initialize") => {
            let info = json!({"name": "guarded", "version": "1"});
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info});
            let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            let length = body.len();
            format!("200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        }
        Some("notifications/initialized") => "202 Accepted\r\nContent-Length: 0\r\n".to_owned(),
        Some(_) | None => refused(challenge),
    };
    assert_eq!(status_of_http_server(only_after_handshake).await, Status::NeedsAuth);
    let Status::Failed { error } = status_of_http_server(|_| "500 Oops\r\n".to_owned()).await else {
        panic!()
    };
    assert!(
        error.ends_with("cannot be used: it answered HTTP 500 Internal Server Error and nothing more"),
        "{error}"
    );
}

/// Returns the status of a server that answers each message with the given status line, headers and body.
async fn status_of_http_server(respond: impl Fn(&Value) -> String) -> Status {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let message = loop {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    break Value::Null;
                }
                let text = String::from_utf8_lossy(&request);
                let body = text.split_once("\r\n\r\n").map(|(_, body)| serde_json::from_str(body));
                match body {
                    Some(Ok(message)) => break message,
                    Some(Err(_)) if !text.starts_with("POST") => break Value::Null,
                    Some(Err(_)) | None => {}
                }
            };
            let mut response = format!("HTTP/1.1 {}", respond(&message));
            if !response.contains("\r\n\r\n") {
                response.push_str("Connection: close\r\n\r\n");
            }
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    };
    let server =
        Server::Remote { url: format!("http://{address}/mcp"), headers: BTreeMap::new(), oauth: None };
    let spec = ServerSpec { name: "far".to_owned(), server, timeout: LONG, sandbox: None, is_foreign: false };
    let servers = tokio::select! {
        servers = settled(vec![spec]) => servers,
        () = serving => unreachable!(),
    };
    statuses(&servers).remove(0)
}

#[test]
fn values_of_a_servers_environment_are_not_logged() {
    let environment = [("API_KEY".to_owned(), "envsecret-4242".to_owned())].into();
    let server = Server::Local { command: vec!["x".to_owned()], cwd: None, environment };
    let spec = ServerSpec {
        name: "x".to_owned(),
        server,
        timeout: DEFAULT_TIMEOUT,
        sandbox: None,
        is_foreign: false,
    };
    assert_eq!(spec.masked("token envsecret-4242 rejected"), "token ******** rejected");
}
