//! Commands' output and ends, and that no process of them stays.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass_protocol::opencode::part::{MAX_LIVE_CHARS, PRINTED};

use super::{GRACE, is_plain_cd, n_complete, needs, shell};
use crate::tool::{
    ToolError, ToolOutput,
    fake::{Project, one},
};

/// Much less than the time that it would take otherwise, on a busy machine too.
const SOON: Duration = Duration::from_secs(20);

async fn check(command: &str, output: &str, exit: i32) {
    let project = Project::new();
    let tool_output = project.output("bash", json!({ "command": command })).await;
    assert_eq!((tool_output.output.as_str(), &tool_output.metadata["exit"]), (output, &json!(exit)));
}

#[tokio::test]
async fn output_and_exit_code_are_told() {
    check("echo one; echo two", "one\ntwo\n", 0).await;
    check("true", "(no output)", 0).await;
    check("echo no; exit 3", "no\n", 3).await;
    check("exit 3", "(no output)\n\n<shell_metadata>\nexit code 3\n</shell_metadata>", 3).await;
    check("cat", "(no output)", 0).await;
    check("read line; echo $?", "1\n", 0).await;
    check("printf 'é%.0s' $(seq 3)", "ééé", 0).await;
    check("printf '\\xff'", "\u{fffd}", 0).await;
}

#[tokio::test]
async fn both_outputs_are_told_in_the_order_in_which_they_come() {
    let project = Project::new();
    let command = "seen() { until [ -e $1 ]; do sleep 0.01; done; }; \
        echo one; seen first; echo two >&2; seen second; echo three";
    let answering = async {
        for (said, file) in [("one\n", "first"), ("one\ntwo\n", "second")] {
            reported(&project, said).await;
            project.write(file, "");
        }
    };
    let (output, ()) = tokio::join!(project.output("bash", json!({ "command": command })), answering);
    assert_eq!((output.output.as_str(), &output.metadata["exit"]), ("one\ntwo\nthree\n", &json!(0)));
}

/// Waits until this is reported as the output so far.
async fn reported(project: &Project, output: &str) {
    let is_reported =
        || project.host.progress.lock().expect("not poisoned").iter().any(|it| it["output"] == output);
    let reporting = async {
        while !is_reported() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, reporting).await.expect("reported");
}

#[tokio::test]
async fn the_call_is_described_as_in_opencode() {
    let project = Project::new();
    let input = json!({ "command": "echo hi", "description": "say" });
    let output = project.output("bash", input).await;
    assert_eq!(output.title, "echo hi");
    assert_eq!(Value::Object(output.metadata), json!({ "output": "hi\n", "exit": 0, "truncated": false }));
    assert_eq!(project.asked(), [one("bash", "echo hi")]);
    assert_eq!(Value::Object(project.last_ask().metadata), json!({ "command": "echo hi" }));
    let progress = project.host.progress.lock().expect("not poisoned");
    assert_eq!(json!(progress.last()), json!({ "output": "hi\n", "printed": 3 }));
}

#[tokio::test]
async fn a_signal_leaves_no_exit_code() {
    let output = Project::new().output("bash", json!({ "command": "kill -9 $$" })).await;
    assert_eq!((&output.metadata["exit"], &output.metadata["signal"]), (&Value::Null, &json!("SIGKILL")));
    assert_eq!(output.output, "(no output)\n\n<shell_metadata>\nended by SIGKILL\n</shell_metadata>");
}

/// Runs a command with the shortest of some timeouts before which it says `begun`; a busy machine starts it late.
async fn begun_before_its_timeout(command: &str) -> (ToolOutput, u64) {
    let project = Project::new();
    for timeout in [1000, 8000, 60_000] {
        let begin = Instant::now();
        let output = project.output("bash", json!({ "command": command, "timeout": timeout })).await;
        assert!(begin.elapsed() < Duration::from_millis(timeout) + GRACE + SOON);
        if output.output.starts_with("begun") {
            return (output, timeout);
        }
    }
    panic!("the command never begins");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let command = "trap 'echo told; exit' TERM; echo begun; while :; do :; done";
    let (output, timeout) = begun_before_its_timeout(command).await;
    assert_eq!(
        output.output,
        format!(
            "begun\ntold\n\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout {timeout} ms. If this command is expected to take longer and is not waiting for interactive input, retry with a larger timeout value in milliseconds.\n</shell_metadata>"
        )
    );
    assert_eq!(
        Value::Object(output.metadata),
        json!({ "output": "begun\ntold\n", "exit": null, "truncated": false })
    );
}

#[tokio::test]
async fn the_default_timeout_comes_from_the_environment() {
    let mut project = Project::new();
    let name = "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS";
    project.config.environment.variables.insert(name.to_owned(), "50".to_owned());
    let output = project.output("bash", json!({ "command": "sleep 100" })).await;
    assert!(output.output.contains("exceeding timeout 50 ms"), "{}", output.output);
}

#[tokio::test]
async fn a_cancelled_turn_ends_the_command() {
    let project = Project::new();
    let cancel = project.cancel.clone();
    let canceller = async {
        reported(&project, "begun\n").await;
        cancel.cancel();
    };
    let begin = Instant::now();
    let (stopped, ()) =
        tokio::join!(project.run("bash", json!({ "command": "echo begun; sleep 100" })), canceller);
    assert!(begin.elapsed() < SOON);
    let partial = "begun\n\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>".to_owned();
    assert_eq!(stopped, Err(ToolError::Cancelled { partial: Some(partial) }));
    let last = project.host.progress.lock().expect("not poisoned").last().cloned().expect("reported");
    assert_eq!(Value::Object(last), json!({ "output": "begun\n", "exit": null, "truncated": false }));
}

#[tokio::test]
async fn any_number_of_milliseconds_is_a_timeout() {
    for timeout in [json!(50_000.5), json!("50000"), json!(1e30)] {
        check_timeout(timeout, "done\n").await;
    }
    let project = Project::new();
    for timeout in ["0", "-0.5"] {
        let error = project.error("bash", json!({ "command": "true", "timeout": timeout })).await;
        assert_eq!(error, format!("Invalid timeout value: {timeout}. Timeout must be a positive number."));
    }
}

async fn check_timeout(timeout: Value, output: &str) {
    let input = json!({ "command": "echo done", "timeout": timeout });
    assert_eq!(Project::new().output("bash", input.clone()).await.output, output, "{input}");
}

#[tokio::test]
async fn nothing_starts_in_a_cancelled_turn() {
    let project = Project::new();
    project.cancel.cancel();
    let refused = project.run("bash", json!({ "command": "touch ran" })).await;
    assert_eq!(refused, Err(ToolError::Cancelled { partial: None }));
    assert!(!project.path("ran").exists());
}

fn is_running(pid: &str) -> bool {
    // A killed child of somebody else stays as a zombie until that one looks.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

/// Waits until a process is dead.
async fn killed(pid: &str) {
    let dying = async {
        while is_running(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, dying).await.expect("killed");
}

#[tokio::test]
async fn a_background_child_that_holds_the_pipe_is_not_waited_for() {
    let project = Project::new();
    let begin = Instant::now();
    let output = project.output("bash", json!({ "command": "sleep 100 & echo $!" })).await;
    assert!(begin.elapsed() < SOON);
    let pid = output.output.trim().to_owned();
    assert_eq!(output.metadata["exit"], 0);
    killed(&pid).await;
}

#[tokio::test]
async fn a_background_child_that_never_stops_talking_is_cut_off() {
    let begin = Instant::now();
    let output = Project::new().output("bash", json!({ "command": "yes & sleep 0.1" })).await;
    assert!(begin.elapsed() < SOON);
    assert_eq!(output.metadata["exit"], 0);
}

#[tokio::test]
async fn a_command_that_closed_its_output_is_waited_for() {
    let project = Project::new();
    let command = "exec >/dev/null 2>&1; sleep 0.3; touch done; exit 4";
    let output = project.output("bash", json!({ "command": command })).await;
    assert_eq!(output.metadata["exit"], 4);
    assert!(project.path("done").exists());
}

#[tokio::test]
async fn dropping_the_call_kills_the_command() {
    let project = Project::new();
    let begun = async {
        while !project.path("begun").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = project.run("bash", json!({ "command": "echo $$ > pid; touch begun; sleep 100" })) => {
            panic!("it ended: {ended:?}")
        }
        () = begun => {}
    }
    killed(project.content("pid").trim()).await;
}

#[tokio::test]
async fn fifty_megabytes_are_saved_and_their_end_is_told() {
    let project = Project::new();
    let begin = Instant::now();
    let command = "yes 0123456789012345678901234567890123456789012345678 | head -c 50000000; echo end";
    let output = project.output("bash", json!({ "command": command })).await;
    let path = output.metadata["outputPath"].as_str().expect("saved").to_owned();
    assert!(
        output.output.starts_with(&format!("...output truncated...\n\nFull output saved to: {path}\n\n0123"))
    );
    assert!(output.output.ends_with("\nend\n"));
    assert!(output.output.len() < 52_000);
    assert_eq!(output.metadata["truncated"], true);
    assert_eq!(output.metadata["output"].as_str().expect("text").chars().count(), 30_000);
    assert_eq!(fs::metadata(&path).expect("there").len(), 50_000_004);
    // At most one report every 100 ms, and the last state.
    let n_reports = project.host.progress.lock().expect("not poisoned").len() as u128;
    assert!(n_reports <= begin.elapsed().as_millis() / 100 + 2, "{n_reports} reports");
}

#[tokio::test]
async fn many_short_lines_are_cut_too() {
    let project = Project::new();
    let output = project.output("bash", json!({ "command": "seq 2001" })).await;
    let path = output.metadata["outputPath"].as_str().expect("saved").to_owned();
    let lines: Vec<String> = (2..=2001).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        output.output,
        format!("...output truncated...\n\nFull output saved to: {path}\n\n{}", lines.concat())
    );
    assert_eq!(fs::read_to_string(path).expect("read").lines().count(), 2001);
}

#[tokio::test]
async fn a_command_that_ignores_being_told_to_end_is_killed() {
    let begin = Instant::now();
    let command = "trap '' TERM; echo begun; while :; do sleep 0.05; done";
    let (output, _) = begun_before_its_timeout(command).await;
    assert!(begin.elapsed() >= GRACE);
    assert_eq!((&output.metadata["exit"], &output.metadata["signal"]), (&Value::Null, &json!("SIGKILL")));
    assert!(output.output.starts_with("begun\n\n\n<shell_metadata>\n"), "{}", output.output);
}

#[tokio::test]
async fn a_command_that_closes_its_pipes_and_lives_on_is_ended() {
    let (output, timeout) = begun_before_its_timeout("echo begun $$; exec >&- 2>&-; sleep 100").await;
    let pid = output.output.lines().next().expect("a line").trim_start_matches("begun ");
    assert!(!is_running(pid));
    assert!(output.output.contains(&format!("exceeding timeout {timeout} ms")), "{}", output.output);
}

/// Returns the processes of a group that are not dead.
fn members(group: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("there").flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let fields = stats.filter_map(|stat| Some(stat.rsplit_once(')')?.1.trim().to_owned()));
    let is_member = |fields: &String| {
        let fields: Vec<&str> = fields.split(' ').collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&group)
    };
    fields.filter(is_member).count()
}

#[tokio::test]
async fn a_storm_of_children_ends_with_the_command() {
    let project = Project::new();
    let cancel = project.cancel.clone();
    let command =
        "echo $$ > pid; for n in $(seq 200); do (trap '' TERM; sleep 600) & done; touch ready; wait";
    let canceller = async {
        while !project.path("ready").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let group = project.content("pid").trim().to_owned();
        assert!(members(&group) > 200);
        cancel.cancel();
        group
    };
    let (stopped, group) = tokio::join!(project.run("bash", json!({ "command": command })), canceller);
    assert!(matches!(stopped, Err(ToolError::Cancelled { .. })), "{stopped:?}");
    let begin = Instant::now();
    while members(&group) > 0 {
        assert!(begin.elapsed() < SOON, "{} are left", members(&group));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_flood_on_stderr_without_a_line_end_is_cut_and_kept() {
    let project = Project::new();
    let command = "head -c 10000000 /dev/zero | tr '\\0' e >&2; echo out >&2";
    let output = project.output("bash", json!({ "command": command })).await;
    let path = output.metadata["outputPath"].as_str().expect("saved").to_owned();
    assert_eq!(fs::metadata(&path).expect("there").len(), 10_000_004);
    assert!(output.output.len() < 52_000, "{}", output.output.len());
    assert!(output.output.ends_with("out\n"));
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_are_and_shown_as_well_as_can_be() {
    let project = Project::new();
    let output = project.output("bash", json!({ "command": "head -c 200000 /dev/urandom | tee copy" })).await;
    let path = output.metadata["outputPath"].as_str().expect("saved").to_owned();
    assert!(fs::read(&path).expect("read") == fs::read(project.path("copy")).expect("read"));
    let shown = output.metadata["output"].as_str().expect("text");
    assert_eq!(shown.chars().count(), MAX_LIVE_CHARS);
}

#[tokio::test]
async fn reports_never_take_back_what_was_printed() {
    let project = Project::new();
    let command = r"printf 'a\303'; sleep 0.2; printf '\251\033[1m\0'; sleep 0.2; printf 'z\377' >&2";
    let output = project.output("bash", json!({ "command": command })).await;
    assert_eq!(output.output, "aé\u{1b}[1m\0z\u{fffd}");
    let reports = project.host.progress.lock().expect("not poisoned");
    let mut said = String::new();
    for report in reports.iter() {
        let text = report["output"].as_str().expect("text");
        assert!(text.starts_with(&said), "{text:?} after {said:?}");
        assert_eq!(report[PRINTED], text.len());
        said = text.to_owned();
    }
    assert!(reports.len() >= 3);
    assert_eq!(said, output.output);
}

#[tokio::test]
async fn workdir_is_where_it_runs() {
    let project = Project::new();
    fs::create_dir_all(project.path("sub")).expect("created");
    fs::create_dir_all(project.path("../outside")).expect("created");
    let run = |workdir: &str| json!({ "command": "pwd", "workdir": workdir });
    assert_eq!(project.output("bash", run("sub")).await.output.trim(), project.text("sub"));
    let directory = project.text("../outside");
    assert_eq!(project.output("bash", run("../outside")).await.output.trim(), directory);
    let asks = project.host.asks.lock().expect("not poisoned");
    let [_, outside, _] = asks.as_slice() else { panic!("three asks: {asks:?}") };
    let pattern = format!("{directory}/*");
    assert_eq!(
        (outside.permission.as_str(), &outside.patterns, &outside.always),
        ("external_directory", &vec![pattern.clone()], &vec![pattern.clone()])
    );
    assert_eq!(
        json!(outside.metadata),
        json!({ "command": "pwd", "workdir": directory, "directories": [directory], "patterns": [pattern] })
    );
}

#[tokio::test]
async fn mistakes_are_said() {
    let mut project = Project::new();
    for (input, expected) in [
        (
            json!({ "command": "true", "timeout": -5 }),
            "Invalid timeout value: -5. Timeout must be a positive number.".to_owned(),
        ),
        (json!({ "command": " " }), "command is required".to_owned()),
        (
            json!({ "command": "true", "workdir": "none" }),
            format!("workdir is not a directory: {}", project.text("none")),
        ),
    ] {
        assert_eq!(project.error("bash", input).await, expected);
    }
    project.config.shell = Some("/no/such/shell".to_owned());
    let error = project.error("bash", json!({ "command": "true" })).await;
    assert!(error.starts_with("Cannot start the shell /no/such/shell: "), "{error}");
}

#[tokio::test]
async fn a_refused_command_does_not_run() {
    let mut project = Project::new();
    project.deny("bash");
    project.run("bash", json!({ "command": "touch ran" })).await.expect_err("refused");
    assert!(!project.path("ran").exists());
}

#[tokio::test]
async fn paths_outside_are_found_through_links_and_dots() {
    let project = Project::new();
    project.write("../outside/file", "");
    project.write("inside", "");
    symlink("../outside", project.path("link")).expect("linked");
    let outside = project.path("../outside");
    for (named, expected) in [
        ("inside", None),
        ("./new/file", None),
        ("/dev/null", None),
        ("../outside", Some(outside.clone())),
        ("../outside/file", Some(outside.clone())),
        ("link/file", Some(outside.clone())),
        ("link", Some(outside)),
        ("~/x", Some(project.config.environment.home.clone())),
        ("/etc/passwd", Some(PathBuf::from("/etc"))),
    ] {
        let command = format!("cat {named}");
        let needs = needs(&project.config, &command, &project.config.directory).await.expect("judged");
        let asks = needs.asks.into_iter().map(|(ask, _)| ask);
        let found = asks.filter(|ask| ask.permission == "external_directory").flat_map(|ask| ask.patterns);
        let expected = expected.map(|directory| crate::tool::path::display(&directory.join("*")));
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(expected), "{named}");
    }
}

/// Returns the directories that a command asks for, without the stars.
async fn outside(project: &Project, command: &str) -> Vec<String> {
    let needs = needs(&project.config, command, &project.config.directory).await.expect("judged");
    let asks = needs.asks.into_iter().map(|(ask, _)| ask);
    let asked = asks.filter(|ask| ask.permission == "external_directory").flat_map(|ask| ask.patterns);
    asked.map(|pattern| pattern.trim_end_matches("/*").to_owned()).collect()
}

#[tokio::test]
async fn dots_behind_a_link_lead_where_the_kernel_says() {
    let project = Project::new();
    project.write("../outside/in/file", "");
    project.write("sub/file", "");
    symlink("../outside/in", project.path("e")).expect("linked");
    symlink("sub", project.path("s")).expect("linked");
    let expected = project.text("../outside");
    for command in [
        "cat e/../precious",
        "rm e/../precious",
        "echo w > e/../w1",
        "cp f e/../w",
        "tee e/../w",
        "touch e/../w",
        "sed -i s/a/b/ e/../precious",
        "cd -P e/..; cat precious",
    ] {
        let asked = outside(&project, command).await;
        assert!(asked.contains(&expected), "{command}: {asked:?}");
    }
    for command in ["cat s/../file", "cat sub/../file", "cd sub/.. && cat file"] {
        assert_eq!(outside(&project, command).await, [""; 0], "{command}");
    }
}

#[tokio::test]
async fn links_that_a_glob_matches_are_paths() {
    let project = Project::new();
    project.write("../outside/file", "");
    project.write("a", "");
    project.write("sub/b", "");
    symlink("../outside/file", project.path("pw")).expect("linked");
    symlink("../../outside", project.path("sub/out")).expect("linked");
    let expected = project.text("../outside");
    for command in
        ["cat *", "cat p?", "cat [p]w", "cat sub/o*/file", "cat */out/file", "cd sub; head o*/file"]
    {
        let asked = outside(&project, command).await;
        assert_eq!(asked, [expected.as_str()], "{command}");
    }
    for command in ["cat a*", "cat sub/b*", "cat none*"] {
        assert_eq!(outside(&project, command).await, [""; 0], "{command}");
    }
}

#[tokio::test]
async fn the_whole_disk_is_not_offered() {
    let project = Project::new();
    for command in ["cat /nonexistent", "ls /"] {
        let needs = needs(&project.config, command, &project.config.directory).await.expect("judged");
        let (ask, _) = &needs.asks[0];
        assert_eq!(
            (ask.patterns.as_slice(), ask.always.as_slice()),
            (["/*".to_owned()].as_slice(), [].as_slice())
        );
    }
}

#[test]
fn only_a_lone_cd_needs_no_asking() {
    for (command, expected) in [
        ("cd src", true),
        (" pushd .. ", true),
        ("cd src && rm x", false),
        ("cd $(rm x)", false),
        ("> file", false),
        ("x=1", false),
    ] {
        assert_eq!(is_plain_cd(command), expected, "{command}");
    }
}

#[test]
fn the_shell_is_chosen() {
    let mut project = Project::new();
    let bash = shell(&project.config);
    assert!(Path::new(&bash).ends_with("bash"));
    let programs = tempfile::tempdir().unwrap();
    let program = |name: &str, mode: u32| {
        let path = programs.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut check = |own: &str, expected: &str| {
        project.config.environment.variables.insert("SHELL".to_owned(), own.to_owned());
        assert_eq!(shell(&project.config), expected);
    };
    let zsh = program("zsh", 0o755);
    check(&zsh, &zsh);
    for other in
        [program("fish", 0o755), program("nu", 0o755), program("nologin", 0o755), program("ksh", 0o644)]
    {
        check(&other, &bash.to_string_lossy());
    }
    check("/nowhere/bash", &bash.to_string_lossy());
    project.config.environment.variables.insert("PATH".to_owned(), "/nowhere".to_owned());
    assert_eq!(shell(&project.config), "/bin/sh");
    project.config.shell = Some("/bin/dash".to_owned());
    assert_eq!(shell(&project.config), "/bin/dash");
}

#[test]
fn characters_are_not_torn() {
    for (bytes, expected) in [
        (b"".as_slice(), 0),
        (b"ab", 2),
        ("aé".as_bytes(), 3),
        (b"a\xc3", 1),
        (b"a\xe2\x82", 1),
        (b"a\xf0\x9f\x98", 1),
        (b"a\xff", 2),
        (b"\x80\x80\x80\x80\x80", 5),
    ] {
        assert_eq!(n_complete(bytes), expected, "{bytes:?}");
    }
}
