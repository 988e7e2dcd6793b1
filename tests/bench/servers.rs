//! The price of MCP servers in a turn and in memory, and of a language server in an edit.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, megabytes, milliseconds},
};

pub const SERVERS: Scenario = Scenario { name: "servers", is_long: true, run: servers };
pub const DIAGNOSTICS: Scenario = Scenario { name: "diagnostics", is_long: true, run: diagnostics };

const N_HEALTHY: usize = 30;
const N_HANGING: usize = 10;
const N_TOOLS: usize = 500;
/// Time in which all healthy servers have started, and nothing but them is at work.
const SETTLED: Duration = Duration::from_secs(12);
/// Turns with and without servers alternate, so that both meet the same noise.
const N_ROUNDS: usize = 40;
const N_EDITS: usize = 20;

/// A server with as many tools as it is told.
const SERVER: &str = r#"import json, sys
field = {"type": "string", "description": "One of the things that this tool has to be told."}
schema = {"type": "object", "properties": {"name": field, "place": field, "when": field}, "required": ["name"]}
words = "Does a part of the work that somebody wants done, and says in a few words how it went. " * 2
tools = [{"name": f"tool_{n}", "description": words, "inputSchema": schema} for n in range(int(sys.argv[1]))]
for line in sys.stdin:
    asked = json.loads(line)
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bench", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": tools}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

fn servers(subject: &mut Subject, _model: &Model) -> Result<()> {
    let script = subject.root().join("server.py");
    fs::write(&script, SERVER)?;
    let local = |command: Value| json!({"type": "local", "command": command});
    let with_tools = |count: usize| local(json!(["python3", script, count.to_string()]));
    let healthy = (0..N_HEALTHY).map(|index| (format!("healthy{index}"), with_tools(1)));
    let hanging = (0..N_HANGING).map(|index| (format!("hanging{index}"), local(json!(["sleep", "100000"]))));
    let many: Map<String, Value> = healthy.chain(hanging).collect();

    let (mut plain, plain_session, _) = started(subject, "mcp", json!({}))?;
    let (mut served, served_session, first) = started(subject, "mcp", Value::Object(many))?;
    subject.add("40 MCP servers, ten hang: first prompt, ms", first);
    sleep(SETTLED);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        without.push(first_chunk(&mut plain, &plain_session)?);
        with.push(first_chunk(&mut served, &served_session)?);
    }
    subject.add("40 MCP servers: a later prompt, more ms", median(&mut with) - median(&mut without));
    plain.stop()?;
    served.stop()?;

    let mut memory = Vec::new();
    for count in [1, N_TOOLS] {
        let (agent, ..) = started(subject, "mcp", json!({"tools": with_tools(count)}))?;
        // That of the server itself is Python's.
        memory.push(megabytes(agent.own_memory()?.rss));
        agent.stop()?;
    }
    subject.add("500 MCP tools, more RSS MB", memory[1] - memory[0]);
    Ok(())
}

fn diagnostics(subject: &mut Subject, model: &Model) -> Result<()> {
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsp/server.py");
    let server = json!({"toy": {"command": ["python3", script, "strict"], "extensions": [".toy"]}});
    let elsewhere = json!({"toy": {"command": ["python3", script, "strict"], "extensions": [".other"]}});
    let mut medians = Vec::new();
    for lsp in [json!(false), elsewhere, server] {
        let (mut agent, session, _) = started(subject, "lsp", lsp)?;
        let file = subject.work.join("a.toy");
        let lines: String = (0..N_EDITS).map(|index| format!("old {index}.\n")).collect();
        fs::write(&file, lines)?;
        // It starts the server.
        let read = json!({"filePath": file}).to_string();
        agent.prompt(&session, &format!("TOOLS 1 read {read}"))?;
        sleep(Duration::from_secs(1));
        model.take_exchanges();
        let edit = json!({"filePath": file, "oldString": "old %N.", "newString": "wrong %N."}).to_string();
        agent.prompt(&session, &format!("TOOLS {N_EDITS} edit {edit}"))?;
        let exchanges = model.take_exchanges();
        if exchanges.len() != N_EDITS + 1 {
            return Err(format!("{} requests for {N_EDITS} edits", exchanges.len()).into());
        }
        let steps = exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood));
        medians.push(median(&mut steps.collect::<Vec<_>>()));
        agent.stop()?;
    }
    subject.add("an edit with no server for its file, more ms", medians[1] - medians[0]);
    subject.add("an edit with diagnostics, more ms", medians[2] - medians[0]);
    Ok(())
}

/// Starts an agent with a key of its configuration, and returns the time of its first prompt's first chunk, in ms.
fn started(subject: &Subject, key: &str, value: Value) -> Result<(Agent, String, f64)> {
    let (_, arguments) = subject.command.split_first().ok_or("no command")?;
    let mut config = subject.config.clone();
    config[key] = value;
    let mut command = subject.program()?;
    command.args(arguments).env("OPENCODE_CONFIG_CONTENT", config.to_string());
    let mut agent = Agent::start(command, subject.root().join("stderr"), LIMIT)?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    let first = first_chunk(&mut agent, &session)?;
    Ok((agent, session, first))
}

fn first_chunk(agent: &mut Agent, session: &str) -> Result<f64> {
    let start = Instant::now();
    let seen = agent.prompt(session, "hello")?;
    Ok(milliseconds(seen.first_chunk.ok_or("no text")? - start))
}
