//! The dialogue about a tool's questions: options by number, several where that is allowed, or own words.

use windlass_base::text;
use windlass_protocol::opencode::question::Question;

use super::{
    super::view::line::{self, Line, PLAIN},
    keyboard::Key,
    step::{self, ANSWER_COLUMNS, Answer, Step},
    typing::{State, Typing},
};

/// Label of the person's own words.
const OWN_WORDS: &str = "Your words: ";

/// See the module's comment.
#[derive(Debug)]
pub struct QuestionDialog {
    questions: Vec<Question>,
    answers: Vec<Vec<String>>,
    /// Options of the current question, by index.
    chosen: Vec<usize>,
    own_words: Option<Typing>,
    /// Digits of an option's number that are not the whole of it yet.
    digits: String,
    /// Columns of the terminal.
    columns: usize,
}

impl QuestionDialog {
    /// Returns a dialogue, and the text that opens it.
    pub fn new(questions: Vec<Question>, columns: usize) -> (Self, String) {
        let mut dialog = Self {
            questions,
            answers: Vec::new(),
            chosen: Vec::new(),
            own_words: None,
            digits: String::new(),
            columns,
        };
        let text = dialog.show();
        (dialog, text)
    }

    /// Returns true if keys are part of a text that is not meant for the dialogue: `is_typed` if one is typed now.
    pub fn is_text(&self, keys: &[Key], is_typed: bool) -> bool {
        let takes_custom = self.questions.get(self.answers.len()).is_some_and(Question::takes_custom);
        let is_answer = |key: char| key.is_ascii_digit() || (takes_custom && "oO".contains(key));
        self.own_words.is_none() && step::is_text(keys, is_typed, is_answer)
    }

    pub fn keys(&mut self, keys: &[Key]) -> Step {
        if self.own_words.is_some() {
            return self.type_words(keys);
        }
        // Pasted text is not a choice.
        let &[key] = keys else { return Step::More(String::new()) };
        let Some(question) = self.questions.get(self.answers.len()) else { return self.end() };
        match key {
            Key::Char(digit @ '0'..='9') => self.digit(digit),
            Key::Char('o' | 'O') if question.takes_custom() => {
                self.own_words = Some(Typing::new(OWN_WORDS, self.columns));
                Step::More(format!("\n{OWN_WORDS}"))
            }
            Key::Enter if !self.digits.is_empty() => self.choose(),
            Key::Enter if question.is_multiple() => self.note(),
            Key::Backspace | Key::Clear => {
                let n_digits = std::mem::take(&mut self.digits).len();
                Step::More("\u{8} \u{8}".repeat(n_digits))
            }
            Key::Escape | Key::End => Step::Done("dismissed\n".to_owned(), Answer::Question(None)),
            Key::Char(_)
            | Key::Enter
            | Key::Tab
            | Key::Interrupt
            | Key::Edit(_)
            | Key::Line(_)
            | Key::Other => Step::More(String::new()),
        }
    }

    fn type_words(&mut self, keys: &[Key]) -> Step {
        let Some(line) = &mut self.own_words else { return Step::More(String::new()) };
        let (shown, state) = line.keys(keys);
        let (is_left, words) = match state {
            State::Open => return Step::More(shown),
            State::Left => (true, String::new()),
            State::Entered(words) => (false, words),
        };
        self.own_words = None;
        let has_options = self.questions.get(self.answers.len()).is_some_and(|it| !it.options.is_empty());
        match Some(words).filter(|words| !words.is_empty()) {
            None if has_options => Step::More(format!("{shown}\n{}", self.choices())),
            None if is_left => Step::Done(format!("{shown}\ndismissed\n"), Answer::Question(None)),
            own => match self.note_with(own) {
                Step::More(text) => Step::More(format!("{shown}\n{text}")),
                Step::Done(text, answer) => Step::Done(format!("{shown}\n{text}"), answer),
            },
        }
    }

    /// Takes a digit of an option's number; it chooses at once where no further one could follow.
    fn digit(&mut self, digit: char) -> Step {
        let n_options = self.questions.get(self.answers.len()).map_or(0, |question| question.options.len());
        self.digits.push(digit);
        let number = self.digits.parse::<usize>().unwrap_or_default();
        if number == 0 || number > n_options {
            self.digits.pop();
            return Step::More(String::new());
        }
        if number * 10 > n_options {
            return self.choose();
        }
        Step::More(digit.to_string())
    }

    /// Takes the option with the number that was typed.
    fn choose(&mut self) -> Step {
        let number = std::mem::take(&mut self.digits).parse::<usize>().unwrap_or_default();
        let Some(question) = self.questions.get(self.answers.len()) else { return self.end() };
        let Some(idx) = number.checked_sub(1).filter(|idx| *idx < question.options.len()) else {
            return Step::More(String::new());
        };
        if question.is_multiple() {
            match self.chosen.iter().position(|it| *it == idx) {
                Some(place) => _ = self.chosen.remove(place),
                None => self.chosen.push(idx),
            }
            self.chosen.sort_unstable();
            return Step::More(format!("\n{}", self.choices()));
        }
        self.chosen = vec![idx];
        self.note()
    }

    fn note(&mut self) -> Step {
        self.note_with(None)
    }

    /// Notes the answer to the current question, and goes on to the next.
    fn note_with(&mut self, own_words: Option<String>) -> Step {
        let Some(question) = self.questions.get(self.answers.len()) else { return self.end() };
        let labels = self.chosen.drain(..).filter_map(|idx| question.options.get(idx));
        let mut answer: Vec<String> = labels.map(|option| option.label.clone()).collect();
        answer.extend(own_words);
        let shown = text::visible_line(&answer.join(", ")).into_owned();
        self.answers.push(answer);
        if self.answers.len() == self.questions.len() {
            let Step::Done(_, answer) = self.end() else { return Step::More(String::new()) };
            return Step::Done(format!("{shown}\n"), answer);
        }
        Step::More(format!("{shown}\n{}", self.show()))
    }

    fn end(&mut self) -> Step {
        Step::Done("\n".to_owned(), Answer::Question(Some(std::mem::take(&mut self.answers))))
    }

    /// Returns the current question and its options.
    fn show(&mut self) -> String {
        let Some(question) = self.questions.get(self.answers.len()) else { return String::new() };
        let count = match self.questions.len() {
            1 => String::new(),
            n_questions => format!(" ({} of {n_questions})", self.answers.len() + 1),
        };
        let mut shown = format!("? {}{count}\n", text::visible(question.question.trim_end()));
        for (idx, option) in question.options.iter().enumerate() {
            let description = match option.description.trim() {
                "" => String::new(),
                description => format!("  {}", text::visible_line(description)),
            };
            shown.push_str(&format!("  {}  {}{description}\n", idx + 1, text::visible_line(&option.label)));
        }
        let shown = line::wrapped_text(&shown, self.columns);
        if question.options.is_empty() {
            self.own_words = Some(Typing::new(OWN_WORDS, self.columns));
            return shown + OWN_WORDS;
        }
        shown + &self.choices()
    }

    /// Returns the line that says which keys there are.
    fn choices(&self) -> String {
        let Some(question) = self.questions.get(self.answers.len()) else { return String::new() };
        let numbers = match question.options.len() {
            1 => "[1]".to_owned(),
            n_options => format!("[1-{n_options}]"),
        };
        let mut choices = Vec::new();
        let is_multiple = question.is_multiple();
        choices.push(format!("{numbers} {}", if is_multiple { "on or off" } else { "choose" }));
        if question.takes_custom() {
            choices.push("[o] own words".to_owned());
        }
        if is_multiple {
            let chosen: Vec<String> = self.chosen.iter().map(|idx| (idx + 1).to_string()).collect();
            let chosen = if chosen.is_empty() { "none".to_owned() } else { chosen.join(", ") };
            choices.push(format!("[Enter] done, chosen: {chosen}"));
        }
        choices.push("[Esc] dismiss".to_owned());
        keys(&choices, self.columns)
    }
}

/// Returns the line that says which keys there are, with room for the answer behind it.
pub fn keys(choices: &[String], columns: usize) -> String {
    let choices: Vec<Line> = choices.iter().map(|choice| Line::new(choice, PLAIN)).collect();
    let rows = line::flow(&choices, "  ", columns);
    let has_room = rows.last().is_none_or(|row| row.width() + ANSWER_COLUMNS <= columns);
    let rows: Vec<String> = rows.iter().map(Line::text).collect();
    rows.join("\n") + if has_room { " › " } else { "\n› " }
}

#[cfg(test)]
mod tests;
