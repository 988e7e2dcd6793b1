//! Every tool under every answer: nothing happens unless it is allowed, and user and model learn the answer.
//! Those that never ask for a permission are in `questions::tools_that_never_ask_for_a_permission`.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, asks::Ask, binary},
    llm::{Llm, Reply},
    message::Turn,
    scratch::Scratch,
    web::{Page, Web},
};

const REJECTED: &str = "The user rejected permission to use this specific tool call.";
const ABORTED: &str = "Tool execution aborted";

/// The machine that a case runs on; it outlives the agents.
struct Stage {
    scratch: Arc<Scratch>,
    web: Web,
    llm: Llm,
}

/// A tool, the permission it asks for, and how to see that it ran.
struct Case {
    tool: &'static str,
    permission: &'static str,
    config: fn(&Stage) -> Value,
    /// Arguments of the call with this number.
    input: fn(&Stage, usize) -> Value,
    title: fn(&Stage, usize) -> String,
    patterns: fn(&Stage, usize) -> Vec<String>,
    /// The one pattern that `always` remembers.
    always: fn(&Stage) -> String,
    /// Number of times that it happened; `None` for tools that change nothing outside the conversation.
    n_done: Option<fn(&Stage) -> usize>,
    /// Text that the model reads when it happened.
    told: &'static str,
    /// A file that the model must have read before it may change it.
    reads: Option<&'static str>,
    /// Identical calls before the one that asks; they run unasked.
    n_before: usize,
    /// Answers of the model while the tool runs.
    replies: fn(&Llm),
}

impl Case {
    fn new(tool: &'static str, input: fn(&Stage, usize) -> Value, told: &'static str) -> Self {
        Self {
            tool,
            permission: tool,
            config: |_| json!({}),
            input,
            title: |_, _| String::new(),
            patterns: |_, _| vec!["*".to_owned()],
            always: |_| "*".to_owned(),
            n_done: None,
            told,
            reads: None,
            n_before: 0,
            replies: |_| {},
        }
    }
}

/// One agent at work on a case.
struct Run<'a> {
    case: &'a Case,
    stage: &'a Stage,
    agent: Agent,
    session: String,
    /// Calls so far, and the text that the model has to be told of each.
    told: Vec<(String, String)>,
    n_calls: usize,
    n_done: usize,
}

/// Result of one prompt.
struct Done {
    turn: Turn,
    call_id: String,
}

impl<'a> Run<'a> {
    async fn start(case: &'a Case, stage: &'a Stage, n_calls: usize) -> Self {
        let agent = Agent::builder()
            .config(json!({"permission": {case.permission: "ask"}}))
            .config((case.config)(stage))
            .env("OPENCODE_ENABLE_EXA", "1")
            .scratch(&stage.scratch)
            .llm(&stage.llm)
            .spawn()
            .await;
        agent.initialize_with(json!({"_meta": {"windlass/events": ["permission.asked"]}})).await;
        let session = agent.new_session().await;
        if case.tool.starts_with("shop_") {
            crate::mcp::until_offered(&agent, &session, case.tool).await;
        }
        if let Some(file) = case.reads {
            let path = stage.scratch.path(file);
            stage.llm.reply(Reply::call("call_read", "read", json!({"filePath": path})));
            stage.llm.reply(Reply::text("read it"));
            agent.prompt(&session, "read").await;
        }
        let n_done = case.n_done.map_or(0, |n_done| n_done(stage));
        Self { case, stage, agent, session, told: Vec::new(), n_calls, n_done }
    }

    /// Scripts the calls of one prompt; the id of the last.
    fn script(&mut self) -> String {
        self.n_calls += 1;
        let input = (self.case.input)(self.stage, self.n_calls);
        for idx in 0..self.case.n_before {
            let id = format!("before_{}_{idx}", self.n_calls);
            self.stage.llm.reply(Reply::call(&id, self.case.tool, input.clone()));
            self.n_done += 1;
        }
        let call_id = format!("call_{}", self.n_calls);
        self.stage.llm.reply(Reply::call(&call_id, self.case.tool, input));
        call_id
    }

    /// Prompts, and waits for the question, which must come before anything is done.
    async fn asked(&mut self) -> (crate::support::agent::requests::Pending, Ask, Value, String) {
        let call_id = self.script();
        let prompt = self.agent.send_prompt(&self.session, "go");
        let ask = self.agent.permission().await;
        let is_asked = |message: &Value| {
            message["params"]["event"]["type"] == "permission.asked"
                && message["params"]["event"]["properties"]["tool"]["callID"] == call_id.as_str()
        };
        let event = self.agent.wait_for("permission.asked", is_asked).await;
        let request = event["params"]["event"]["properties"].clone();
        let (case, stage) = (self.case, self.stage);
        let expected = json!({
            "permission": case.permission,
            "patterns": (case.patterns)(stage, self.n_calls),
            "always": [(case.always)(stage)],
        });
        for key in ["permission", "patterns", "always"] {
            assert_eq!(request[key], expected[key], "{}: {request}", case.tool);
        }
        let call = ask.call();
        assert_eq!(call["toolCallId"], call_id.as_str());
        assert_eq!(call["title"], (case.title)(stage, self.n_calls), "{}", case.tool);
        let options = ask.params["options"].as_array().unwrap().iter();
        let options: Vec<&str> = options.map(|option| option["kind"].as_str().unwrap()).collect();
        assert_eq!(options, ["allow_once", "allow_always", "reject_once", "reject_always"]);
        self.check_done("before the answer");
        (prompt, ask, request, call_id)
    }

    #[track_caller]
    fn check_done(&self, when: &str) {
        if let Some(n_done) = self.case.n_done {
            assert_eq!(n_done(self.stage), self.n_done, "{} {when}", self.case.tool);
        }
    }

    /// Asks, answers and checks the update that the user sees and the effect.
    async fn answered(&mut self, answer: Answer) -> Done {
        let (prompt, ask, _, call_id) = self.asked().await;
        let is_allowed = matches!(answer, Answer::AllowOnce | Answer::AllowAlways);
        if is_allowed {
            self.will_run();
        }
        let n_requests = self.stage.llm.requests().len();
        self.agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!(turn.stop, "end_turn", "{answer:?}");
        if is_allowed {
            self.ran(&turn, &call_id);
        } else {
            assert_eq!(self.stage.llm.requests().len(), n_requests, "the turn went on after {answer:?}");
            self.failed(&turn, &call_id, REJECTED);
        }
        Done { turn, call_id }
    }

    /// Scripts the replies that follow a call that runs.
    fn will_run(&mut self) {
        (self.case.replies)(&self.stage.llm);
        self.stage.llm.reply(Reply::text("done"));
        self.n_done += 1;
    }

    #[track_caller]
    fn ran(&mut self, turn: &Turn, call_id: &str) {
        assert_eq!(turn.tool(call_id)["status"], "completed", "{}", turn.tool(call_id));
        self.check_done("after it was allowed");
        self.told.push((call_id.to_owned(), self.case.told.to_owned()));
    }

    #[track_caller]
    fn failed(&mut self, turn: &Turn, call_id: &str, told: &str) {
        let call = turn.tool(call_id);
        assert_eq!(call["status"], "failed", "{call}");
        assert!(call["content"][0]["content"]["text"].as_str().unwrap().contains(told), "{call}");
        self.check_done("after it was refused");
        self.told.push((call_id.to_owned(), told.to_owned()));
    }

    /// Makes a call without a question.
    async fn unasked(&mut self, is_allowed: bool) {
        let n_asked = self.agent.n_asked();
        let call_id = self.script();
        if is_allowed {
            self.will_run();
        } else {
            self.stage.llm.reply(Reply::text("understood"));
        }
        let turn = self.agent.prompt(&self.session, "go").await;
        assert_eq!(self.agent.n_asked(), n_asked, "{} was asked about again", self.case.tool);
        if is_allowed {
            self.ran(&turn, &call_id)
        } else {
            self.failed(&turn, &call_id, "The user has specified a rule which prevents you")
        }
    }

    /// Returns the action of this case in `windlass permission list`, if it is remembered.
    async fn remembered(&self) -> Option<String> {
        let listed = self.permission(&["list"]).await;
        let pattern = (self.case.always)(self.stage);
        let rows = listed.lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let mut rows = rows.filter(|row| row.len() == 5 && row[2..4] == [self.case.permission, &pattern]);
        rows.next().map(|row| row[1].to_owned())
    }

    async fn revoke(&self) {
        let pattern = (self.case.always)(self.stage);
        let said = self.permission(&["revoke", self.case.permission, &pattern]).await;
        assert!(said.starts_with("Revoked: "), "{said}");
        assert_eq!(self.remembered().await, None);
    }

    async fn permission(&self, arguments: &[&str]) -> String {
        let output = tokio::process::Command::new(binary())
            .arg("permission")
            .args(arguments)
            .current_dir(self.stage.scratch.cwd())
            .env_clear()
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &self.stage.scratch.home)
            .output()
            .await
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Ends the conversation: the model has been told the outcome of every call.
    async fn end(self) {
        self.stage.llm.reply(Reply::text("bye"));
        self.agent.prompt(&self.session, "bye").await;
        let last = self.stage.llm.last_request();
        for (call_id, expected) in &self.told {
            let told = last.tool_result(call_id);
            assert!(told.contains(expected), "{} {call_id}: {told}", self.case.tool);
        }
        self.agent.finish().await;
    }
}

async fn sweep(case: Case) {
    let stage = Stage { scratch: Scratch::new(), web: Web::start().await, llm: Llm::start().await };
    let mut first = Run::start(&case, &stage, 0).await;

    first.answered(Answer::AllowOnce).await;
    // Once was once.
    first.answered(Answer::RejectOnce).await;
    first.answered(Answer::Cancelled).await;

    let (prompt, ask, request, call_id) = first.asked().await;
    stage.llm.reply(Reply::text("as you wish"));
    let reply = json!({
        "sessionId": first.session, "requestId": request["id"], "reply": "reject", "message": "not now",
    });
    first.agent.request("_windlass/permission/reply", reply).await.unwrap();
    first.agent.withdrawn(&ask).await;
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "as you wish"));
    first.failed(
        &turn,
        &call_id,
        &format!("{} with the following feedback: not now", REJECTED.trim_end_matches('.')),
    );

    let (prompt, ask, _, call_id) = first.asked().await;
    first.agent.cancel(&first.session);
    first.agent.withdrawn(&ask).await;
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    first.failed(&turn, &call_id, ABORTED);

    let (prompt, ask, _, call_id) = first.asked().await;
    first.agent.cancel(&first.session);
    first.agent.answer(&ask, Answer::AllowAlways);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    first.failed(&turn, &call_id, ABORTED);
    assert_eq!(first.remembered().await, None, "an answer after the cancel was remembered");

    first.answered(Answer::AllowAlways).await;
    first.unasked(true).await;
    assert_eq!(first.remembered().await.as_deref(), Some("allow"));
    let n_calls = first.n_calls;
    first.end().await;

    let mut second = Run::start(&case, &stage, n_calls).await;
    second.unasked(true).await;
    second.revoke().await;
    let rejected = second.answered(Answer::RejectAlways).await;
    assert_eq!(rejected.turn.tool(&rejected.call_id)["status"], "failed");
    assert_eq!(second.remembered().await.as_deref(), Some("deny"));
    second.unasked(false).await;
    second.revoke().await;
    let n_calls = second.n_calls;
    second.end().await;

    let mut third = Run::start(&case, &stage, n_calls).await;
    let (_prompt, ask, _, _) = third.asked().await;
    third.agent.allow_cut_output();
    third.agent.close_stdout().await;
    third.agent.close_stdin();
    third.agent.wait_exit().await;
    third.check_done("after the client was gone");
    third.agent.answer(&ask, Answer::AllowAlways);
    assert_eq!(third.remembered().await, None);
    third.agent.finish().await;
}

fn gpt() -> Value {
    json!({"model": "mock/gpt-5", "provider": {"mock": {"models": {"gpt-5": {"name": "GPT"}}}}})
}

/// Returns how many files of the project have a name that begins so.
fn n_files(stage: &Stage, prefix: &str) -> usize {
    let entries = std::fs::read_dir(&stage.scratch.work).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(prefix)).count()
}

fn outside(stage: &Stage) -> std::path::PathBuf {
    let directory = stage.scratch.root().join("outside");
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn n_plus(stage: &Stage, name: &str) -> usize {
    std::fs::read_to_string(stage.scratch.path(name)).unwrap_or_default().matches('+').count()
}

fn print(n: usize) -> String {
    format!("printf +{n} >> made.txt")
}

#[tokio::test]
async fn bash() {
    sweep(Case {
        title: |_, n| print(n),
        patterns: |_, n| vec![print(n)],
        always: |_| "printf *".to_owned(),
        n_done: Some(|stage| n_plus(stage, "made.txt")),
        ..Case::new("bash", |_, n| json!({"command": print(n)}), "(no output)")
    })
    .await;
}

#[tokio::test]
async fn read() {
    sweep(Case {
        title: |stage, _| stage.scratch.path("a.txt"),
        patterns: |_, _| vec!["a.txt".to_owned()],
        ..Case::new(
            "read",
            |stage, n| json!({"filePath": stage.scratch.path("a.txt"), "limit": 10 + n}),
            "three",
        )
    })
    .await;
}

#[tokio::test]
async fn write() {
    sweep(Case {
        permission: "edit",
        title: |stage, n| stage.scratch.path(&format!("new-{n}.txt")),
        patterns: |_, n| vec![format!("new-{n}.txt")],
        n_done: Some(|stage| n_files(stage, "new-")),
        ..Case::new(
            "write",
            |stage, n| json!({"filePath": stage.scratch.path(&format!("new-{n}.txt")), "content": "x"}),
            "Wrote file successfully",
        )
    })
    .await;
}

#[tokio::test]
async fn edit() {
    sweep(Case {
        permission: "edit",
        title: |stage, _| stage.scratch.path("a.txt"),
        patterns: |_, _| vec!["a.txt".to_owned()],
        n_done: Some(|stage| n_plus(stage, "a.txt")),
        reads: Some("a.txt"),
        ..Case::new(
            "edit",
            |_, n| json!({"filePath": "a.txt", "oldString": "three", "newString": format!("three+{n}")}),
            "Edit applied successfully",
        )
    })
    .await;
}

#[tokio::test]
async fn multiedit() {
    sweep(Case {
        permission: "edit",
        title: |stage, _| stage.scratch.path("a.txt"),
        patterns: |_, _| vec!["a.txt".to_owned()],
        n_done: Some(|stage| n_plus(stage, "a.txt")),
        reads: Some("a.txt"),
        ..Case::new(
            "multiedit",
            |_, n| {
                let edits = json!([
                    {"oldString": "three", "newString": format!("{n}three")},
                    {"oldString": "three", "newString": "three+"},
                ]);
                json!({"filePath": "a.txt", "edits": edits})
            },
            "Edit applied successfully",
        )
    })
    .await;
}

fn patch(_: &Stage, n: usize) -> Value {
    let patch = format!(
        "*** Begin Patch\n*** Add File: new-{n}.txt\n+x\n*** Update File: README.md\n@@\n # Scratch\n+{n}\n*** End Patch"
    );
    json!({"patchText": patch})
}

#[tokio::test]
async fn apply_patch_and_patch() {
    for tool in ["apply_patch", "patch"] {
        sweep(Case {
            permission: "edit",
            config: |_| gpt(),
            title: |_, n| format!("add new-{n}.txt, update README.md"),
            patterns: |_, n| vec![format!("new-{n}.txt"), "README.md".to_owned()],
            n_done: Some(|stage| n_files(stage, "new-")),
            reads: Some("README.md"),
            ..Case::new(tool, patch, "Success. Updated the following files")
        })
        .await;
    }
}

#[tokio::test]
async fn glob() {
    sweep(Case {
        title: |_, n| format!("*{{.txt,.{n}}}"),
        patterns: |_, n| vec![format!("*{{.txt,.{n}}}")],
        ..Case::new("glob", |_, n| json!({"pattern": format!("*{{.txt,.{n}}}")}), "a.txt")
    })
    .await;
}

#[tokio::test]
async fn grep() {
    sweep(Case {
        title: |_, n| format!("two|{n}"),
        patterns: |_, n| vec![format!("two|{n}")],
        ..Case::new("grep", |_, n| json!({"pattern": format!("two|{n}")}), "a.txt")
    })
    .await;
}

#[tokio::test]
async fn list() {
    sweep(Case {
        title: |_, _| ".".to_owned(),
        patterns: |_, _| vec![".".to_owned()],
        ..Case::new("list", |_, n| json!({"ignore": [format!("no-{n}/")]}), "a.txt")
    })
    .await;
}

#[tokio::test]
async fn todowrite_and_todoread() {
    let todos = |_: &Stage, n: usize| json!({"todos": [{"content": format!("step {n}"), "status": "pending", "priority": "low"}]});
    sweep(Case {
        title: |_, _| "replace the todo list by 1 todo".to_owned(),
        ..Case::new("todowrite", todos, "\"step ")
    })
    .await;
    sweep(Case { title: |_, _| "todoread".to_owned(), ..Case::new("todoread", |_, _| json!({}), "[]") })
        .await;
}

#[tokio::test]
async fn task() {
    let n_children = |stage: &Stage| {
        stage.llm.requests().iter().filter(|request| request.last_user().contains("CHILD")).count()
    };
    sweep(Case {
        title: |_, n| format!("general: errand {n}"),
        patterns: |_, _| vec!["general".to_owned()],
        n_done: Some(n_children),
        replies: |llm| llm.reply_to("CHILD", Reply::text("found it")),
        ..Case::new(
            "task",
            |_, n| json!({"description": format!("errand {n}"), "prompt": "CHILD", "subagent_type": "general"}),
            "found it",
        )
    })
    .await;
}

#[tokio::test]
async fn webfetch() {
    sweep(Case {
        config: |stage| {
            stage.web.page("/tea", Page::new("text/plain", "a cup of tea"));
            // The first rule opens the loopback, the last decides.
            json!({"permission": {"webfetch": {stage.web.url("/*"): "allow", "*": "ask"}}})
        },
        title: |stage, _| stage.web.url("/tea"),
        patterns: |stage, _| vec![stage.web.url("/tea")],
        n_done: Some(|stage| stage.web.asked().len()),
        ..Case::new(
            "webfetch",
            |stage, n| json!({"url": stage.web.url("/tea"), "timeout": 10 + n}),
            "a cup of tea",
        )
    })
    .await;
}

/// Configures search services on loopback.
fn searching(stage: &Stage) -> Value {
    let message = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"tea is a leaf"}]}}"#;
    stage.web.page("/exa", Page::new("text/event-stream", format!("event: message\ndata: {message}\n\n")));
    json!({"windlass": {"exa_url": stage.web.url("/exa")}})
}

#[tokio::test]
async fn websearch_and_codesearch() {
    for tool in ["websearch", "codesearch"] {
        sweep(Case {
            config: searching,
            title: |_, n| format!("tea {n}"),
            patterns: |_, n| vec![format!("tea {n}")],
            n_done: Some(|stage| stage.web.asked().len()),
            ..Case::new(tool, |_, n| json!({"query": format!("tea {n}")}), "tea is a leaf")
        })
        .await;
    }
}

#[tokio::test]
async fn skill() {
    sweep(Case {
        config: |stage| {
            let bees = "---\nname: bees\ndescription: Keeping bees\n---\nUse smoke.\n";
            stage.scratch.write(".opencode/skill/bees/SKILL.md", bees);
            json!({})
        },
        title: |_, _| "bees".to_owned(),
        patterns: |_, _| vec!["bees".to_owned()],
        always: |_| "bees".to_owned(),
        // A key that is not one of its arguments keeps the calls apart.
        ..Case::new("skill", |_, n| json!({"name": "bees", "n": n}), "Use smoke.")
    })
    .await;
}

#[tokio::test]
async fn a_tool_of_an_mcp_server() {
    let shop = |_: &Stage| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
        json!({"mcp": {"shop": {"type": "local", "command": ["python3", script, "good"]}}})
    };
    sweep(Case {
        config: shop,
        title: |_, _| "shop_price".to_owned(),
        ..Case::new(
            "shop_price",
            |_, n| json!({"item": format!("tea {n}"), "command": "harmless"}),
            " costs 3, shop is unknown",
        )
    })
    .await;
}

#[tokio::test]
async fn the_third_identical_call() {
    sweep(Case {
        permission: "doom_loop",
        title: |_, n| format!("repeat bash, the 3rd time with the same input: {}", print(n)),
        patterns: |_, _| vec!["bash".to_owned()],
        always: |_| "bash".to_owned(),
        n_done: Some(|stage| n_plus(stage, "made.txt")),
        n_before: 2,
        ..Case::new("bash", |_, n| json!({"command": print(n)}), "(no output)")
    })
    .await;
}

#[tokio::test]
async fn a_file_outside_the_project_behind_a_link() {
    sweep(Case {
        permission: "external_directory",
        config: |stage| {
            std::fs::write(outside(stage).join("far.txt"), "far away").unwrap();
            let _ = std::os::unix::fs::symlink(outside(stage), stage.scratch.work.join("near"));
            json!({})
        },
        title: |stage, _| {
            format!(
                "{} (outside the project: {}/*)",
                stage.scratch.path("near/far.txt"),
                outside(stage).display()
            )
        },
        patterns: |stage, _| vec![format!("{}/*", outside(stage).display())],
        always: |stage| format!("{}/*", outside(stage).display()),
        ..Case::new("read", |_, n| json!({"filePath": "near/far.txt", "limit": 10 + n}), "far away")
    })
    .await;
}

#[tokio::test]
async fn a_redirection_out_of_the_project() {
    fn command(stage: &Stage, n: usize) -> String {
        format!("printf +{n} >> {}/../outside/made.txt", outside(stage).display())
    }
    sweep(Case {
        permission: "external_directory",
        title: |stage, n| {
            format!("{} (outside the project: {}/*)", command(stage, n), outside(stage).display())
        },
        patterns: |stage, _| vec![format!("{}/*", outside(stage).display())],
        always: |stage| format!("{}/*", outside(stage).display()),
        n_done: Some(|stage| {
            std::fs::read_to_string(outside(stage).join("made.txt")).unwrap_or_default().matches('+').count()
        }),
        ..Case::new("bash", |stage, n| json!({"command": command(stage, n)}), "(no output)")
    })
    .await;
}
