//! Commands of the chat itself: pickers, and all that it shows and does without a model.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use windlass_base::{clock, figures, process::pager, text};
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::PartKind,
    session::Session,
};

use super::{
    super::{
        daemon::sessions::Said,
        output::{self, plain},
        run::failure::Failure,
        runtime::Interrupts,
        view::{self, Draw, tool::diff},
    },
    Chat,
    first_run::{self, DEMO, Offer},
    texts,
};

impl Chat {
    /// Carries a command of the chat out.
    pub(super) async fn own(
        &mut self,
        name: &str,
        rest: &str,
        interrupts: &mut Interrupts,
    ) -> Result<(), Failure> {
        let text = match name {
            "help" => texts::help(&self.sessions.choices().commands),
            "model" => self.model(rest).await?,
            "agent" | "mode" => self.agent(rest).await?,
            "new" | "clear" => {
                let agent = self.sessions.agent(&self.id).await;
                let session = self.sessions.create().await?;
                self.enter(session, true).await?;
                if self.sessions.agent(&self.id).await != agent {
                    self.sessions.choose_agent(&self.id, &agent).await?;
                }
                format!("A new session, {}.", self.id)
            }
            "sessions" | "resume" => match self.session(rest).await? {
                Picked::One(id) => {
                    let session = self.sessions.enter(&id).await?;
                    self.enter(session, false).await?;
                    return self.greet(interrupts).await;
                }
                Picked::List(list) => list,
            },
            "login" if self.sessions.is_shared() => {
                return Err(Failure::Misuse("Keys belong to the server: log in where it runs.".to_owned()));
            }
            "login" => return self.log_in().await,
            "rename" if rest.is_empty() => {
                return Err(Failure::Misuse("Give the title behind it: /rename TITLE.".to_owned()));
            }
            "rename" => {
                let session = self.sessions.rename(&self.id, rest).await?;
                format!("Title: {}.", plain(&session.title))
            }
            "cost" => cost(&self.sessions.info(&self.id).await?),
            "diff" => self.diff().await?,
            "copy" => self.copy().await?,
            "export" => self.export(rest).await?,
            "thinking" => {
                self.look.shows_thoughts = !self.look.shows_thoughts;
                self.shown.show_thoughts(self.look.shows_thoughts);
                let shown = if self.look.shows_thoughts { "are shown" } else { "are not shown" };
                format!("Thoughts {shown} from now on.")
            }
            _left => String::new(),
        };
        if name == "diff" {
            // It is drawn for this width already.
            return Ok(self.shown.print(&text).await?);
        }
        Ok(self.shown.print_wrapped(&text).await?)
    }

    async fn model(&mut self, wanted: &str) -> Result<String, Failure> {
        let models = self.sessions.choices().models;
        // Providers have models that no list names.
        if wanted.contains('/') && !models.iter().any(|model| model.contains(wanted)) {
            let chosen = self.sessions.choose_model(&self.id, wanted).await?;
            return Ok(format!("Model: {chosen}."));
        }
        let rows = models.into_iter().map(|model| Row::of(model.clone(), model));
        match pick(&MODELS, rows.collect(), wanted)? {
            Picked::One(model) => {
                let chosen = self.sessions.choose_model(&self.id, &model).await?;
                Ok(format!("Model: {chosen}."))
            }
            Picked::List(list) => Ok(list),
        }
    }

    async fn agent(&mut self, wanted: &str) -> Result<String, Failure> {
        let agents = self.sessions.choices().agents;
        let row = |(name, description): (String, Option<String>)| {
            let description = plain(description.as_deref().unwrap_or_default());
            Row { text: format!("{name}  {description}"), searched: name.clone(), id: name }
        };
        match pick(&AGENTS, agents.into_iter().map(row).collect(), wanted)? {
            Picked::One(agent) => {
                self.sessions.choose_agent(&self.id, &agent).await?;
                Ok(format!("Agent: {agent}."))
            }
            Picked::List(list) => Ok(list),
        }
    }

    /// Chooses the agent behind the one that answers now.
    pub(super) async fn next_agent(&mut self) -> Result<(), Failure> {
        let now = self.sessions.agent(&self.id).await;
        let names: Vec<String> = self.sessions.choices().agents.into_iter().map(|(name, _)| name).collect();
        let at = names.iter().position(|name| *name == now).map_or(0, |at| at + 1);
        match names.get(at % names.len().max(1)) {
            Some(next) if *next != now => self.sessions.choose_agent(&self.id, next).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn session(&mut self, wanted: &str) -> Result<Picked, Failure> {
        let sessions = self.sessions.list().await?;
        let is_empty = |session: &Session| session.id == self.id && !self.is_begun;
        let rows = sessions.iter().filter(|it| !is_empty(it)).map(|session| {
            let mark = if session.id == self.id { "  (this one)" } else { "" };
            let (id, title) = (session.id.to_string(), plain(&session.title));
            let text = format!("{}  {title}  {id}{mark}", clock::short(session.time.updated));
            Row::of(id, text)
        });
        let rows: Vec<Row> = rows.collect();
        let is_listed = rows.iter().any(|row| row.has(wanted));
        if !wanted.is_empty() && !is_listed && wanted.parse::<usize>().is_err() {
            // Older ones, and those of other directories, are found by their ids alone.
            return Ok(Picked::One(wanted.to_owned()));
        }
        pick(&SESSIONS, rows, wanted)
    }

    async fn diff(&mut self) -> Result<String, Failure> {
        let diffs = self.sessions.diff(&self.id).await?;
        if diffs.is_empty() {
            return Ok("No file was changed in this session.".to_owned());
        }
        let draw = Draw { look: &self.look, width: output::columns() };
        let changes = diffs.into_iter().map(diff::of_session);
        let drawn = changes.flat_map(|change| diff::drawn(&change, diff::VERB, diff::MAX_LINES, &draw));
        let rows: Vec<_> = drawn.collect();
        Ok(view::text(&rows, &self.look))
    }

    async fn copy(&mut self) -> Result<String, Failure> {
        let past = self.sessions.past(&self.id, None).await?;
        let Some(answer) = past.messages.iter().rev().find_map(answer) else {
            return Ok("There is no answer to copy.".to_owned());
        };
        // The terminal's own clipboard, which works through ssh as well.
        let code = format!("\x1b]52;c;{}\x07", BASE64_STANDARD.encode(&answer));
        self.shown.send_code(&code).await?;
        Ok(format!(
            "Copied {}, where the terminal allows it.",
            figures::counted(answer.chars().count(), "character")
        ))
    }

    async fn export(&mut self, file: &str) -> Result<String, Failure> {
        if file.is_empty() {
            return Err(Failure::Misuse("Name a file: /export FILE.md, FILE.html or FILE.json.".to_owned()));
        }
        let path = match file.strip_prefix("~/") {
            Some(below) => self.environment.home.join(below),
            None => self.look.directory.join(file),
        };
        if path.exists() {
            let path = plain(&path.display().to_string());
            return Err(Failure::Misuse(format!("{path} is there already; name another file.")));
        }
        self.sessions.export(&self.id, &path).await?;
        Ok(format!("Written to {}.", plain(&path.display().to_string())))
    }
}

impl Chat {
    /// Says how to get a model, where nothing is configured.
    pub(super) async fn offer(&mut self) -> Result<(), Failure> {
        self.offers = first_run::offers(&self.environment).await;
        let mut text = "No model is configured yet. You can".to_owned();
        for (at, offer) in self.offers.iter().enumerate() {
            text.push_str(&format!("\n  {}  {}", at + 1, offer.sentence()));
        }
        text.push_str("\nType its number.");
        Ok(self.shown.print(&text).await?)
    }

    /// Returns true for words that nothing can answer before an offer is chosen.
    pub(super) fn is_to_choose(&self, line: &str) -> bool {
        !self.offers.is_empty() && self.sessions.slash(line).is_none() && self.sessions.is_unconfigured()
    }

    /// Returns the offer that a line chooses.
    pub(super) fn chosen_offer(&self, line: &str) -> Option<Offer> {
        let number: usize = line.trim().parse().ok()?;
        self.offers.get(number.checked_sub(1)?).cloned()
    }

    pub(super) async fn take_offer(&mut self, offer: Offer) -> Result<(), Failure> {
        let text = match offer {
            Offer::LogIn => return self.log_in().await,
            Offer::Local(server) => {
                let Value::Object(settings) = server.settings() else { return Ok(()) };
                self.sessions.change_user_settings(settings).await?;
                let model = self.sessions.choose_model(&self.id, &server.first()).await?;
                format!("Model: {model}, from now on in your settings. `/model` lists the others.")
            }
            Offer::Demo => {
                self.sessions.choose_model(&self.id, DEMO).await?;
                "The demo answers. Type /demo for the tour.".to_owned()
            }
        };
        self.offers.clear();
        Ok(self.shown.print_wrapped(&text).await?)
    }

    /// Has the person log in, by `windlass auth login` on this terminal.
    pub(super) async fn log_in(&mut self) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::Failed(error.to_string()))?;
        let modes = self.editor.ahead().and_then(|ahead| ahead.leave());
        let args = ["auth".as_ref(), "login".as_ref()];
        let ended = pager::run(&program.display().to_string(), &args).await;
        if let (Some(ahead), Some(modes)) = (self.editor.ahead(), modes) {
            ahead.come_back(&modes);
        }
        let ended = ended.map_err(|error| Failure::Failed(format!("The login could not begin: {error}.")))?;
        if !ended.success() {
            return Err(Failure::Failed("Nothing was stored.".to_owned()));
        }
        self.sessions.read_keys_again().await?;
        self.offers.clear();
        self.sessions.answering()?;
        let place = self.sessions.place(&self.look.directory, self.environment.home.as_ref());
        Ok(self.shown.print_wrapped(&place).await?)
    }
}

/// Returns the text of an answer.
fn answer(message: &MessageWithParts) -> Option<String> {
    let Message::Assistant(_) = &message.info else { return None };
    let texts = message.parts.iter().filter_map(|part| match &part.kind {
        // The daemon's own answers are marked so.
        PartKind::Text(text) if text.ignored != Some(true) => Some(text.text.as_str()),
        _other => None,
    });
    Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.trim().is_empty())
}

fn cost(session: &Session) -> String {
    let tokens = &session.tokens;
    let counts = [
        (tokens.input, "in"),
        (tokens.output, "out"),
        (tokens.reasoning, "thought"),
        (tokens.cache.read, "read from cache"),
        (tokens.cache.write, "written to cache"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, what)| format!("{} {what}", figures::short(count))).collect();
    let tokens =
        if counts.is_empty() { "no tokens".to_owned() } else { format!("tokens: {}", counts.join(", ")) };
    format!("{} · {tokens}.", figures::dollars(session.cost))
}

/// A picker.
struct Kind {
    command: &'static str,
    one: &'static str,
    many: &'static str,
}

const MODELS: Kind = Kind { command: "model", one: "model", many: "models" };
const AGENTS: Kind = Kind { command: "agent", one: "agent", many: "agents" };
const PROMPTS: Kind = Kind { command: "undo", one: "prompt", many: "prompts" };
const SESSIONS: Kind = Kind { command: "sessions", one: "session", many: "sessions" };

/// A row of a picker.
struct Row {
    id: String,
    text: String,
    /// The part of the text in which words are looked for.
    searched: String,
}

impl Row {
    fn of(id: String, text: String) -> Self {
        Self { id, searched: text.clone(), text }
    }

    /// Returns true if all of these words are in it.
    fn has(&self, words: &str) -> bool {
        let searched = self.searched.to_lowercase();
        words.to_lowercase().split_whitespace().all(|word| searched.contains(word))
    }
}

/// Picks one of a session's prompts, the newest first, by words that only it has; `list` lists them all.
pub(super) fn pick_prompt(prompts: Vec<Said>, wanted: &str) -> Result<Picked, Failure> {
    let rows = prompts.into_iter().rev().map(|Said { id, created, words }| {
        let text =
            format!("{}  {}", clock::short(created), plain(words.trim().lines().next().unwrap_or_default()));
        Row::of(id.to_string(), text)
    });
    pick(&PROMPTS, rows.collect(), if wanted == "list" { "" } else { wanted })
}

/// Outcome of a picker.
pub(super) enum Picked {
    One(String),
    /// The rows to choose from.
    List(String),
}

/// Picks the row of a number, of an id, or the only one whose text has the words; lists them otherwise.
fn pick(kind: &Kind, rows: Vec<Row>, wanted: &str) -> Result<Picked, Failure> {
    let Kind { command, one, many } = kind;
    if rows.is_empty() {
        return Ok(Picked::List(format!("There are no {many}.")));
    }
    if let Some(row) = rows.iter().find(|row| row.id == wanted) {
        return Ok(Picked::One(row.id.clone()));
    }
    if let Ok(number) = wanted.parse::<usize>() {
        let row = number.checked_sub(1).and_then(|at| rows.get(at));
        let unknown =
            || Failure::Misuse(format!("There is no number {number}; `/{command}` lists the {many}."));
        return row.map(|row| Picked::One(row.id.clone())).ok_or_else(unknown);
    }
    let numbered: Vec<(usize, &Row)> = rows.iter().enumerate().collect();
    let found: Vec<&(usize, &Row)> = numbered.iter().filter(|(_, row)| row.has(wanted)).collect();
    match found.as_slice() {
        [] => {
            let near = text::nearest(wanted, rows.iter().map(|row| row.id.as_str()));
            let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
            Err(Failure::Misuse(format!("No {one} has `{wanted}` in it.{near}")))
        }
        [(_, row)] if !wanted.is_empty() => Ok(Picked::One(row.id.clone())),
        found => {
            let width = rows.len().to_string().len();
            let line = |(at, row): &&(usize, &Row)| format!("{:>width$}  {}", at + 1, row.text);
            let list: Vec<String> = found.iter().map(line).collect();
            Ok(Picked::List(format!("{}\n/{command} NUMBER chooses.", list.join("\n"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(wanted: &str) -> String {
        let rows = ["mock/one", "mock/two", "other/one"].map(|id| Row::of(id.into(), id.into()));
        match pick(&MODELS, rows.into(), wanted) {
            Ok(Picked::One(id)) => id,
            Ok(Picked::List(list)) => list,
            Err(Failure::Misuse(reason) | Failure::Failed(reason)) => reason,
            Err(Failure::Output(error)) => error.to_string(),
        }
    }

    #[test]
    fn a_row_is_picked_by_its_number_its_name_or_words_that_only_it_has() {
        assert_eq!(picked("mock/two"), "mock/two");
        assert_eq!(picked("3"), "other/one");
        assert_eq!(picked("TWO"), "mock/two");
        assert_eq!(picked("one other"), "other/one");
        assert_eq!(picked("one"), "1  mock/one\n3  other/one\n/model NUMBER chooses.");
        assert_eq!(picked("").lines().count(), 4);
        assert_eq!(picked("4"), "There is no number 4; `/model` lists the models.");
        assert_eq!(picked("mock/tow"), "No model has `mock/tow` in it. Did you mean mock/two?");
    }
}
