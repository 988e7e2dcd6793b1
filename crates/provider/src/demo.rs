//! The built-in demo model: deterministic, offline, drives the real tools through the real loop.

use std::vec;

use serde_json::{Value, json};
use windlass_base::{figures, text};
use windlass_protocol::opencode::model_ref::ModelRef;

use super::{Delta, Finish, Prompt, PromptMessage, ProviderError, ToolResult, Usage, UserContent};

#[cfg(test)]
mod tests;

const DEMO_FILE: &str = "windlass-demo.txt";
const EDIT_LINE: &str = "Edited by the windlass demo.";
const TITLE_REQUEST: &str = "Generate a title for this conversation:";
const TITLE_WORDS: usize = 6;
const WORDS_PER_BATCH: usize = 3;

/// The first word of every command to the demo.
pub const COMMAND: &str = "demo";

/// The forms that may follow [`COMMAND`].
pub const FORMS: &str = "tour | read FILE | edit FILE | run COMMAND | plan";

const HELP: &str = "\
This is windlass's built-in demo model, which only plays a script. To work with a real model:

- set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment (OPENAI_BASE_URL and OPENAI_MODEL name any compatible \
server and its model),
- or run `windlass auth login`,
- or describe a `provider` in opencode.json and name its `model`.

The demo does nothing but these, each alone on one line:

- `/demo tour` – plan, read, write, edit and run, one after the other
- `/demo read FILE`
- `/demo edit FILE` – adds a line to it
- `/demo run COMMAND`
- `/demo plan` – a to-do list";

const TOUR_PLAN: &[(&str, &str)] = &[
    ("Look at the directory", "high"),
    ("Read a file", "medium"),
    ("Write and edit windlass-demo.txt", "high"),
    ("Check the result", "low"),
];

/// A scripted answer.
pub struct Stream {
    batches: vec::IntoIter<Vec<Delta>>,
}

impl Stream {
    /// Implements [`super::Stream::next`].
    pub async fn next(&mut self, deltas: &mut Vec<Delta>) -> Result<bool, ProviderError> {
        // As with a network, other tasks get their turn between two pieces.
        tokio::task::yield_now().await;
        match self.batches.next() {
            Some(batch) => {
                deltas.extend(batch);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// Returns the reference to the demo.
pub fn reference() -> ModelRef {
    ModelRef { provider_id: "windlass".to_owned(), model_id: "demo".to_owned(), variant: None }
}

/// Computes the answer to a prompt.
pub fn stream(prompt: &Prompt<'_>) -> Stream {
    Stream { batches: script(prompt).into_iter() }
}

/// Returns the whole answer in the pieces in which it arrives.
pub fn script(prompt: &Prompt<'_>) -> Vec<Vec<Delta>> {
    let mut answer = Answer::new(prompt);
    if prompt.tools.is_empty() && asks_for_title(prompt) {
        answer.text(&title(prompt));
        return answer.end();
    }
    let turn = Turn::of(prompt);
    match turn.command() {
        Some(command) => match command {
            Command::Tour => tour(&turn, &mut answer),
            Command::Read(file) => read(&turn, file, &mut answer),
            Command::Edit(file) => edit(&turn, file, &mut answer),
            Command::Run(line) => run(&turn, line, &mut answer),
            Command::Plan => plan(&turn, &mut answer),
        },
        None => answer.text(HELP),
    }
    answer.end()
}

enum Command<'a> {
    Tour,
    Read(&'a str),
    Edit(&'a str),
    Run(&'a str),
    Plan,
}

impl<'a> Command<'a> {
    /// Parses one of the exact forms; returns `None` for any other text.
    fn parse(text: &'a str) -> Option<Command<'a>> {
        let is_line = !text.contains(['\n', '\r']);
        let form = text.strip_prefix('/')?.strip_prefix(COMMAND)?.strip_prefix(' ').filter(|_| is_line)?;
        let (word, rest) = form.split_once(' ').unwrap_or((form, ""));
        match (word, rest.trim()) {
            ("tour", "") => Some(Command::Tour),
            ("plan", "") => Some(Command::Plan),
            ("read", file) if !file.is_empty() => Some(Command::Read(file)),
            ("edit", file) if !file.is_empty() => Some(Command::Edit(file)),
            ("run", line) if !line.is_empty() => Some(Command::Run(line)),
            _ => None,
        }
    }
}

/// The events since the user's last message.
struct Turn<'a> {
    texts: Vec<&'a str>,
    /// One entry per step.
    steps: Vec<&'a [ToolResult<'a>]>,
}

impl<'a> Turn<'a> {
    fn of(prompt: &'a Prompt<'a>) -> Turn<'a> {
        let mut turn = Turn { texts: Vec::new(), steps: Vec::new() };
        for message in &prompt.messages {
            match message {
                PromptMessage::User(contents) => turn = Turn { texts: texts(contents), steps: Vec::new() },
                PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => {}
                PromptMessage::ToolResults(results) => turn.steps.push(results),
            }
        }
        turn
    }

    fn command(&self) -> Option<Command<'a>> {
        // Expanded files and reminders are in the same message as the user's text.
        let is_typed = |text: &&&str| !text.starts_with('<') && !text.starts_with("Called the ");
        let mut typed = self.texts.iter().filter(is_typed);
        match (typed.next(), typed.next()) {
            (Some(text), None) => Command::parse(text),
            (_, Some(_)) | (None, None) => None,
        }
    }

    fn result(&self, step: usize) -> Option<&'a ToolResult<'a>> {
        self.steps.get(step)?.first()
    }

    fn failure(&self) -> Option<&'a ToolResult<'a>> {
        self.steps.last()?.iter().find(|result| result.is_error)
    }
}

fn texts<'a>(contents: &'a [UserContent<'_>]) -> Vec<&'a str> {
    contents
        .iter()
        .filter_map(|content| match content {
            UserContent::Text(text) => Some(&**text),
            UserContent::Media(_) => None,
        })
        .collect()
}

fn asks_for_title(prompt: &Prompt<'_>) -> bool {
    let mentions_title = |text: &str| text.to_lowercase().contains("title");
    prompt.system.iter().any(|text| mentions_title(text))
        || first_texts(prompt).any(|text| text.trim_start().starts_with(TITLE_REQUEST))
}

fn first_texts<'a>(prompt: &'a Prompt<'_>) -> impl Iterator<Item = &'a str> {
    prompt.messages.iter().flat_map(|message| match message {
        PromptMessage::User(contents) => texts(contents),
        PromptMessage::Assistant(_) | PromptMessage::ToolResults(_) | PromptMessage::Encoded(_) => Vec::new(),
    })
}

fn title(prompt: &Prompt<'_>) -> String {
    let typed = first_texts(prompt)
        .map(|text| text.trim().trim_start_matches(TITLE_REQUEST))
        .find(|text| !text.trim().is_empty())
        .unwrap_or("Demo");
    let words: Vec<&str> = typed.split_whitespace().take(TITLE_WORDS).collect();
    words.join(" ")
}

fn tour(turn: &Turn<'_>, answer: &mut Answer<'_>) {
    if stopped(turn, answer) {
        return;
    }
    let file = turn.result(1).and_then(|listing| listed_file(&listing.output));
    let nothing_to_read = turn.steps.len() >= 2 && file.is_none();
    match turn.steps.len() + usize::from(nothing_to_read) {
        0 => {
            answer.think("The user wants to see what windlass does. A short plan first, then one tool after the other.");
            answer.text("Welcome aboard. I will look around, write a file, change it and check the result.");
            answer.call("todowrite", todos(TOUR_PLAN, 0));
        }
        1 => {
            answer.text("First a look at the directory.");
            if answer.has_tool("list") {
                answer.call("list", json!({}));
            } else if answer.has_tool("glob") {
                answer.call("glob", json!({"pattern": "*"}));
            } else {
                answer.call("read", json!({"filePath": "."}));
            }
        }
        2 => {
            let file = file.unwrap_or("README.md");
            answer.text(&format!("Let me read `{file}`."));
            answer.call("read", json!({"filePath": file}));
        }
        3 => {
            answer.text(&format!("Now I write `{DEMO_FILE}`, where your rules allow it."));
            answer.call(
                "write",
                json!({"filePath": DEMO_FILE, "content": "The windlass demo was here.\nThe rope is slack.\n"}),
            );
        }
        4 => {
            answer.text("One word of it has to change.");
            answer.call(
                "edit",
                json!({"filePath": DEMO_FILE, "oldString": "rope is slack", "newString": "rope is taut"}),
            );
        }
        5 => {
            answer.text("And what does a command see?");
            answer.call("bash", json!({"command": format!("cat {DEMO_FILE}")}));
        }
        6 => answer.call("todowrite", todos(TOUR_PLAN, TOUR_PLAN.len())),
        _ => answer.text(&format!(
            "That was the tour: a plan, a listing, a file read, `{DEMO_FILE}` written and edited, and a command run. \
             With a provider configured a real model does all this: `windlass auth login` stores a key."
        )),
    }
}

fn todos(plan: &[(&str, &str)], n_completed: usize) -> Value {
    let todos: Vec<Value> = plan
        .iter()
        .enumerate()
        .map(|(idx, (content, priority))| {
            let status = match idx {
                idx if idx < n_completed => "completed",
                idx if idx == n_completed => "in_progress",
                _ => "pending",
            };
            json!({"content": content, "status": status, "priority": priority})
        })
        .collect();
    json!({ "todos": todos })
}

/// Returns README.md, or else the first entry that looks like a file.
fn listed_file(listing: &str) -> Option<&str> {
    let entries: Vec<&str> = listing
        .lines()
        .map(|line| line.trim().trim_start_matches("- "))
        .filter(|line| !line.starts_with(['<', '(', '/']) || std::path::Path::new(line).extension().is_some())
        .filter(|line| !line.is_empty() && !line.ends_with(['/', '>', ')', ':', '.']))
        .filter(|line| !line.contains(": ") && *line != "No files found")
        .collect();
    let is_readme = |entry: &&&str| entry.rsplit('/').next() == Some("README.md");
    entries.iter().find(is_readme).or(entries.first()).copied()
}

fn read(turn: &Turn<'_>, file: &str, answer: &mut Answer<'_>) {
    if stopped(turn, answer) {
        return;
    }
    match turn.result(0) {
        None => {
            answer.text(&format!("Reading `{file}`."));
            answer.call("read", json!({"filePath": file}));
        }
        Some(result) => match content_lines(&result.output).as_slice() {
            [] => answer.text(&format!("`{file}` has no lines of text to show.")),
            [line] => answer.text(&format!("`{file}` is one line: {}", text::head(line, 200))),
            [first, ..] => {
                let n_lines = content_lines(&result.output).len();
                answer.text(&format!(
                    "I see {n_lines} lines of `{file}`; the first: {}",
                    text::head(first, 200)
                ));
            }
        },
    }
}

fn edit(turn: &Turn<'_>, file: &str, answer: &mut Answer<'_>) {
    if let ([_], Some(result)) = (turn.steps.as_slice(), turn.result(0))
        && result.output.contains("File not found")
    {
        answer.text(&format!("There is no `{file}`, so I write it."));
        answer.call("write", json!({"filePath": file, "content": format!("{EDIT_LINE}\n")}));
        return;
    }
    if stopped(turn, answer) {
        return;
    }
    match (turn.steps.len(), turn.result(0)) {
        (1, Some(result)) => match replacement(&content_lines(&result.output)) {
            Some((old, new)) => {
                answer.text("I add a line after the first one.");
                answer.call("edit", json!({"filePath": file, "oldString": old, "newString": new}));
            }
            None => answer.text(&format!("`{file}` has no line that an edit could change.")),
        },
        (0, _) | (_, None) => {
            answer.text(&format!("I read `{file}` first."));
            answer.call("read", json!({"filePath": file}));
        }
        (_, Some(_)) => answer.text(&format!("Done: `{file}` now says \"{EDIT_LINE}\"")),
    }
}

/// Returns the shortest unique beginning of the file, without and with our line behind its first line.
fn replacement(lines: &[&str]) -> Option<(String, String)> {
    let all = lines.join("\n");
    let n_lines = (1..=lines.len()).find(|&n| {
        let start = lines[..n].join("\n");
        !start.is_empty() && all.matches(&start).count() == 1
    })?;
    let mut new = lines[..n_lines].to_vec();
    new.insert(1, EDIT_LINE);
    Some((lines[..n_lines].join("\n"), new.join("\n")))
}

/// Extracts the lines of a file from the output of the read tool: `N: text` inside of `<content>`.
fn content_lines(output: &str) -> Vec<&str> {
    let content = output.split_once("<content>").map_or(output, |(_, content)| content);
    let content = content.rsplit_once("</content>").map_or(content, |(content, _)| content);
    content
        .lines()
        .filter_map(|line| {
            let (number, text) = line.split_once(':')?;
            number.trim().parse::<u64>().ok()?;
            Some(text.strip_prefix(' ').unwrap_or(text))
        })
        .collect()
}

fn run(turn: &Turn<'_>, line: &str, answer: &mut Answer<'_>) {
    if stopped(turn, answer) {
        return;
    }
    match turn.result(0) {
        None => {
            answer.text(&format!("Running `{line}`."));
            answer.call("bash", json!({"command": line}));
        }
        Some(result) => match result.output.lines().find(|line| !line.trim().is_empty()) {
            // The tool's own text for an empty output.
            Some("(no output)") => answer.text("The command printed nothing."),
            Some(first) => answer.text(&format!(
                "The command printed {}, beginning with: {}",
                figures::counted(result.output.lines().count(), "line"),
                text::head(first, 200)
            )),
            None => answer.text("The command printed nothing."),
        },
    }
}

const PLAN: &[(&str, &str)] =
    &[("Understand the task", "high"), ("Make the change", "high"), ("Check that it works", "medium")];

fn plan(turn: &Turn<'_>, answer: &mut Answer<'_>) {
    if stopped(turn, answer) {
        return;
    }
    if turn.steps.is_empty() {
        answer.text("A plan in three steps.");
        answer.call("todowrite", todos(PLAN, 0));
    } else {
        answer.text("That is the plan; a real model would now begin with its first step.");
    }
}

/// Ends the answer after a failure or a refusal; returns true if there was one.
fn stopped(turn: &Turn<'_>, answer: &mut Answer<'_>) -> bool {
    let Some(result) = turn.failure() else { return false };
    answer.text(&format!(
        "The `{}` call did not go through: {}\nThe demo stops here.",
        result.name,
        text::head(result.output.trim(), 500)
    ));
    true
}

/// A builder of an answer.
struct Answer<'a> {
    prompt: &'a Prompt<'a>,
    batches: Vec<Vec<Delta>>,
    n_blocks: u32,
    n_calls: usize,
    n_bytes: usize,
    n_thought_bytes: usize,
}

impl<'a> Answer<'a> {
    fn new(prompt: &'a Prompt<'a>) -> Answer<'a> {
        Answer { prompt, batches: Vec::new(), n_blocks: 0, n_calls: 0, n_bytes: 0, n_thought_bytes: 0 }
    }

    fn has_tool(&self, name: &str) -> bool {
        self.prompt.tools.iter().any(|tool| tool.name == name)
    }

    fn think(&mut self, text: &str) {
        let block = self.block();
        self.n_thought_bytes += text.len();
        self.batches.push(vec![Delta::ReasoningStart { block }]);
        self.batches.extend(word_groups(text).map(|text| vec![Delta::Reasoning { block, text }]));
        self.batches.push(vec![Delta::BlockEnd { block }]);
    }

    fn text(&mut self, text: &str) {
        let block = self.block();
        self.n_bytes += text.len();
        self.batches.push(vec![Delta::TextStart { block }]);
        self.batches.extend(word_groups(text).map(|text| vec![Delta::Text { block, text }]));
        self.batches.push(vec![Delta::BlockEnd { block }]);
    }

    fn call(&mut self, name: &str, input: Value) {
        if !self.has_tool(name) {
            self.text(&format!(" The tool `{name}` is not available here, so the demo stops."));
            return;
        }
        let block = self.block();
        let input = input.to_string();
        self.n_bytes += input.len();
        let call_id = format!("demo_{}_{}", self.prompt.messages.len(), self.n_calls);
        self.n_calls += 1;
        self.batches.push(vec![Delta::ToolCallStart { block, call_id, name: name.to_owned() }]);
        let first_half = text::head(&input, input.len() / 2);
        let second_half = &input[first_half.len()..];
        for json in [first_half, second_half] {
            self.batches.push(vec![Delta::ToolCallInput { block, json: json.to_owned() }]);
        }
        self.batches.push(vec![Delta::BlockEnd { block }]);
    }

    fn end(mut self) -> Vec<Vec<Delta>> {
        let usage = Usage {
            input: tokens(prompt_bytes(self.prompt)),
            output: tokens(self.n_bytes),
            reasoning: tokens(self.n_thought_bytes),
            cache_read: 0,
            cache_write: 0,
        };
        let finish = if self.n_calls > 0 { Finish::ToolCalls } else { Finish::Stop };
        self.batches.push(vec![Delta::Usage(usage), Delta::Finish(finish)]);
        self.batches
    }

    fn block(&mut self) -> u32 {
        let block = self.n_blocks;
        self.n_blocks += 1;
        block
    }
}

fn word_groups(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words.chunks(WORDS_PER_BATCH).map(|group| group.concat()).collect::<Vec<_>>().into_iter()
}

/// Estimates the number of tokens as OpenCode does (facts: OpenCode §6.7).
fn tokens(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

fn prompt_bytes(prompt: &Prompt<'_>) -> usize {
    let system: usize = prompt.system.iter().map(|text| text.len()).sum();
    let messages: usize = prompt
        .messages
        .iter()
        .map(|message| match message {
            PromptMessage::User(contents) => texts(contents).iter().map(|text| text.len()).sum(),
            PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => 0,
            PromptMessage::ToolResults(results) => results.iter().map(|result| result.output.len()).sum(),
        })
        .sum();
    system + messages
}
