//! Commands as a person at a terminal sees them.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    cli::Machine,
    support::{
        agent::binary,
        llm::{Gate, Reply, task},
        terminal::{Terminal, screen::Screen},
    },
};

const ANSWER: &str = "# Fixed

The parser *dropped* the last token; `a.txt` is **changed** now. See [the guide](https://example.com/guide).

1. The cause was an early return in the loop that reads tokens, which skipped the last one.
2. The fix keeps it.
   - with a test
   - 你好，世界 and other wide text wraps where it should, as 日本語 does

| Case | Before | After |
|:-----|-------:|-------|
| empty input | 0 | 0 |
| one token, no newline | 0 | 1 |

```rust
fn tokens(text: &str) -> Vec<Token> {
    text.lines().map(Token::new).collect() // all of them
}
```

> Note: nothing else was touched.
";

/// Returns the text with everything that differs from run to run replaced by something as long.
fn settled(screen: &Screen, machine: &Machine) -> String {
    let mut text = String::new();
    let root = machine.scratch.cwd();
    for line in screen.all_lines() {
        let mut line = line.replace(root, "/work");
        if let Some(at) = line.find("ses_") {
            let end = line[at..].find(' ').map_or(line.len(), |length| at + length);
            line.replace_range(at..end, "ses_…");
        }
        if let Some(at) = line.find("127.0.0.1:") {
            let start = at + "127.0.0.1:".len();
            let end = line[start..].find(')').map_or(line.len(), |length| start + length);
            line.replace_range(start..end, "PORT");
        }
        text += &without_times(&line);
        text.push('\n');
    }
    text
}

/// Returns `exit 0 · 0.1 s` as `exit 0 · N s`.
fn without_times(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let is_number = words[at - 1].chars().all(|char| char.is_ascii_digit() || char == '.');
        if words[at] == "s" && is_number && !words[at - 1].is_empty() {
            words[at - 1] = "N".to_owned();
        }
    }
    words.join(" ")
}

/// Scripts a session with every kind of part.
fn script(machine: &Machine) {
    let plan = |first: &str, second: &str| {
        json!({"todos": [
            {"content": "Find why the last token is lost", "status": first, "priority": "high"},
            {"content": "Mend it and add a test for input without a final newline", "status": second, "priority": "high"},
            {"content": "Tell the others", "status": "pending", "priority": "low"},
        ]})
    };
    let llm = &machine.llm;
    llm.reply(Reply::status(429).header("retry-after-ms", "1"));
    llm.reply(Reply::text("I will look first.").and_call("c1", "todowrite", plan("in_progress", "pending")));
    llm.reply(Reply::call("c2", "read", json!({"filePath": "a.txt"})));
    llm.reply(Reply::call("c3", "grep", json!({"pattern": "t[wh]", "path": "."})));
    llm.reply_to("look for tokens", Reply::call("d1", "glob", json!({"pattern": "*.txt"})));
    llm.reply_to("look for tokens", Reply::text("Only in a.txt."));
    llm.reply(Reply::call("c4", "task", task("look for tokens", "explore")));
    llm.reply(Reply::call(
        "c5",
        "bash",
        json!({"command": "printf '\\033[32mok\\033[0m 1\\nok 2\\n'", "description": "run"}),
    ));
    llm.reply(Reply::call(
        "c6",
        "bash",
        json!({"command": "for i in $(seq 60); do echo \"test $i failed\"; done; exit 3", "description": "run"}),
    ));
    let edit = json!({"filePath": machine.scratch.path("a.txt"), "oldString": "two\n", "newString": "zwei\nand more\n"});
    llm.reply(Reply::call("c7", "edit", edit));
    llm.reply(Reply::call("c8", "grep", json!({"pattern": "(open"})));
    llm.reply(Reply::call("c9", "todowrite", plan("completed", "completed")));
    llm.reply(Reply::text(ANSWER));
}

async fn shown(columns: u16, env: &[(&str, &str)]) -> (Screen, String, Vec<u8>) {
    let machine = Machine::new().await;
    script(&machine);
    let mut builder = Terminal::builder(&machine.scratch, &machine.config)
        .arguments(&["run", "fix the parser"])
        .size(columns, 30);
    for (name, value) in env {
        builder = builder.env(name, value);
    }
    let mut terminal = builder.start();
    let screen = terminal.ends_with(0).await;
    let text = settled(&screen, &machine);
    let raw = terminal.raw();
    if let Ok(directory) = std::env::var("E2E_SAVE") {
        std::fs::write(format!("{directory}/{columns}-{}.raw", env.len()), &raw).unwrap();
    }
    machine.finish().await;
    (screen, text, raw)
}

#[tokio::test]
async fn a_session_at_40_columns() {
    insta::assert_snapshot!(shown(40, &[]).await.1);
}

#[tokio::test]
async fn a_session_at_80_columns() {
    let (screen, text, _) = shown(80, &[]).await;
    insta::assert_snapshot!(text);
    assert_eq!(screen.style_of("zwei"), "green");
    assert!(screen.styled().contains("‹bold:Plan›"), "{}", screen.styled());
    assert_eq!(screen.style_of("exit 3 ·"), "red");
    assert_eq!(screen.style_of("ok 1"), "green");
    assert_eq!(screen.link_of("the guide"), Some("https://example.com/guide"));
    let file = screen.link_of("a.txt").unwrap();
    assert!(file.starts_with("file://") && file.ends_with("/work/a.txt"), "{file}");
    assert!(screen.is_cursor_shown, "{screen}");
}

#[tokio::test]
async fn a_session_at_160_columns() {
    insta::assert_snapshot!(shown(160, &[]).await.1);
}

#[tokio::test]
async fn without_colour_nothing_is_coloured_and_the_text_is_the_same() {
    let (plain, text, _) = shown(80, &[("NO_COLOR", "1")]).await;
    for cell in plain.history.iter().chain(&plain.rows).flatten() {
        let has_color = cell
            .style
            .split(' ')
            .any(|word| !matches!(word, "" | "bold" | "dim" | "italic" | "underline" | "strike"));
        assert!(!has_color, "{cell:?}");
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn a_dumb_terminal_gets_no_escape_sequence() {
    let (_, text, raw) = shown(80, &[("TERM", "dumb"), ("LC_ALL", "C.UTF-8")]).await;
    assert!(!raw.contains(&0x1b) && !raw.contains(&0x07), "{}", String::from_utf8_lossy(&raw));
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn a_resize_in_mid_answer_leaves_nothing_behind() {
    let machine = Machine::new().await;
    let (gate, last) = (Gate::new(), Gate::new());
    let long = "A sentence that is long enough to be wrapped at forty columns, and once more.";
    machine.llm.reply(
        Reply::text(&format!("Begun.\n\n{long} "))
            .and_gate(&gate)
            .and_text("Between. ")
            .and_gate(&last)
            .and_text("Over."),
    );
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "tell"]).size(80, 12).start();
    terminal.shows_text("once more.").await;
    terminal.resize(40, 12);
    gate.open();
    terminal
        .shows("the new text at the new width", |screen| {
            screen.contains("Between.") && screen.lines().iter().all(|line| line.chars().count() <= 40)
        })
        .await;
    terminal.resize(100, 20);
    last.open();
    let screen = terminal.ends_with(0).await;
    let text = settled(&screen, &machine);
    assert_eq!(text.matches("A sentence").count(), 1, "{text}");
    assert_eq!(text.matches("Writing").count(), 0, "{text}");
    assert_eq!(text.lines().next(), Some("Begun."), "{text}");
    machine.finish().await;
}

#[tokio::test]
async fn a_command_shows_its_last_lines_while_it_runs() {
    let machine = Machine::new().await;
    let command = "seq 100; until test -e go; do sleep 0.01; done; echo over";
    machine.llm.reply(Reply::call("c1", "bash", json!({"command": command, "description": "count"})));
    machine.llm.reply(Reply::text("Counted."));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "count"]).start();
    let screen = terminal
        .shows("the end of the output and the live line", |screen| {
            let lines = screen.lines();
            let has_status = |line: &String| line.contains("$ seq 100") && line.contains(" s");
            lines.iter().any(|line| line == "  │ 100") && lines.iter().any(has_status)
        })
        .await;
    assert!(!screen.contains("│ 95") && screen.contains("│ 96") && !screen.is_cursor_shown, "{screen}");
    machine.scratch.write("go", "");
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("│ over") && screen.contains("exit 0"), "{screen}");
    assert!(screen.is_cursor_shown, "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn a_terminal_that_is_not_read_does_not_stop_the_tools() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    let words = "word ".repeat(40);
    machine.llm.reply(
        Reply::text("Begun.\n\n").and_gate(&gate).and_text(&format!("{words}\n\n").repeat(2_000)).and_call(
            "c1",
            "bash",
            json!({"command": "touch done", "description": "work"}),
        ),
    );
    machine.llm.reply(Reply::text("Over."));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.stop_reading();
    gate.open();
    machine.scratch.appears("done").await;
    terminal.go_on_reading();
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("Over."), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn a_terminal_that_goes_away_ends_the_run_with_129() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun.").and_gate(&gate));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.hang_up().await;
    assert_eq!(terminal.ended().await.code(), Some(128 + Signal::SIGHUP as i32));
    gate.abandoned().await;
    machine.finish().await;
}

#[tokio::test]
async fn ctrl_c_ends_the_run_with_130_and_gives_the_terminal_back() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun.").and_gate(&gate));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.types("typed meanwhile\x03");
    let screen = terminal.ends_with(128 + Signal::SIGINT as i32).await;
    assert!(screen.is_cursor_shown && !screen.contains("typed"), "{screen}");
    assert!(screen.contains("Interrupted."), "{screen}");
    assert_eq!(screen.cursor.1, 0, "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn sigterm_ends_the_run_with_143_and_gives_the_terminal_back() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun.").and_gate(&gate));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.signal(Signal::SIGTERM);
    let screen = terminal.ends_with(128 + Signal::SIGTERM as i32).await;
    assert!(screen.is_cursor_shown && screen.contains("ses_"), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn acp_on_a_terminal_says_what_it_is() {
    let machine = Machine::new().await;
    // A shell ignores SIGINT for the programs that it starts in the background, and so do these.
    let own = binary();
    let ignoring = vec!["-c", "trap '' INT; exec \"$0\" acp", own.to_str().unwrap()];
    for (program, arguments) in [(own.clone(), vec!["acp"]), ("/bin/sh".into(), ignoring)] {
        let builder = Terminal::builder(&machine.scratch, &machine.config).size(160, 24);
        let mut terminal = builder.program(&program).arguments(&arguments).start();
        let screen = terminal.shows_text("An editor starts it").await;
        let said = ["This is windlass for editors", "windlass chat"];
        assert!(said.iter().all(|said| screen.contains(said)), "{screen}");
        terminal.types("\x03");
        assert_eq!(terminal.ended().await.code(), Some(0));
    }
    machine.finish().await;
}

#[tokio::test]
async fn the_demo_asks_a_real_question_and_says_what_comes_next() {
    let machine = Machine::new().await;
    let mut terminal = Terminal::builder(&machine.scratch, &json!({})).arguments(&["demo"]).start();
    for (n, change) in ["Create", "Edit"].into_iter().enumerate() {
        terminal
            .shows("a question", |screen| {
                screen.all_lines().iter().filter(|line| line.contains("[y] once")).count() == n + 1
            })
            .await;
        terminal.types("y");
        terminal.shows_text(&format!("{change} windlass-demo.txt")).await;
    }
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("That was the demo model") && screen.contains("Next: "), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn commands_have_no_terminal_to_ask_at() {
    for sandbox in ["off", "workspace-write"] {
        let machine = Machine::new().await.with("windlass", json!({"sandbox": {"mode": sandbox}}));
        let command = "head -n1 /dev/tty; echo code $?; echo $GIT_TERMINAL_PROMPT $PAGER; read line; echo input $?; \
             git -c user.name=A -c user.email=a@b.example -c core.editor=vi commit --allow-empty; echo commit $?";
        machine.llm.reply(Reply::call("c1", "bash", json!({"command": command})));
        machine.llm.reply(Reply::text("Done."));
        let mut terminal = Terminal::builder(&machine.scratch, &machine.config)
            .arguments(&["run", "go"])
            .env("PAGER", "less")
            .start();
        terminal.ends_with(0).await;
        let told = machine.llm.last_request().tool_result("c1").to_owned();
        assert!(told.contains("No such device or address") && told.contains("code 1"), "{sandbox}: {told}");
        assert!(told.contains("0 less\ninput 1"), "{sandbox}: {told}");
        assert!(told.contains("using either -m or -F") && told.contains("commit 1"), "{sandbox}: {told}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn thoughts_tokens_and_cost_are_shown_while_the_model_works() {
    let mut machine = Machine::new().await;
    machine.config["provider"]["mock"]["models"]["mock"]["cost"] = json!({"input": 1000, "output": 1000});
    let gate = Gate::new();
    machine.llm.reply(Reply::reasoning("The file may hold *three* lines.").and_call(
        "c1",
        "read",
        json!({"filePath": "a.txt"}),
    ));
    machine.llm.reply(Reply::text("It holds").and_gate(&gate).and_text(" three."));
    let mut terminal = Terminal::builder(&machine.scratch, &machine.config)
        .arguments(&["run", "--thinking", "count"])
        .start();
    let screen = terminal
        .shows("the live line", |screen| {
            let lines = screen.lines();
            let is_live = |line: &String| line.contains("Writing · ") && line.contains(" tokens · $");
            lines.iter().any(is_live)
        })
        .await;
    assert!(screen.contains("┊ The file may hold three lines."), "{screen}");
    assert_eq!(screen.style_of("three lines"), "dim italic");
    gate.open();
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("It holds three."), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn colours_can_be_forced_onto_the_simplest_terminal() {
    let (screen, _, raw) = shown(80, &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")]).await;
    assert_eq!(screen.style_of("zwei"), "green");
    let raw = String::from_utf8_lossy(&raw);
    assert!(!raw.contains("\x1b[?25l") && !raw.contains("\x1b]8"), "nothing but colours: {raw}");
}

#[tokio::test]
async fn two_subagents_at_once_keep_their_calls_apart() {
    let machine = Machine::new().await;
    let llm = &machine.llm;
    let (first, second) = (Gate::new(), Gate::new());
    let call = |id: &str, pattern: &str| Reply::call(id, "glob", json!({"pattern": pattern}));
    llm.reply_to("look for tokens", call("d1", "*.txt"));
    llm.reply_to("look for tokens", Reply::text("In a.txt.").and_gate(&first));
    llm.reply_to("read the manual", call("e1", "*.md"));
    llm.reply_to("read the manual", Reply::text("Nothing.").and_gate(&second));
    let other = json!({"description": "read", "prompt": "read the manual", "subagent_type": "general"});
    llm.reply(Reply::call("c1", "task", task("look for tokens", "explore")).and_call("c2", "task", other));
    llm.reply(Reply::text("Both are back."));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "look"]).start();
    first.reached().await;
    second.reached().await;
    terminal
        .shows("both and how many work", |screen| {
            screen.contains("Find *.txt") && screen.contains("Find *.md") && screen.contains(" and 1 more")
        })
        .await;
    first.open();
    second.open();
    let screen = terminal.ends_with(0).await;
    let lines = screen.all_lines();
    // A call is below the name of the subagent that made it.
    for (name, found) in [("look around (@explore)", "Find *.txt"), ("read (@general)", "Find *.md")] {
        let at = lines.iter().position(|line| line.contains(found)).expect(found);
        assert!(lines[at - 1].contains(name), "{screen}");
        assert!(lines[at].starts_with("  • "), "{screen}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("└ 1 call ·")).count(), 2, "{screen}");
    machine.finish().await;
}

/// tmux keeps a screen in its scrollback when all of it is cleared from the corner.
#[tokio::test]
async fn what_is_redrawn_is_never_cleared_from_the_corner() {
    let (_, _, raw) = shown(80, &[]).await;
    let raw = String::from_utf8_lossy(&raw);
    let mut cleared = raw.match_indices("\x1b[J").peekable();
    assert!(cleared.peek().is_some(), "something is redrawn");
    for (at, _) in cleared {
        assert!(raw[..at].ends_with("\r\x1b[K\x1b[C"), "{:?}", &raw[at.saturating_sub(20)..at]);
    }
}
