//! Published servers, installed by `make clients` into tests/clients/mcp (or the directory in
//! `WINDLASS_TEST_MCP_DIR`).

use std::io::Write;

use tokio::io::{AsyncBufReadExt, BufReader};
use windlass_base::process::{self, Child, Spawn};

use super::*;
use crate::mcp::ResourceList;

/// Returns the directory with `node_modules` and `.venv`, if it exists.
#[expect(clippy::disallowed_methods, reason = "tests have no Config to take the variable from")]
fn installed() -> Option<PathBuf> {
    let given = std::env::var("WINDLASS_TEST_MCP_DIR").ok().map(PathBuf::from);
    let dir = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/mcp"));
    let is_installed = dir.join("node_modules").is_dir() && dir.join(".venv").is_dir();
    if !is_installed {
        // As in `tests/support/skip.rs`, to be counted.
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        let line = format!("skipped: {name}: `make clients` installs the servers\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    is_installed.then_some(dir)
}

fn everything(dir: &Path) -> ServerSpec {
    let script = dir.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    local("everything", vec!["node".to_owned(), script.display().to_string(), "stdio".to_owned()])
}

#[tokio::test]
async fn everything_lists_and_answers() {
    let Some(dir) = installed() else { return };
    let servers = settled(vec![everything(&dir)]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    let keys: Vec<String> = servers.lease().tools().iter().map(|tool| tool.key.clone()).collect();
    for tool in ["echo", "get-sum", "get-tiny-image", "get-structured-content", "get-resource-links"] {
        assert!(keys.contains(&format!("everything_{tool}")), "{tool} is not among {keys:?}");
    }
    // Some servers list tools only for clients with the capability, and only after they saw it.
    let start = Instant::now();
    while !servers.lease().tools().iter().any(|tool| tool.name == "get-roots-list") {
        assert!(start.elapsed() < LONG, "no get-roots-list among {:?}", servers.lease().tools());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text(&servers, "everything_echo", json!({"message": "ahoy"})).await, "Echo: ahoy");
    let sum = text(&servers, "everything_get-sum", json!({"a": 2, "b": 40})).await;
    assert!(sum.contains("42"), "{sum}");
    let image = call(&servers, "everything_get-tiny-image", json!({})).await.expect("succeeds");
    let mimes: Vec<&str> = image.attachments.iter().map(|file| file.mime.as_str()).collect();
    assert_eq!(mimes, ["image/png"]);
    let weather = text(&servers, "everything_get-structured-content", json!({"location": "Chicago"})).await;
    assert!(weather.contains("temperature"), "{weather}");
    let links = text(&servers, "everything_get-resource-links", json!({"count": 2})).await;
    assert_eq!(links.matches("[resource ").count(), 2, "{links}");
    let wrong = call(&servers, "everything_get-sum", json!({"a": "x"})).await;
    assert!(matches!(wrong, Err(CallError::Failed(_))), "{wrong:?}");
    servers.close().await;
}

#[tokio::test]
async fn everything_shows_its_resources() {
    let Some(dir) = installed() else { return };
    let servers = settled(vec![everything(&dir)]).await;
    let (lease, cancel) = (servers.lease(), CancellationToken::new());
    assert_eq!(lease.with_resources(), ["everything"]);
    let (listed, is_cut) =
        lease.resources("everything", ResourceList::Resources, &cancel).await.expect("lists");
    let document = "demo://resource/static/document/features.md";
    assert!(!is_cut && listed.iter().any(|entry| entry["uri"] == document), "{listed:?}");
    let read = async |uri: &str| lease.read_resource("everything", uri, &cancel).await;
    let features = read(document).await.expect("is read").text;
    assert!(features.starts_with(&format!("Resource: {document}\nMIME: text/markdown\n")), "{features}");
    let (templates, _) =
        lease.resources("everything", ResourceList::Templates, &cancel).await.expect("lists");
    let templates: Vec<&str> = templates.iter().filter_map(|entry| entry["uriTemplate"].as_str()).collect();
    let (text, blob) =
        ("demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}");
    assert_eq!(templates, [text, blob]);
    let made = read(&text.replace("{resourceId}", "7")).await.expect("is read").text;
    assert!(made.contains("Resource 7: This is a plaintext resource"), "{made}");
    let made = read(&blob.replace("{resourceId}", "7")).await.expect("is read").text;
    assert!(
        made.starts_with("[Binary MCP resource omitted: demo://resource/dynamic/blob/7 (text/plain"),
        "{made}"
    );
    let unknown = read("demo://nothing").await;
    assert!(
        matches!(&unknown, Err(CallError::Failed(error)) if error.contains("demo://nothing not found")),
        "{unknown:?}"
    );
    servers.close().await;
}

#[tokio::test]
async fn progress_keeps_a_long_operation_of_everything_alive() {
    let Some(dir) = installed() else { return };
    let servers = connected(&ServerSpec { timeout: Duration::from_secs(3), ..everything(&dir) }).await;
    let key = "everything_trigger-long-running-operation";
    let kept = text(&servers, key, json!({"duration": 5, "steps": 5})).await;
    assert!(kept.contains("completed"), "{kept}");
    let silent = call(&servers, key, json!({"duration": 30, "steps": 1})).await;
    assert_eq!(silent, Err(CallError::TimedOut(Duration::from_secs(3))));
}

#[tokio::test]
async fn everything_answers_over_http() {
    let Some(dir) = installed() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let script = dir.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let environment = BTreeMap::from([("PORT".to_owned(), port.to_string())]);
    let args = [script.into_os_string(), "streamableHttp".into()];
    let (_server, _) = started("node", &args, &environment).await;
    let servers = settled(vec![remote(port, None)]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    assert_eq!(text(&servers, "far_echo", json!({"message": "ahoy"})).await, "Echo: ahoy");
    servers.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn filesystem_behind_npx_reads_files_and_leaves_no_process() {
    let Some(dir) = installed() else { return };
    let allowed = tempfile::tempdir().unwrap();
    let allowed = allowed.path().canonicalize().unwrap();
    std::fs::write(allowed.join("log.txt"), "fair winds").unwrap();
    let command = ["npx", "--no-install", "mcp-server-filesystem", allowed.to_str().unwrap()];
    let mut spec = local("files", command.map(str::to_owned).to_vec());
    if let Server::Local { cwd, .. } = &mut spec.server {
        *cwd = Some(dir);
    }
    let servers = Servers::start(vec![spec], directories(allowed.to_str().unwrap()), Bus::default());
    servers.settled(LONG).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    let path = allowed.join("log.txt");
    assert_eq!(text(&servers, "files_read_text_file", json!({"path": path})).await, "fair winds");
    let outside = call(&servers, "files_read_text_file", json!({"path": "/etc/hostname"})).await;
    assert!(matches!(outside, Err(CallError::Failed(_))), "{outside:?}");
    let pids = pids_with_argument(allowed.to_str().unwrap());
    assert!(pids.len() >= 2, "a wrapper and the server: {pids:?}");
    servers.close().await;
    wait_until_dead(&pids).await;
}

#[tokio::test]
async fn memory_keeps_what_it_is_told_in_its_file() {
    let Some(dir) = installed() else { return };
    let kept = tempfile::tempdir().unwrap();
    let script = dir.join("node_modules/@modelcontextprotocol/server-memory/dist/index.js");
    let mut spec = local("memory", vec!["node".to_owned(), script.display().to_string()]);
    if let Server::Local { environment, .. } = &mut spec.server {
        let file = kept.path().join("memory.jsonl").display().to_string();
        environment.insert("MEMORY_FILE_PATH".to_owned(), file);
    }
    let servers = settled(vec![spec.clone()]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    let entity = json!({"name": "harbour", "entityType": "place", "observations": ["it has a gate"]});
    text(&servers, "memory_create_entities", json!({"entities": [entity]})).await;
    servers.close().await;
    let servers = settled(vec![spec]).await;
    let found = text(&servers, "memory_search_nodes", json!({"query": "gate"})).await;
    assert!(found.contains("harbour"), "{found}");
    servers.close().await;
}

#[tokio::test]
async fn a_python_server_answers_on_its_pipes() {
    let Some(dir) = installed() else { return };
    let program = dir.join(".venv/bin/python").display().to_string();
    let script = dir.join("http_server.py").display().to_string();
    let servers = settled(vec![local("near", vec![program, script, "stdio".to_owned()])]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    assert_eq!(text(&servers, "near_add", json!({"a": 2, "b": 40})).await, "42");
    let lease = servers.lease();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(lease.call("near_hang", json!({}), &cancel, &()).await, Err(CallError::Cancelled));
    assert_eq!(text(&servers, "near_slow", json!({"seconds": 0.1})).await, "done");
    servers.close().await;
}

#[tokio::test]
async fn a_python_server_answers_over_http() {
    let Some(dir) = installed() else { return };
    let (mut server, port) = python_server(&dir, &[]).await;
    let mut spec = remote(port, None);
    spec.timeout = Duration::from_secs(2);
    let servers = settled(vec![spec]).await;
    assert_eq!(statuses(&servers), [Status::Connected]);
    assert_eq!(servers.lease().tools().len(), 3);
    assert_eq!(text(&servers, "far_add", json!({"a": 2, "b": 40})).await, "42");
    assert_eq!(text(&servers, "far_slow", json!({"seconds": 4})).await, "done");
    let cancel = CancellationToken::new();
    let result = servers.lease().call("far_hang", json!({}), &cancel, &Begun(cancel.clone())).await;
    assert_eq!(result, Err(CallError::Cancelled));
    server.end(Duration::from_secs(1)).await;
    let lost = call(&servers, "far_add", json!({"a": 2, "b": 40})).await;
    let Err(CallError::Failed(error)) = lost else { panic!("{lost:?}") };
    assert!(error.contains("MCP server far"), "{error}");
    eprintln!("call after the server went: {error}");
    servers.close().await;
}

#[tokio::test]
async fn headers_reach_a_guarded_server() {
    let Some(dir) = installed() else { return };
    let (_server, port) = python_server(&dir, &["sesame"]).await;
    let servers = settled(vec![remote(port, None), remote(port, Some("Bearer sesame"))]).await;
    assert_eq!(statuses(&servers), [Status::NeedsAuth, Status::Connected]);
    assert_eq!(text(&servers, "far_add", json!({"a": 2, "b": 40})).await, "42");
}

#[tokio::test]
async fn a_server_that_answers_nothing_fails_in_time() {
    let Some(dir) = installed() else { return };
    let script = dir.join("hang.py").display().to_string();
    let mut spec = local("hang", vec!["python3".to_owned(), script]);
    spec.timeout = Duration::from_millis(500);
    let servers = settled(vec![spec, everything(&dir)]).await;
    assert_eq!(statuses(&servers)[1], Status::Connected);
    assert!(matches!(statuses(&servers)[0], Status::Failed { .. }));
}

fn remote(port: u16, authorization: Option<&str>) -> ServerSpec {
    let headers = authorization.map(|value| ("Authorization".to_owned(), value.to_owned()));
    let server = Server::Remote {
        url: format!("http://127.0.0.1:{port}/mcp"),
        headers: headers.into_iter().collect(),
        oauth: None,
    };
    ServerSpec { name: "far".to_owned(), server, timeout: LONG, sandbox: None, is_foreign: false }
}

async fn python_server(dir: &Path, args: &[&str]) -> (Child, u16) {
    let python = dir.join(".venv/bin/python");
    let mut all = vec![dir.join("http_server.py").into_os_string(), "0".into()];
    all.extend(args.iter().map(Into::into));
    let (child, line) = started(python.to_str().unwrap(), &all, &BTreeMap::new()).await;
    (child, line.parse().expect("prints its port"))
}

/// Starts a server and waits for its first line on either output.
async fn started(
    program: &str,
    args: &[std::ffi::OsString],
    environment: &BTreeMap<String, String>,
) -> (Child, String) {
    let spawn = Spawn {
        program: program.as_ref(),
        args,
        directory: Path::new("/"),
        environment,
        stdin: false,
        without: &[],
        is_parent: true,
    };
    let mut child = process::spawn(&spawn).expect("starts");
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_ready = |line: &str| line.chars().any(|char| char.is_ascii_digit());
    let ready = async {
        loop {
            let line = tokio::select! {
                Ok(Some(line)) = stdout.next_line() => line,
                Ok(Some(line)) = stderr.next_line() => line,
                else => panic!("the server ended"),
            };
            eprintln!("{line}");
            if is_ready(&line) {
                return line;
            }
        }
    };
    let line = tokio::time::timeout(LONG, ready).await.expect("is ready in time");
    let drain = async move {
        while let Ok(Some(_)) = stdout.next_line().await {}
        while let Ok(Some(_)) = stderr.next_line().await {}
    };
    tokio::spawn(drain);
    (child, line)
}

#[cfg(target_os = "linux")]
fn pids_with_argument(argument: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let is_match = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(argument)
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).filter(is_match).collect()
}
