//! Runs the program of a tool without JavaScript: the arguments go to its standard input, its output is the result.

use std::{borrow::Cow, collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use windlass_base::{
    json_schema::JsonSchema,
    process::{Child, Spawn, spawn},
};
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{part::FilePart, tool::Look};

use super::{
    ToolCx, ToolError, ToolOutput,
    bash::{
        self,
        call::{Ended, Line},
        sandbox::{self, Sandbox},
    },
    find,
    row::{Offered, Run, Schema, Tool},
};
use crate::plugin::manifest::Manifest;

/// Bytes of a program's output that are taken in.
const MAX_OUTPUT: u64 = 16 << 20;
/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(1);

/// Returns the row of a program's tool. One that takes a built-in tool's place keeps its permission.
pub fn row(manifest: &Arc<Manifest>) -> Tool {
    let replaced = find(&manifest.name);
    let (name, permission) =
        Tool::named(&manifest.name, replaced.and_then(|built_in| built_in.permission.clone()));
    Tool {
        name,
        text: Cow::Owned(manifest.description.clone()),
        schema: Schema::Shared(manifest.schema.clone()),
        permission,
        look: replaced.map_or(Look::OTHER, |built_in| built_in.look),
        offered: Offered::Always,
        run: Run::Program(manifest.clone()),
    }
}

/// Puts the defaults of a schema in the place of arguments that are missing.
fn fill_in(schema: &Value, input: &mut Value) {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        let Some(arguments) = input.as_object_mut() else { return };
        if let Some(default) = property.get("default").filter(|_| !arguments.contains_key(name)) {
            arguments.insert(name.clone(), default.clone());
        }
        if let Some(given) = arguments.get_mut(name) {
            fill_in(property, given);
        }
    }
}

/// Asks for permission and runs the program, in the sandbox of shell commands where there is one. Arguments that do not
/// fit the manifest's schema do not reach it.
pub(super) async fn run(
    cx: &ToolCx<'_>,
    manifest: &Manifest,
    mut input: Value,
) -> Result<ToolOutput, ToolError> {
    fill_in(&manifest.schema, &mut input);
    JsonSchema::compile(&manifest.schema).and_then(|schema| schema.check(&input)).map_err(|issues| {
        ToolError::Model(format!("The arguments do not fit the schema of {}:\n{issues}", manifest.name))
    })?;
    let any = || vec!["*".to_owned()];
    let permission = super::permission_name(&manifest.name).to_owned();
    let metadata = input.as_object().cloned().unwrap_or_default();
    let ask = Ask { permission, patterns: any(), always: any(), metadata };
    // In the place of a built-in tool it may do anything that this one does.
    if find(&manifest.name).is_some() {
        cx.host.ask_opaque(ask).await.map(drop)?
    } else {
        cx.host.ask(ask).await?
    }
    let line = Line {
        command: manifest.command.join(" "),
        workdir: cx.config.directory.clone(),
        timeout_ms: manifest.timeout.unwrap_or_else(|| bash::default_timeout_ms(cx.config)),
    };
    let surroundings = sandbox::begin(cx).await?;
    let sandbox = match sandbox::around(cx, surroundings, &line, &[]).await? {
        Some(drawing) => Some(drawing.finished(false).await?),
        None => None,
    };
    let ended = execute(cx, manifest, &line, &input, sandbox.as_ref()).await?;
    let tool_output = match sandbox {
        Some(sandbox) => {
            let outside = execute(cx, manifest, &line, &input, None);
            sandbox.explain(cx, ended, outside).await?
        }
        None => ended.tool_output,
    };
    // A failure is told in its own words; a success is read.
    match tool_output.metadata.get("exit").and_then(Value::as_i64) {
        Some(0) => result(manifest, tool_output),
        Some(_) | None => Err(ToolError::Model(tool_output.output)),
    }
}

async fn execute(
    cx: &ToolCx<'_>,
    manifest: &Manifest,
    line: &Line,
    input: &Value,
    sandbox: Option<&Sandbox>,
) -> Result<Ended, ToolError> {
    let mut child = start(cx, manifest, sandbox).map_err(|error| {
        let program = manifest.command.first().map(String::as_str).unwrap_or_default();
        ToolError::Model(format!(
            "the program {program} of the tool {} cannot be started: {error}",
            manifest.name
        ))
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = input.to_string();
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    let talk = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program may not want to know its arguments.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
        };
        tokio::join!(write, collect(stdout, &mut said), collect(stderr, &mut complaint));
        child.wait().await
    };
    let limit = Duration::from_millis(line.timeout_ms);
    let status = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => None,
        status = timeout(limit, talk) => Some(status),
    };
    let exit = match status {
        Some(Ok(status)) => status.map_err(|error| ToolError::Model(error.to_string()))?.code(),
        Some(Err(_)) => {
            child.end(GRACE).await;
            complaint.extend(format!("\nthe program was ended after {} ms", line.timeout_ms).bytes());
            None
        }
        None => {
            child.end(GRACE).await;
            return Err(ToolError::Cancelled { partial: None });
        }
    };
    child.kill_group();
    let has_failed = exit != Some(0);
    let mut output = String::from_utf8_lossy(&said).into_owned();
    if has_failed {
        output = format!("{output}{}", String::from_utf8_lossy(&complaint)).trim().to_owned();
        if output.is_empty() {
            output = exit
                .map_or_else(|| "it was ended".to_owned(), |code| format!("it ended with exit code {code}"));
        }
    }
    let metadata = [("exit".to_owned(), exit.into())].into_iter().collect();
    let tool_output = ToolOutput { title: String::new(), output, metadata, attachments: Vec::new() };
    Ok(Ended { tool_output, has_failed })
}

fn start(cx: &ToolCx<'_>, manifest: &Manifest, sandbox: Option<&Sandbox>) -> std::io::Result<Child> {
    let (program, args) = manifest.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let mut environment: BTreeMap<String, String> = cx.config.environment.variables.clone();
    for (name, value) in [
        ("WINDLASS_TOOL_SESSION", cx.session_id.as_str()),
        ("WINDLASS_TOOL_CALL", cx.call_id),
        ("WINDLASS_TOOL_AGENT", cx.agent),
    ] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    let spawned = Spawn {
        program: program.as_ref(),
        args: &args,
        directory: &cx.config.directory,
        environment: &environment,
        without: sandbox.map_or(&[], |it| &it.without),
        stdin: true,
        is_parent: true,
    };
    match sandbox {
        Some(sandbox) => sandbox.spawn(&spawned, None),
        None => spawn(&spawned),
    }
}

/// Reads a pipe to its end, and keeps its beginning.
async fn collect(pipe: Option<impl AsyncRead + Unpin>, text: &mut Vec<u8>) {
    let Some(pipe) = pipe else { return };
    let mut kept = pipe.take(MAX_OUTPUT);
    // A pipe that cannot be read any more has ended.
    let _ = kept.read_to_end(text).await;
    let _ = tokio::io::copy(&mut kept.into_inner(), &mut tokio::io::sink()).await;
}

/// Reads the output of a program: an object with `output`, or else a text.
fn result(manifest: &Manifest, tool_output: ToolOutput) -> Result<ToolOutput, ToolError> {
    let Ok(Value::Object(mut object)) = serde_json::from_str(&tool_output.output) else {
        return Ok(tool_output);
    };
    let Some(Value::String(output)) = object.remove("output") else { return Ok(tool_output) };
    let mut text = |key: &str| object.remove(key);
    let title = text("title").and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default();
    let metadata = match text("metadata") {
        Some(Value::Object(metadata)) => metadata,
        Some(_) | None => Map::new(),
    };
    let attachments = text("attachments").unwrap_or_else(|| Value::Array(Vec::new()));
    let attachments: Vec<FilePart> = serde_json::from_value(attachments).map_err(|error| {
        ToolError::Model(format!("an attachment of the tool {} cannot be read: {error}", manifest.name))
    })?;
    Ok(ToolOutput { title, output, metadata, attachments })
}
