//! The sandbox: real attacks on its boundary, and everyday work inside it.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
    process::Command,
    sync::{Arc, OnceLock},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer, binary},
        llm::{Reply, task},
        outside::{is_open_to_everybody, outside},
        process,
        scratch::Scratch,
        skip::{has_scopes, lacks_landlock, lacks_program, skipped},
    },
};

/// The user that has no rights by its number.
pub const NOBODY: u32 = 65534;
const ATTACKS: &str = include_str!("sandbox/attacks.py");

/// Returns the level of this machine, as the command says.
pub fn level() -> &'static str {
    static LEVEL: OnceLock<String> = OnceLock::new();
    LEVEL.get_or_init(|| {
        let scratch = Scratch::new();
        let output = debug(&scratch, &json!({}), "build");
        output["level"].as_str().unwrap().to_owned()
    })
}

fn debug(scratch: &Scratch, config: &Value, agent: &str) -> Value {
    let output = Command::new(binary())
        .args(["debug", "sandbox", agent, "--json"])
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &scratch.home)
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Skips the test on a machine that cannot hold this level.
pub fn lacks(wanted: &str) -> bool {
    let is_lacking = level() != wanted;
    if is_lacking {
        skipped(&format!("this machine holds the level `{}`, not `{wanted}`", level()));
    }
    is_lacking
}

/// Skips the test on a machine that can hold no sandbox at all.
pub fn lacks_all() -> bool {
    let is_lacking = level() == "none";
    if is_lacking {
        skipped("this machine holds no sandbox");
    }
    is_lacking
}

/// A session with commands that run in a sandbox, and a directory outside of it.
struct Cell {
    agent: Agent,
    session: String,
    outside: TempDir,
}

impl Cell {
    async fn new(sandbox: Value) -> Self {
        Self::over(&Scratch::new(), sandbox, Answer::RejectOnce).await
    }

    async fn over(scratch: &Arc<Scratch>, sandbox: Value, answer: Answer) -> Self {
        // Paths outside of the project are not the subject here.
        let permission = json!({"external_directory": "allow"});
        let config = json!({"permission": permission, "windlass": {"sandbox": sandbox}});
        let builder = Agent::builder().scratch(scratch).config(config);
        let agent = builder.env("SECRET_API_KEY", "very-secret").answering(answer).start().await;
        let session = agent.new_session().await;
        Self { agent, session, outside: outside() }
    }

    async fn bash(&self, command: &str) -> String {
        self.agent.told(&self.session, "bash", json!({"command": command})).await
    }

    fn outside(&self, name: &str) -> String {
        self.outside.path().join(name).to_str().unwrap().to_owned()
    }

    async fn finish(self) {
        self.agent.finish().await;
    }
}

#[tokio::test]
async fn the_level_is_the_one_that_clients_and_the_log_are_told() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize_with(json!({})).await;
    let said = &answer["agentCapabilities"]["_meta"]["windlass/sandbox"];
    assert_eq!(said["level"], level());
    assert_eq!(said.get("reason").is_some(), level() != "full", "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn no_attack_gets_out_of_a_full_sandbox() {
    if lacks("full") {
        return;
    }
    for network in ["allow", "deny", "loopback"] {
        let cell = Cell::new(json!({"mode": "workspace-write", "network": network})).await;
        std::fs::write(cell.outside("victim"), "whole").unwrap();
        cell.agent.scratch.write("attacks.py", ATTACKS);
        let socket = cell.agent.scratch.root().join("service.sock");
        let _service = UnixListener::bind(&socket).unwrap();
        let name = format!("windlass-attack-{}-{network}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract_service = UnixListener::bind_addr(&address).unwrap();
        let (outside, pid) = (cell.outside.path().display(), cell.agent.pid());
        let not_held = if network == "allow" { not_held() } else { &[] };
        let left_out = not_held.iter().map(|it| format!(" '{it}'")).collect::<String>();
        let attack = format!("python3 attacks.py '{outside}' {} {name} {pid}{left_out}", socket.display());
        let told = cell.bash(&attack).await;
        check_held(&told, not_held);
        assert_eq!(std::fs::read_to_string(cell.outside("victim")).unwrap(), "whole");
        cell.finish().await;
    }
}

/// Checks that every attack was held but those that were left out.
#[track_caller]
fn check_held(said: &str, left_out: &[&str]) {
    assert!(!said.contains("BROKE"), "{said}");
    let n_held = ATTACKS.matches("@attack(").count() - left_out.len();
    assert_eq!(said.matches(": held").count(), n_held, "{said}");
}

/// Returns the attacks that no level stops on this kernel where the network is allowed.
fn not_held() -> &'static [&'static str] {
    if has_scopes() { &[] } else { &["an abstract socket"] }
}

/// Has a launcher attack a directory that its own user may write; the output of the attacks.
fn launched(wrapper: &[&str], level: &str, skipped: &[&str]) -> String {
    let outside = outside();
    let inside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "whole").unwrap();
    std::fs::write(inside.path().join("attacks.py"), ATTACKS).unwrap();
    let socket = outside.path().join("service.sock");
    let _service = UnixListener::bind(&socket).unwrap();
    for path in [outside.path(), &victim, inside.path(), &socket] {
        if !wrapper.is_empty() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let name = format!("windlass-launched-{}-{}", std::process::id(), wrapper.len());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_service = UnixListener::bind_addr(&address).unwrap();
    let program = binary();
    let mut words = wrapper.to_vec();
    words.push(program.to_str().unwrap());
    let (inside, outside) = (inside.path().to_str().unwrap(), outside.path().to_str().unwrap());
    let (writable, service, pid) =
        (format!("w{inside}"), socket.to_str().unwrap(), std::process::id().to_string());
    words.extend(["sandbox", level, "allow", &writable, "--", inside, "python3", "attacks.py"]);
    words.extend([outside, service, &name, &pid]);
    words.extend(skipped);
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "whole");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[tokio::test]
async fn no_attack_of_an_ordinary_user_gets_out_of_a_full_sandbox() {
    if lacks("full") {
        return;
    }
    let nobody = NOBODY.to_string();
    let drop = ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups"];
    let is_root = nix::unistd::geteuid().is_root();
    if is_root && !is_open_to_everybody(&binary()) {
        return skipped("a user without rights cannot reach the program");
    }
    let said = launched(if is_root { &drop } else { &[] }, "full", not_held());
    check_held(&said, not_held());
}

#[tokio::test]
async fn landlock_alone_holds_what_the_page_says() {
    if lacks_landlock() {
        return;
    }
    // Named by `docs/sandbox.md` as the things that this level does not stop.
    let mut not_held =
        vec!["change a mode outside", "a disk", "a signal to everybody outside", "a socket at a path"];
    not_held.extend(self::not_held());
    let said = launched(&[], "landlock", &not_held);
    check_held(&said, &not_held);
}

#[tokio::test]
async fn a_read_only_sandbox_writes_nothing_but_its_own_memory() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({"mode": "read-only"})).await;
    let told = cell.bash("echo x > made; echo y > /tmp/windlass-made; cat <<< heredoc; echo kept > $TMPDIR/a; cat $TMPDIR/a; git status --short; true").await;
    assert!(told.contains("heredoc") && told.contains("kept"), "{told}");
    assert!(!cell.agent.scratch.exists("made") && !Path::new("/tmp/windlass-made").exists());
    cell.finish().await;
}

#[tokio::test]
async fn agents_that_only_read_are_sandboxed_without_being_told_to() {
    let scratch = Scratch::new();
    let expected = if level() == "full" { "read-only" } else { "off" };
    for agent in ["plan", "explore"] {
        assert_eq!(debug(&scratch, &json!({}), agent)["mode"], expected);
    }
    assert_eq!(debug(&scratch, &json!({}), "build")["mode"], "off");
    let config = |sandbox: Value| json!({"windlass": {"sandbox": sandbox}});
    assert_eq!(debug(&scratch, &config(json!({"mode": "off"})), "plan")["mode"], "off");
    let own = config(json!({"mode": "workspace-write", "agents": {"plan": {"mode": "off"}}}));
    assert_eq!(debug(&scratch, &own, "plan")["mode"], "off");
    if level() == "full" {
        assert_eq!(debug(&scratch, &own, "explore")["mode"], "read-only");
        assert_eq!(debug(&scratch, &own, "build")["mode"], "workspace-write");
    }
}

#[tokio::test]
async fn what_decides_cannot_be_written() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{}");
    scratch.write(".opencode/agent/own.md", "---\ndescription: x\n---\nx");
    let cell = Cell::over(&scratch, json!({"mode": "workspace-write"}), Answer::RejectOnce).await;
    let attacks = [
        "echo '{}' > opencode.json",
        "rm -f opencode.json",
        "mv opencode.json o.json",
        "echo '{}' > new.json && mv new.json opencode.json",
        "ln -sf /dev/null opencode.json",
        "echo x > .opencode/agent/own.md",
        "echo x > .opencode/agent/more.md",
        "mkdir .opencode/plugin",
        "mv .opencode .opencode2",
        "rm -rf .opencode",
        "echo x > .git/hooks/pre-commit",
        "git config core.pager 'touch /tmp/x'",
        "rm -rf .git/hooks",
        "mv .git .git2",
        "mv .git/hooks .git/hooks2",
        "python3 -c 'open(\"opencode.json\", \"w\")'",
        "ln opencode.json other && echo x > other",
    ];
    let script: Vec<String> = attacks
        .iter()
        .enumerate()
        .map(|(idx, line)| format!("( {line} ) 2>/dev/null && echo 'BROKE {idx}'; true"))
        .collect();
    let told = cell.bash(&script.join("\n")).await;
    assert!(!told.contains("BROKE"), "{told}");
    assert_eq!(scratch.read("opencode.json"), "{}");
    // Files that did not exist are removed again.
    let told = cell
        .bash("echo '{\"permission\": \"allow\"}' > opencode.jsonc; echo ../x > .git/commondir; echo done")
        .await;
    assert!(told.contains("opencode.jsonc.refused") && told.contains("done"), "{told}");
    assert!(!scratch.exists("opencode.jsonc") && !scratch.exists(".git/commondir"));
    cell.finish().await;
}

#[tokio::test]
async fn credentials_and_the_store_cannot_be_read() {
    if lacks_all() {
        return;
    }
    let scratch = Scratch::new();
    let data = scratch.home.join(".local/share");
    for name in ["windlass", "opencode"] {
        std::fs::create_dir_all(data.join(name)).unwrap();
        std::fs::write(data.join(name).join("auth.json"), r#"{"x": {"type": "api", "key": "hidden-key"}}"#)
            .unwrap();
    }
    let cell = Cell::over(&scratch, json!({"mode": "workspace-write"}), Answer::RejectOnce).await;
    let read = format!(
        "cat {0}/windlass/auth.json {0}/opencode/auth.json; ls {0}/windlass; cat {0}/windlass/windlass.db | head -c 15",
        data.display()
    );
    let told = cell.bash(&read).await;
    assert!(!told.contains("hidden-key") && !told.contains("SQLite format"), "{told}");
    // Nor through the daemon, or by anything that commands inherit.
    let told = cell.bash(&format!("env; cat /proc/*/environ /proc/{}/environ", cell.agent.pid())).await;
    assert!(told.contains("HOME=") && !told.contains("very-secret"), "{told}");
    cell.finish().await;
}

#[tokio::test]
async fn credentials_of_other_programs_cannot_be_read_and_caches_can_be_filled() {
    if lacks_all() {
        return;
    }
    let scratch = Scratch::new();
    for (name, text) in [
        (".ssh/id_ed25519", "ssh-secret"),
        (".ssh/known_hosts", "known-host"),
        (".aws/credentials", "aws-secret"),
        (".npmrc", "npm-secret"),
        (".cargo/registry/index", ""),
    ] {
        let file = scratch.home.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let read = "cd; cat .ssh/id_ed25519 .ssh/known_hosts .aws/credentials .npmrc; echo made > .cargo/registry/new; \
                cat .cargo/registry/new";
    for (sandbox, seen) in [
        (json!({"mode": "workspace-write"}), &["known-host", "made"][..]),
        (json!({"mode": "workspace-write", "readable": ["~/.aws"]}), &["known-host", "made", "aws-secret"]),
        (json!({"mode": "read-only"}), &["known-host"]),
    ] {
        let _ = std::fs::remove_file(scratch.home.join(".cargo/registry/new"));
        let cell = Cell::over(&scratch, sandbox.clone(), Answer::RejectOnce).await;
        let told = cell.bash(read).await;
        for word in ["known-host", "made\n", "aws-secret", "ssh-secret", "npm-secret"] {
            assert_eq!(told.contains(word), seen.contains(&word.trim_end()), "{sandbox}, {word}: {told}");
        }
        cell.finish().await;
    }
}

#[tokio::test]
async fn nothing_of_a_command_outlives_it_or_the_daemon() {
    if lacks("full") {
        return;
    }
    let mut cell = Cell::new(json!({"mode": "workspace-write"})).await;
    let name = format!("windlass-left-{}", std::process::id());
    let leave = format!(
        "cp $(command -v sleep) {name}; (setsid ./{name} 300 >/dev/null 2>&1 &) ; (trap '' TERM; nohup ./{name} 301 >/dev/null 2>&1 &); ./{name} 0.1; echo left"
    );
    assert!(cell.bash(&leave).await.contains("left"));
    // The end of a command is told when all that it started has ended.
    assert_eq!(process::describe(&process::with_word(&name)), "");
    let hang = json!({"command": format!("touch begun; setsid ./{name} 302 & ./{name} 303")});
    cell.agent.llm.reply(Reply::call("call_1", "bash", hang));
    let _prompt = cell.agent.send_prompt(&cell.session, "go");
    cell.agent.scratch.appears("begun").await;
    cell.agent.signal(Signal::SIGKILL);
    cell.agent.wait_exit().await;
    assert_eq!(process::describe(&process::gone_with_word(&name).await), "");
    cell.finish().await;
}

#[tokio::test]
async fn what_a_cancelled_command_made_decides_nothing() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({"mode": "workspace-write"})).await;
    let make =
        json!({"command": "echo '{\"permission\": \"allow\"}' > opencode.jsonc; touch begun; sleep 60"});
    cell.agent.llm.reply(Reply::call("call_1", "bash", make));
    let prompt = cell.agent.send_prompt(&cell.session, "go");
    cell.agent.scratch.appears("begun").await;
    cell.agent.cancel(&cell.session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    assert!(
        !cell.agent.scratch.exists("opencode.jsonc") && cell.agent.scratch.exists("opencode.jsonc.refused")
    );
    cell.finish().await;
}

#[tokio::test]
async fn exit_codes_signals_and_time_limits_are_those_of_the_command() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({"mode": "workspace-write"})).await;
    for (command, key, expected) in [
        ("exit 7", "exit", json!(7)),
        ("kill -9 $$", "signal", json!("SIGKILL")),
        ("true", "exit", json!(0)),
        // The pipes by which the first process tells the status.
        ("for n in 3 4 5 6 7 8 9; do echo no > /proc/1/fd/$n; done 2>/dev/null; exit 5", "exit", json!(5)),
    ] {
        let (turn, _) = cell.agent.run("bash", json!({"command": command})).await;
        assert_eq!(turn.tool("call_1")["rawOutput"]["metadata"][key], expected, "{command}");
    }
    let slow =
        json!({"command": "trap 'echo asked; exit 3' TERM; echo up; sleep 100 & wait", "timeout": 2000});
    let told = cell.agent.told(&cell.session, "bash", slow).await;
    assert!(told.contains("asked") && told.contains("exceeding timeout"), "{told}");
    cell.finish().await;
}

#[tokio::test]
async fn a_refused_write_is_explained_and_offered_outside_once() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({"mode": "workspace-write"})).await;
    let write = format!("echo x > '{}'", cell.outside("wanted"));
    let told = cell.bash(&write).await;
    assert!(
        told.contains("The command failed in a sandbox, and its output says so: ")
            && told.contains("Read-only file system"),
        "{told}"
    );
    assert_eq!(cell.agent.n_asked(), 1);
    let ask = cell.agent.asks().remove(0);
    let title = ask.call()["title"].as_str().unwrap().to_owned();
    assert!(title.starts_with("run outside the sandbox: echo x"), "{title}");
    // A command inside may change the programs that a line runs, so no yes holds for the next time.
    let kinds: Vec<&str> =
        ask.params["options"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert!(!kinds.contains(&"allow_always"), "{kinds:?}");
    assert!(!Path::new(&cell.outside("wanted")).exists());
    cell.finish().await;

    let cell = Cell::over(&Scratch::new(), json!({"mode": "workspace-write"}), Answer::AllowOnce).await;
    let told = cell.bash(&format!("echo x > '{}'", cell.outside("wanted"))).await;
    assert!(told.contains("The user let this command run again outside"), "{told}");
    assert!(Path::new(&cell.outside("wanted")).exists() && cell.agent.n_asked() == 1);
    // The output of a successful command is not a sign of anything.
    cell.bash("echo 'Read-only file system'").await;
    assert_eq!(cell.agent.n_asked(), 1);
    cell.finish().await;
}

#[tokio::test]
async fn auto_does_not_let_a_command_out_of_its_sandbox_unless_an_option_says_so() {
    if lacks("full") {
        return;
    }
    let outside = outside();
    let wanted = outside.path().join("wanted");
    let sandbox = json!({"sandbox": {"mode": "workspace-write", "network": "deny"}});
    let machine = Machine::new().await.with("windlass", sandbox);
    let machine = machine.with("permission", json!({"external_directory": "allow"}));
    let write = json!({"command": format!("echo x > {}", wanted.display()), "description": "writes"});
    let run = async |options: &[&str]| {
        machine.llm.reply(Reply::call("call_1", "bash", write.clone()));
        machine.llm.reply(Reply::text("done"));
        let ended = machine.run(&[&["run"], options, &["go"]].concat()).await;
        (ended, machine.llm.last_request().tool_result("call_1").to_owned())
    };
    let (ended, told) = run(&["--auto"]).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("--auto does not let it out: echo x"), "{}", ended.stderr);
    assert!(told.contains("It was not allowed to run outside") && !wanted.exists(), "{told}");

    let (ended, told) = run(&["--auto", "--leave-sandbox"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("as --leave-sandbox allows: echo x"), "{}", ended.stderr);
    let by = "The option --leave-sandbox let this command run again outside";
    assert!(told.contains(by) && wanted.exists(), "{told}");

    std::fs::remove_file(&wanted).unwrap();
    let (ended, _) = run(&[]).await;
    let way_out = "Use --auto with --leave-sandbox, or allow it by `permission.sandbox`";
    assert!(ended.code == Some(3) && ended.stderr.contains(way_out) && !wanted.exists(), "{ended:?}");

    let ended = machine.run(&["run", "--leave-sandbox", "go"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_file_that_is_mounted_is_a_refusal_too() {
    if lacks("full") {
        return;
    }
    let cell = Cell::new(json!({"mode": "workspace-write"})).await;
    let told = cell.bash("git config branch.main.remote origin").await;
    assert!(told.contains("failed in a sandbox") && told.contains("Device or resource busy"), "{told}");
    assert_eq!(cell.agent.n_asked(), 1);
    // Another device may be busy as well.
    let told = cell.bash("echo 'umount: /mnt: Device or resource busy'; false").await;
    assert!(!told.contains("failed in a sandbox"), "{told}");
    assert_eq!(cell.agent.n_asked(), 1);
    cell.finish().await;
}

#[tokio::test]
async fn a_subagent_is_held_by_the_sandbox_of_its_parent() {
    if lacks("full") {
        return;
    }
    let config = json!({
        "agent": {"reader": {"mode": "primary"}},
        "windlass": {"sandbox": {"agents": {"reader": {"mode": "read-only"}}}},
    });
    let agent = Agent::builder().config(config).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "reader"})).await.unwrap();
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    let write = json!({"command": "echo x > made"});
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", write.clone()));
    agent.llm.reply_to("CHILD", Reply::text("tried"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert!(!agent.scratch.exists("made"));
    // The user goes on with the subagent's session by itself, of which `reader` stays the parent.
    let child = turn.tool("call_1")["rawOutput"]["metadata"]["sessionId"].as_str().unwrap().to_owned();
    agent.load(&child).await;
    let told = agent.told(&child, "bash", write).await;
    assert!(told.contains("Read-only file system") && !agent.scratch.exists("made"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_templates_commands_are_held_as_the_agents_are() {
    if lacks("full") {
        return;
    }
    let config = json!({
        "command": {"look": {"template": "It says !`echo x > made; cat given`."}},
        "windlass": {"sandbox": {"mode": "read-only"}},
    });
    let agent = Agent::builder().config(config).start().await;
    agent.scratch.write("given", "what is here");
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/look").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.contains("what is here"), "{said}");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_setting_that_cannot_be_understood_is_no_open_door() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    for (sandbox, mode) in [
        (json!({"mode": "workspace-wirte"}), "read-only"),
        (json!("on"), "read-only"),
        (json!({"network": "deny"}), "workspace-write"),
        (json!({"agents": {"build": {"network": "loopback"}}}), "workspace-write"),
    ] {
        let config = json!({"windlass": {"sandbox": sandbox}});
        assert_eq!(debug(&scratch, &config, "build")["mode"], mode, "{sandbox}");
    }
    scratch.write(
        "opencode.json",
        r#"{"windlass": {"sandbox": {"mode": "on", "agents": {"biuld": {"mode": "off"}}}}}"#,
    );
    let output = Command::new(binary())
        .args(["config", "check"])
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .envs([("HOME", scratch.home.as_os_str()), ("WINDLASS_TRUST", "1".as_ref())])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("windlass.sandbox.mode: \"on\" is not understood"), "{said}");
    assert!(said.contains("windlass.sandbox.agents.biuld: there is no agent `biuld`"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn the_network_is_what_the_setting_says() {
    if lacks("full") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let own = "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); socket.create_connection(s.getsockname()); print(\"own loopback\")'";
    for (network, is_connected, has_own) in
        [("allow", true, true), ("deny", false, false), ("loopback", false, true)]
    {
        let cell = Cell::new(json!({"mode": "workspace-write", "network": network})).await;
        let told = cell.bash(&format!("{connect}; true")).await;
        assert_eq!(told.contains("connected"), is_connected, "{network}: {told}");
        let told = cell.bash(&format!("{own}; true")).await;
        assert_eq!(told.contains("own loopback"), has_own, "{network}: {told}");
        cell.finish().await;
    }
}

#[tokio::test]
async fn fewer_questions_are_a_setting_and_denials_stay() {
    if lacks("full") {
        return;
    }
    let config = json!({
        "permission": {"bash": {"*": "ask", "rm *": "deny"}},
        "windlass": {"sandbox": {"mode": "workspace-write", "ask_less": true}},
    });
    let agent = Agent::builder().config(config).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    let told = agent.told(&session, "bash", json!({"command": "touch made"})).await;
    assert!(agent.scratch.exists("made") && agent.n_asked() == 0, "{told}");
    let told = agent.told(&session, "bash", json!({"command": "rm made"})).await;
    assert!(agent.scratch.exists("made") && told.contains("rule which prevents"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn git_works_in_worktrees_and_submodules() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let identity = "git -c user.name=T -c user.email=t@example.invalid -c protocol.file.allow=always";
    let outside = outside();
    let prepare = format!(
        "set -e; cd '{0}'; git init -q lib; cd lib; {identity} commit -q --allow-empty -m lib; cd {1}; \
         {identity} submodule --quiet add '{0}/lib' sub; {identity} commit -q -m sub; git worktree add -q '{0}/tree' -b tree",
        outside.path().display(),
        scratch.cwd(),
    );
    let output = Command::new("bash").args(["-c", &prepare]).env("HOME", &scratch.home).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let cell = Cell::over(&scratch, json!({"mode": "workspace-write"}), Answer::RejectOnce).await;
    let work = format!(
        "set -e; echo 1 > one; git add one; {identity} commit -q -m one; git checkout -q -b topic; git stash list; \
         cd sub; echo 2 > two; git add two; {identity} commit -q -m two; git checkout -q -b inner; cd ..; \
         {identity} commit -q -am moved; git worktree add -q wt -b wt; cd wt; {identity} commit -q --allow-empty -m wt; \
         cd ..; git worktree remove wt; git gc -q; git log --oneline | wc -l; echo all done"
    );
    let told = cell.bash(&work).await;
    assert!(told.contains("all done"), "{told}");
    for hidden in [".git/hooks/x", ".git/modules/sub/hooks/x", ".git/worktrees/tree/commondir", "sub/.git"] {
        let told = cell.bash(&format!("echo x > {hidden} && echo BROKE; true")).await;
        assert!(!told.contains("BROKE"), "{hidden}: {told}");
    }
    // A linked worktree with its repository elsewhere.
    let tree = outside.path().join("tree");
    let params = json!({"cwd": tree, "mcpServers": []});
    let session =
        cell.agent.request("session/new", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let commit =
        format!("set -e; echo 3 > three; git add three; {identity} commit -q -m three; echo all done");
    let told = cell.agent.told(&session, "bash", json!({"command": commit})).await;
    assert!(told.contains("all done"), "{told}");
    let hook =
        format!("echo x > {}/.git/hooks/x && echo BROKE; echo x > .git && echo BROKE; true", scratch.cwd());
    let told = cell.agent.told(&session, "bash", json!({"command": hook})).await;
    assert!(!told.contains("BROKE"), "{told}");
    cell.finish().await;
}

#[tokio::test]
async fn builds_work_inside() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    scratch.write(
        "crate/Cargo.toml",
        "[package]\nname = \"inner\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    scratch.write("crate/src/main.rs", "fn main() { print!(\"from {}\", \"cargo\"); }\n");
    scratch.write("node/package.json", r#"{"name": "inner", "version": "1.0.0", "scripts": {"build": "node -e \"require('fs').writeFileSync('out', 'from npm')\""}}"#);
    let cell = Cell::over(&scratch, json!({"mode": "workspace-write"}), Answer::RejectOnce).await;
    // The scratch home hides the tests' own toolchain.
    let rustup = format!("${{RUSTUP_HOME:-{}/.rustup}}", std::env::var("HOME").unwrap());
    let homes = format!("export CARGO_HOME=${{CARGO_HOME:-/tmp/windlass-no-cargo}} RUSTUP_HOME={rustup}");
    let builds = [
        ("cargo", format!("{homes}; cd crate && cargo run -q --offline"), "from cargo"),
        ("npm", "cd node && npm run build --silent --offline && cat out".to_owned(), "from npm"),
        ("python3", "python3 -m venv --without-pip env && ./env/bin/python -c 'import multiprocessing as m; m.Pool(2).map(abs, [1]); print(\"from python\")'".to_owned(), "from python"),
        ("make", "printf 'a:\\n\\techo from make > a\\n' > Makefile; make -s && cat a".to_owned(), "from make"),
    ];
    for (program, command, expected) in builds {
        if lacks_program(program) {
            continue;
        }
        let told = cell.bash(&command).await;
        assert!(told.contains(expected), "{program}: {told}");
    }
    cell.finish().await;
}
