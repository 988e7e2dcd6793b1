//! Every kind of thing that a project brings, by every way in which it is opened: before its user trusts it, after
//! that, and after a change of each. The table is written to `target/trust-table.md`.

use std::{collections::BTreeSet, fmt::Write, os::unix::fs::PermissionsExt, sync::Arc};

use serde_json::json;

use crate::{
    cli::{Machine, ended},
    import::small,
    support::{
        agent::{Agent, Answer},
        llm::Reply,
        scratch::Scratch,
        server::Server,
        terminal::{Terminal, screen::Screen},
        web::{Page, Web},
    },
};

/// Things that leave a file of their name where they act.
const PROGRAMS: [&str; 7] = ["mcp", "lsp", "formatter", "own formatter", "plugin", "tool", "program"];
/// Things that ask a server at a path of their name.
const ADDRESSES: [&str; 2] = ["remote", "instructions"];
/// A rule that lets a command run, and the shell line of a command, with the files that they leave in the project.
const COMMANDS: [(&str, &str); 2] = [("rule", "ran"), ("command", "command")];

const TURNS: [&str; 6] = ["acp", "run", "serve", "web", "attach", "chat"];
const READING: [&[&str]; 9] = [
    &["doctor"],
    &["config", "check"],
    &["mcp", "list"],
    &["models"],
    &["agent", "list"],
    &["plugin", "list"],
    &["debug", "agent", "build"],
    &["session", "list"],
    &["import", "session.json"],
];

struct Scene {
    machine: Machine,
    web: Web,
}

impl Scene {
    async fn new() -> Self {
        let machine = Machine::new().await;
        // Beneath the project, as its rules are the last to match.
        let own = machine.scratch.home.join(".config/opencode");
        std::fs::create_dir_all(&own).unwrap();
        let text = json!({"permission": {"bash": "deny"}, "formatter": true}).to_string();
        std::fs::write(own.join("opencode.json"), text).unwrap();
        let web = Web::start().await;
        for name in ADDRESSES {
            web.page(&format!("/{name}"), Page::status(404));
        }
        Self { machine, web }
    }

    fn scratch(&self) -> &Arc<Scratch> {
        &self.machine.scratch
    }

    /// Writes a project with every kind of thing; each says something else in another version.
    fn write(&self, version: u32) {
        let scratch = self.scratch();
        let mark = |name: &str| format!("touch '{}' # {version}", scratch.path(&format!("../{name}")));
        // No file of the command line: such a file decides, and is taken from commands that run in a sandbox.
        let touch = |name: &str| json!(["sh", "-c", format!("touch ../$0 # {version}"), name]);
        let address = |name: &str| format!("{}?{version}", self.web.url(&format!("/{name}")));
        let config = json!({
            "mcp": {
                "shop": {"type": "local", "command": touch("mcp")},
                "far": {"type": "remote", "url": address("remote"), "oauth": false},
            },
            "lsp": {"mine": {"command": touch("lsp"), "extensions": [".txt"]}},
            "formatter": {"mine": {"command": touch("formatter"), "extensions": [".txt"]}},
            "permission": {"bash": {"*": "ask", "touch *": "allow", "x": if version == 0 { "deny" } else { "ask" }}},
            "instructions": [address("instructions")],
            "command": {"hi": {"template": format!("say {version} !`touch command`")}},
        });
        scratch.write("opencode.json", config.to_string());
        scratch.write("session.json", small().to_string());
        let module = |name: &str, rest: &str| {
            let file = scratch.path(&format!("../{name}"));
            format!("import {{writeFileSync}} from 'fs'; writeFileSync({file:?}, '{version}'); {rest}")
        };
        scratch.write(".opencode/plugin/p.js", module("plugin", "export const P = async () => ({})"));
        let tool = "export default { description: 'd', args: {}, execute: async () => 'x' }";
        scratch.write(".opencode/tool/t.js", module("tool", tool));
        let program = |name: &str, mark: &str| {
            scratch.write(name, format!("#!/bin/sh\n{mark}\n"));
            let file = scratch.work.join(name);
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("node_modules/.bin/prettier", &mark("own formatter"));
        scratch.write("package.json", r#"{"devDependencies": {"prettier": "3"}}"#);
        program(".opencode/tool/made.sh", &mark("program"));
        let manifest =
            json!({"description": "d", "command": ["./made.sh"], "parameters": {"type": "object"}});
        scratch.write(".opencode/tool/made.json", manifest.to_string());
    }

    /// Returns the things that have acted since the last call.
    fn acted(&self, asked_before: &mut usize) -> BTreeSet<&'static str> {
        let root = self.scratch().path("..");
        let mut acted: BTreeSet<&str> = BTreeSet::new();
        let marks = PROGRAMS.into_iter().map(|name| (name, std::path::Path::new(&root).join(name)));
        let marks = marks.chain(COMMANDS.map(|(name, file)| (name, self.scratch().work.join(file))));
        acted.extend(marks.filter(|(_, file)| std::fs::remove_file(file).is_ok()).map(|(name, _)| name));
        for page in ["page.txt", "page.md"] {
            // The next turn writes it anew.
            let _ = std::fs::remove_file(self.scratch().work.join(page));
        }
        let asked = self.web.asked();
        let paths: Vec<String> = asked[*asked_before..].iter().map(|it| it.line.clone()).collect();
        *asked_before = asked.len();
        acted.extend(
            ADDRESSES.into_iter().filter(|name| paths.iter().any(|line| line.contains(&format!("/{name}")))),
        );
        acted
    }

    /// The model's part in a turn: it runs a command, writes files, and calls the project's own tool.
    fn script(&self) {
        let llm = &self.machine.llm;
        llm.reply(Reply::call("c1", "bash", json!({"command": "touch ran"})));
        llm.reply(Reply::call("c2", "write", json!({"filePath": "page.txt", "content": "x\n"})));
        llm.reply(Reply::call("c3", "write", json!({"filePath": "page.md", "content": "x\n"})));
        llm.reply(Reply::call("c4", "made", json!({})));
        llm.reply(Reply::text("done"));
    }

    async fn agent(&self, answer: Answer, is_trusted: bool) {
        let builder = Agent::builder().scratch(self.scratch()).llm(&self.machine.llm);
        let agent = builder.env("WINDLASS_TRUST", "").answering(answer).start().await;
        let session = agent.new_session().await;
        self.script();
        agent.prompt(&session, "go").await;
        // A command that does not act is none, and no model is asked.
        if is_trusted {
            self.machine.llm.reply(Reply::text("said"));
        }
        let said = agent.prompt(&session, "/hi").await.text();
        assert!(!is_trusted || said == "said", "{said}");
        agent.finish().await;
    }

    async fn open(&self, way: &str, is_trusted: bool) {
        match way {
            "acp" => self.agent(Answer::RejectOnce, is_trusted).await,
            "run" => {
                self.script();
                self.command(&["run", "go"]).await;
            }
            "chat" => self.terminal(self.scratch(), &["chat"], is_trusted).await,
            way => {
                let command = if way == "web" { "web" } else { "serve" };
                let mut builder = Server::builder().command(command).env("WINDLASS_TRUST", "");
                for key in ["provider", "model"] {
                    builder = builder.config(key, self.machine.config[key].clone());
                }
                builder.scratch = self.scratch().clone();
                let server = builder.start().await;
                let session = server.session().await;
                if way == "attach" {
                    self.terminal(
                        &Scratch::new(),
                        &["attach", &server.url, "--session", &session],
                        is_trusted,
                    )
                    .await;
                } else {
                    self.script();
                    server.prompt(&session, "go").await;
                }
                server.finish().await;
            }
        }
    }

    /// Has a turn in a terminal, where a question about the project is answered with a no.
    async fn terminal(&self, scratch: &Arc<Scratch>, arguments: &[&str], is_trusted: bool) {
        let builder = Terminal::builder(scratch, &self.machine.config).size(100, 60);
        let mut terminal = builder.env("WINDLASS_TRUST", "").arguments(arguments).start();
        let is_ready = |screen: &Screen| screen.lines().iter().any(|line| line.trim_end() == "build ›");
        terminal.shows("the prompt", is_ready).await;
        self.script();
        terminal.types("go\r");
        if !is_trusted {
            terminal.shows_text("trust the project").await;
            terminal.types("n");
        }
        terminal.shows_text("done").await;
        terminal.shows("the prompt", is_ready).await;
        terminal.types("\x04");
        terminal.ends_with(0).await;
    }

    async fn command(&self, arguments: &[&str]) {
        ended(self.machine.command(arguments).env("WINDLASS_TRUST", "").spawn().unwrap()).await;
    }
}

#[tokio::test]
async fn nothing_of_a_project_acts_before_the_yes_nor_after_a_change_by_any_way_in() {
    let scene = Scene::new().await;
    let mut n_asked = 0;
    let mut rows: Vec<(String, [BTreeSet<&str>; 3])> = Vec::new();
    for (moment, version) in [("before", 0), ("after yes", 0), ("after a change", 1)] {
        scene.write(version);
        if moment == "after yes" {
            scene.agent(Answer::AllowOnce, true).await;
            scene.acted(&mut n_asked);
        }
        let at = ["before", "after yes", "after a change"].iter().position(|it| *it == moment).unwrap();
        let mut note =
            |way: &str, acted: BTreeSet<&'static str>| match rows.iter_mut().find(|(name, _)| name == way) {
                Some((_, moments)) => moments[at] = acted,
                None => {
                    let mut moments: [BTreeSet<&str>; 3] = Default::default();
                    moments[at] = acted;
                    rows.push((way.to_owned(), moments));
                }
            };
        for way in TURNS {
            scene.open(way, moment == "after yes").await;
            note(way, scene.acted(&mut n_asked));
        }
        for arguments in READING {
            scene.command(arguments).await;
            note(&arguments.join(" "), scene.acted(&mut n_asked));
        }
    }
    let kinds: Vec<&str> =
        PROGRAMS.into_iter().chain(ADDRESSES).chain(COMMANDS.map(|(name, _)| name)).collect();
    let mut table = "Acts before the yes / after it / after a change of each.\n\n".to_owned();
    writeln!(table, "| | {} |\n|---|{}", kinds.join(" | "), "---|".repeat(kinds.len())).unwrap();
    for (way, moments) in &rows {
        let cell = |kind: &&str| {
            moments
                .iter()
                .map(|acted| if acted.contains(*kind) { "yes" } else { "no" })
                .collect::<Vec<_>>()
                .join("/")
        };
        writeln!(table, "| {way} | {} |", kinds.iter().map(cell).collect::<Vec<_>>().join(" | ")).unwrap();
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/trust-table.md");
    std::fs::write(file, &table).unwrap();
    for (way, [before, _, changed]) in &rows {
        // The user's own formatters are one thing to trust, with any contents of the project's `node_modules`.
        let may_act = BTreeSet::from(["own formatter"]);
        assert!(before.is_empty() && changed.is_subset(&may_act), "{way}\n{table}");
    }
    let all: BTreeSet<&str> = kinds.into_iter().collect();
    assert_eq!(rows[0].1[1], all, "{table}");
    scene.machine.finish().await;
}
