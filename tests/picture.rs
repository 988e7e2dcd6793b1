//! Pictures of sessions in a terminal: that at the top of the README, and those of the chat in `docs/pictures`.
//!
//! `make pictures` draws them anew, `PICTURE_COLUMNS` in another width.

use serde_json::json;

use crate::{
    chat,
    cli::Machine,
    support::{
        agent::binary,
        llm::{Gate, Reply, task},
        terminal::{Terminal, screen::Screen, svg},
    },
};

const ANSWER: &str = "## Done

`greet` is **polite** now, and a test says so:

| file | change |
|---|---|
| src/greet.py | an f-string, capital letter, exclamation mark |
| check.py | expects the new greeting |

```python
def greet(name):
    return f\"Hello, {name}!\"
```
";

const CHECK: &str = "import sys

sys.path.insert(0, \"src\")
from greet import greet

expected = \"hello Ada\"
print(f\"greet: expected {expected!r}, got {greet('Ada')!r}\")
sys.exit(greet(\"Ada\") != expected)
";

fn script(machine: &Machine) {
    let plan = |states: [&str; 3]| {
        let contents = ["Find who calls greet", "Change the greeting", "Run the tests and commit"];
        let todos = contents
            .iter()
            .zip(states)
            .map(|(content, status)| json!({"content": content, "status": status, "priority": "high"}));
        json!({"todos": todos.collect::<Vec<_>>()})
    };
    let edit = |file: &str, old: &str, new: &str| json!({"filePath": machine.scratch.path(file), "oldString": old, "newString": new});
    let bash = |command: &str| json!({"command": command, "description": "run"});
    let llm = &machine.llm;
    llm.reply(Reply::text("I look around first.").and_call(
        "c1",
        "todowrite",
        plan(["in_progress", "pending", "pending"]),
    ));
    llm.reply_to("greet is called", Reply::call("d1", "grep", json!({"pattern": "greet\\("})));
    llm.reply_to("greet is called", Reply::call("d2", "read", json!({"filePath": "src/app.py"})));
    llm.reply_to("greet is called", Reply::text("Only in src/app.py."));
    llm.reply(Reply::call("c2", "task", task("Find where greet is called.", "explore")));
    llm.reply(Reply::call("c3", "read", json!({"filePath": "src/greet.py"})));
    llm.reply(Reply::call(
        "c4",
        "edit",
        edit("src/greet.py", "    return \"hello \" + name", "    return f\"Hello, {name}!\""),
    ));
    llm.reply(Reply::call("c5", "bash", bash("python3 check.py")));
    llm.reply(Reply::call("c6", "read", json!({"filePath": "check.py"})));
    llm.reply(Reply::call("c7", "edit", edit("check.py", "\"hello Ada\"", "\"Hello, Ada!\"")));
    llm.reply(Reply::call("c8", "bash", bash("python3 check.py")));
    llm.reply(Reply::call("c9", "bash", bash("git commit -qam 'Greet politely' && git log --oneline")));
    llm.reply(Reply::call("c10", "todowrite", plan(["completed", "completed", "completed"])));
    llm.reply(Reply::text(ANSWER));
}

#[tokio::test]
async fn a_session_is_drawn() {
    let mut machine = Machine::new().await;
    machine.config["permission"] = json!({"bash": {"git commit *": "ask"}});
    machine.config["provider"]["mock"]["models"]["mock"]["cost"] = json!({"input": 3, "output": 15});
    machine.scratch.write("src/greet.py", "def greet(name):\n    return \"hello \" + name\n");
    machine.scratch.write("src/app.py", "from greet import greet\n\nprint(greet(\"Ada\"))\n");
    machine.scratch.write("check.py", CHECK);
    script(&machine);
    let columns = std::env::var("PICTURE_COLUMNS").map_or(100, |columns| columns.parse().unwrap());
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(columns, 30);
    let builder = builder.env("PATH", &path).env("PS1", "$ ").env("COLORTERM", "truecolor");
    let builder = builder.env("GIT_AUTHOR_NAME", "Ada").env("GIT_AUTHOR_EMAIL", "ada@example.com");
    let builder = builder.env("GIT_COMMITTER_NAME", "Ada").env("GIT_COMMITTER_EMAIL", "ada@example.com");
    let mut terminal = builder.program("/bin/bash").arguments(&["--norc", "-i"]).start();
    terminal.shows_text("$").await;
    terminal.types("git init -q; git add .; git commit -qm 'Say hello'; clear\r");
    terminal
        .shows("an empty screen", |screen| screen.lines().iter().filter(|line| !line.is_empty()).count() == 1)
        .await;
    let n_before = terminal.screen().history.len();
    terminal.types("windlass run \"greet people politely\"\r");
    terminal.shows_text("[f] no, and say why").await;
    terminal.types("y");
    let is_over = |line: &String| line == "$";
    let screen = terminal
        .shows("the end", |screen| {
            screen.contains("ses_")
                && screen.lines().iter().rfind(|line| !line.is_empty()).is_some_and(is_over)
        })
        .await;
    terminal.types("exit\r");
    terminal.ended().await;
    let mut rows: Vec<_> = screen.history.into_iter().skip(n_before).chain(screen.rows).collect();
    while rows.last().is_some_and(|row| {
        matches!(row.iter().map(|cell| cell.text.as_str()).collect::<String>().trim_end(), "" | "$")
    }) {
        rows.pop();
    }
    let drawn = svg::of(&rows);
    for text in [">Done<", "fill=\"#8ccf7e\">+     return f", "git commit -qam 'Greet politely' &amp;&amp;"] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    if let Ok(file) = std::env::var("PICTURE_FILE") {
        std::fs::write(file, drawn).unwrap();
    }
    machine.finish().await;
}

/// Writes a picture of the screen, without the empty rows at its end, where the pictures are to be drawn.
fn keep(screen: &Screen, name: &str) -> String {
    let mut rows = screen.rows.clone();
    while rows.last().is_some_and(|row| row.iter().all(|cell| cell.text.trim().is_empty())) {
        rows.pop();
    }
    let drawn = svg::of(&rows);
    if let Ok(folder) = std::env::var("PICTURE_FOLDER") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(format!("{folder}/{name}"), &drawn).unwrap();
    }
    drawn
}

#[tokio::test]
async fn a_chat_and_its_question_are_drawn() {
    let mut machine = Machine::new().await;
    machine.config["permission"] = json!({"edit": "ask"});
    machine.config["provider"]["mock"]["models"]["mock"]["cost"] = json!({"input": 3, "output": 15});
    machine.scratch.write("greet.py", "def greet(name):\n    return \"hello \" + name\n");
    let gate = Gate::new();
    let llm = &machine.llm;
    llm.reply(Reply::call("c1", "read", json!({"filePath": "greet.py"})));
    llm.reply(Reply::text("`greet` joins two strings; I make it polite.").and_gate(&gate).and_call(
        "c2",
        "edit",
        json!({"filePath": "greet.py", "oldString": "    return \"hello \" + name", "newString": "    return f\"Hello, {name}!\""}),
    ));
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(100, 24);
    let mut terminal = builder.env("COLORTERM", "truecolor").arguments(&["chat"]).start();
    chat::prompt(&terminal).await;
    terminal.types("greet people politely\r");
    terminal.shows_text("I make it polite.").await;
    terminal.types("with an exclamation mark\rnow show me the di");
    terminal.shows_text("now show me the di").await;
    let screen = terminal.shows_text("next step  with an exclamation mark").await;
    assert!(keep(&screen, "chat.svg").contains("next step"));
    gate.open();
    let screen = terminal.shows_text("[f] no, and say why").await;
    assert!(keep(&screen, "question.svg").contains("Hello, {name}!"));
    terminal.types("\x03");
    terminal.shows_text("Cancelled.").await;
    let ends = |line: &String| line.trim_end().ends_with("now show me the di");
    let is_last =
        |screen: &Screen| screen.lines().iter().rfind(|line| !line.trim().is_empty()).is_some_and(ends);
    terminal.shows("the line", is_last).await;
    terminal.types("\x03");
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}
