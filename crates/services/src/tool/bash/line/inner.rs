//! Reads the commands that a command runs in turn: behind wrappers, in shell text, by `find` and by git.

use super::{
    Reach, Reader,
    word::Word,
    wrappers::{self, FD_COMMANDS, FIND_COMMANDS, GIT_VALUES, SHELLS, STEERING, Wrapper},
};

/// The place where the reading of a wrapper's options goes on.
enum Next {
    At(usize),
    /// It runs no other command, or one that was read.
    Done,
}

impl Reader {
    /// Reads the command or text that a command runs.
    pub(super) fn inner(&mut self, name: &str, words: &[Word], is_fed: bool, depth: usize) -> Reach {
        let is_closed = words.get(1).is_some_and(|it| it.value() == "--");
        let operands = words.get(1 + usize::from(is_closed)..).unwrap_or_default();
        match name {
            "eval" => self.shell_text(operands),
            "source" | "." => {
                let is_odd =
                    operands.first().is_some_and(|it| self.is_computed(it) || is_open_file(it.value()));
                self.line.is_plain &= !is_odd;
                return Reach::Name;
            }
            "trap" if operands.len() > 1 && !matches!(operands[0].value(), "-" | "-p" | "-l") => {
                self.shell_text(&operands[..1]);
            }
            "trap" => {}
            "alias" => self.line.is_plain &= !operands.iter().any(|it| it.text.contains('=')),
            "hash" | "bind" | "complete" | "compgen" | "enable" | "fc" | "jobs" | "mapfile" | "readarray" => {
                let risky = ["-p", "-x", "-C", "-F", "-W", "-f", "-e", "-s"];
                let is_risky = |it: &Word| {
                    it.literal.is_none() || risky.iter().any(|risky| it.value().starts_with(risky))
                };
                self.line.is_plain &= !words[1..].iter().any(is_risky);
            }
            "find" | "gfind" => return self.find(words, &FIND_COMMANDS, is_fed, depth),
            "fd" | "fdfind" => return self.find(words, &FD_COMMANDS, is_fed, depth),
            "git" => return self.git(words, depth),
            _ if SHELLS.contains(&name) => return self.shell(words, is_fed),
            _ => match wrappers::find(name) {
                Some(wrapper) => return self.wrapper(wrapper, words, is_fed, depth),
                None => return Reach::Name,
            },
        }
        Reach::Whole
    }

    fn wrapper(&mut self, wrapper: &Wrapper, words: &[Word], is_fed: bool, depth: usize) -> Reach {
        let mut at = 1;
        let mut n_operands = wrapper.n_operands;
        let mut has_options = true;
        while let Some(word) = words.get(at) {
            let assigned = assigned(wrapper, word).filter(|_| wrapper.has_assignments && !word.may_split);
            if let Some(variable) = assigned {
                let is_odd = STEERING.contains(&variable) || variable.contains("BASH_FUNC_");
                self.line.is_plain &= !is_odd;
                at += 1;
                continue;
            }
            let Some(literal) = word.literal.as_deref() else {
                if n_operands > 0 && (!word.may_split || !self.is_computed(word)) {
                    n_operands -= 1;
                    at += 1;
                    continue;
                }
                break;
            };
            if literal == "-" && matches!(wrapper.name, "env" | "su") {
                at += 1;
            } else if literal == "--" && has_options {
                has_options = false;
                at += 1;
            } else if literal.starts_with('-') && literal.len() > 1 && has_options {
                match self.option(wrapper, words, at) {
                    Next::At(next) => at = next,
                    Next::Done => return Reach::Whole,
                }
            } else if n_operands > 0 {
                n_operands -= 1;
                // GNU's programs stop at the first operand, `flock FILE -c TEXT` and `su USER -c TEXT` go on.
                has_options = wrapper.text == Some('c');
                at += 1;
            } else {
                break;
            }
        }
        let rest = words.get(at..).unwrap_or_default();
        let is_joined = wrapper.is_joined;
        if rest.is_empty() || is_joined && rest[0].value().starts_with(":::") {
            // Many start a shell then, `exec` changes the input of later commands, `parallel` runs its input's lines.
            let reads_input = is_fed && wrapper.name != "xargs" || is_joined;
            self.line.is_plain &= !self.is_appended_to && !reads_input;
            return Reach::Whole;
        }
        let (was_appended_to, n_placeholders) = (self.is_appended_to, self.placeholders.len());
        if matches!(wrapper.name, "xargs" | "parallel") {
            self.is_appended_to = true;
            self.placeholders.push("{}".to_owned());
            for (idx, option) in words[..at].iter().map(Word::value).enumerate() {
                let glued = ["-I", "-i", "--replace="].iter().find_map(|it| option.strip_prefix(it));
                let text = if option == "-I" { words[idx + 1..].first().map(Word::value) } else { glued };
                self.placeholders.extend(text.filter(|it| !it.is_empty()).map(str::to_owned));
            }
        }
        let reach = if is_joined {
            let end = rest.iter().position(|it| it.value().starts_with(":::")).unwrap_or(rest.len());
            self.shell_text(&rest[..end]);
            None
        } else {
            self.run(rest, None, is_fed || wrapper.name == "coproc", depth + 1)
        };
        self.is_appended_to = was_appended_to;
        self.placeholders.truncate(n_placeholders);
        reach.map_or(Reach::Whole, |n_words| Reach::Words(at + n_words))
    }

    /// Reads one option word of a wrapper.
    fn option(&mut self, wrapper: &Wrapper, words: &[Word], at: usize) -> Next {
        let literal = words[at].value().to_owned();
        if literal.starts_with("--") {
            if matches!(literal.as_str(), "--help" | "--version") {
                return Next::Done;
            }
            let (name, value) = match literal.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (literal.as_str(), None),
            };
            if matches!(name, "--command" | "--split-string") && wrapper.text.is_some() {
                let text = value.map(Word::literal).or_else(|| words.get(at + 1).cloned());
                self.option_text(wrapper, text.as_slice());
                return Next::Done;
            }
            let takes_value = wrapper.long.iter().any(|it| it.strip_suffix('=') == Some(name));
            let is_flag = wrapper.long.contains(&name);
            self.line.is_plain &= takes_value || is_flag;
            return Next::At(at + 1 + usize::from(takes_value && !is_flag && value.is_none()));
        }
        for (idx, letter) in literal.char_indices().skip(1) {
            let rest = &literal[idx + letter.len_utf8()..];
            let behind = words.get(at + 1..).unwrap_or_default();
            if wrapper.harmless.contains(letter) {
                return Next::Done;
            }
            if wrapper.text == Some(letter) {
                let n_more = if letter == 'S' { behind.len() } else { usize::from(rest.is_empty()) };
                let own = (!rest.is_empty()).then(|| Word::literal(rest));
                let text: Vec<Word> = own.into_iter().chain(behind.iter().take(n_more).cloned()).collect();
                self.option_text(wrapper, &text);
                return Next::Done;
            }
            if wrapper.values.contains(letter) {
                return Next::At(at + 1 + usize::from(rest.is_empty()));
            }
            let is_number = letter.is_ascii_digit() && matches!(wrapper.name, "nice" | "ionice" | "xargs");
            self.line.is_plain &= is_number || wrapper.flags.contains(letter);
        }
        Next::At(at + 1)
    }

    /// Reads text that an option of a wrapper gives; `env -S` takes more options from it.
    fn option_text(&mut self, wrapper: &Wrapper, text: &[Word]) {
        let name = (wrapper.text == Some('S')).then(|| Word::new(wrapper.name));
        self.shell_text(&name.iter().chain(text).cloned().collect::<Vec<_>>());
    }

    /// Reads words that are joined to shell text.
    fn shell_text(&mut self, words: &[Word]) {
        let literals: Option<Vec<&str>> = words.iter().map(|word| word.literal.as_deref()).collect();
        let text = match literals {
            Some(literals) => literals.join(" "),
            // The commands that it shows still meet the rules about them.
            None => {
                self.line.is_plain = false;
                words.iter().map(|it| it.text.trim_matches('"')).collect::<Vec<_>>().join(" ")
            }
        };
        // A file's name or a line of input would be read as shell.
        if self.has_placeholder(&text) {
            self.line.is_plain = false;
        }
        self.text(&text);
    }

    fn shell(&mut self, words: &[Word], is_fed: bool) -> Reach {
        let (mut at, mut has_text, mut reads_input) = (1, false, false);
        while let Some(literal) = words.get(at).and_then(|it| it.literal.as_deref()) {
            at += match literal {
                "--" | "-" => 1,
                "--version" | "--help" => return Reach::Whole,
                "--rcfile" | "--init-file" => {
                    self.line.is_plain = false;
                    2
                }
                _ if literal.starts_with("--") => 1,
                _ if literal.starts_with(['-', '+']) && literal.len() > 1 => {
                    has_text |= literal.starts_with('-') && literal.contains('c');
                    reads_input |= literal.contains('s');
                    1 + usize::from(literal.ends_with(['o', 'O']))
                }
                _ => break,
            };
            if matches!(literal, "--" | "-") {
                break;
            }
        }
        let operand = words.get(at);
        if has_text {
            match operand {
                Some(text) => self.shell_text(std::slice::from_ref(text)),
                None => self.line.is_plain = false,
            }
            return Reach::Whole;
        }
        match operand.filter(|it| !reads_input && !is_open_file(it.value())) {
            Some(script) => {
                self.line.is_plain &= !self.is_computed(script) && !self.has_placeholder(&script.text);
                if at == 1 { Reach::Name } else { Reach::Whole }
            }
            None => {
                self.line.is_plain &= !is_fed && !self.is_appended_to && operand.is_none();
                Reach::Whole
            }
        }
    }

    fn find(&mut self, words: &[Word], options: &[&str], is_fed: bool, depth: usize) -> Reach {
        let may_be_option = |(at, it): (usize, &Word)| {
            let is_value = at == 1 || words[at - 1].text.starts_with('-');
            let brings_words = it.may_split && it.text.contains(['$', '`', '{']);
            (brings_words || !it.may_split && !is_value) && self.is_computed(it)
        };
        let is_odd = words.iter().enumerate().skip(1).any(may_be_option);
        let n_of = |these: &[&str]| words.iter().filter(|it| these.contains(&it.value())).count();
        let lacks_command = n_of(&[";", "+"]) > n_of(options);
        self.line.is_plain &= !is_odd && !lacks_command && !self.is_appended_to;
        let mut reach = Reach::Whole;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            at += 1;
            if !options.contains(&word.value()) {
                continue;
            }
            let is_end = |it: &Word| matches!(it.value(), ";" | "+");
            let end = words[at..].iter().position(is_end).map_or(words.len(), |it| at + it);
            self.placeholders.push("{}".to_owned());
            let was_appended_to = std::mem::replace(&mut self.is_appended_to, false);
            let n_words = self.run(&words[at..end], None, is_fed, depth + 1);
            self.is_appended_to = was_appended_to;
            self.placeholders.pop();
            reach = n_words.map_or(Reach::Whole, |n_words| Reach::Words(at + n_words));
            at = end;
        }
        reach
    }

    /// Reads git's subcommand behind the options before it, and the commands that its subcommands are told to run.
    fn git(&mut self, words: &[Word], depth: usize) -> Reach {
        let mut at = 1;
        while let Some(option) = words.get(at).filter(|it| it.value().starts_with('-')) {
            let value = words.get(at + 1).filter(|_| GIT_VALUES.contains(&option.value()));
            let setting = value.map(|it| it.literal.as_ref().unwrap_or(&it.text).to_lowercase());
            let is_alias = setting.is_some_and(|it| {
                option.value() == "-c"
                    && (it.starts_with("alias.") || it.trim_matches('"').starts_with(['$', '`']))
            });
            self.line.is_plain &= !is_alias && !option.value().starts_with("--config-env");
            at += 1 + usize::from(value.is_some());
        }
        let Some(subcommand) = words.get(at) else {
            self.line.is_plain &= !self.is_appended_to;
            return Reach::Whole;
        };
        let Some(name) = subcommand.literal.as_deref().filter(|it| !self.has_placeholder(it)) else {
            self.line.is_plain = false;
            return Reach::Whole;
        };
        let rest = &words[at + 1..];
        match name {
            "bisect" if rest.first().is_some_and(|it| it.value() == "run") => {
                self.run(&rest[1..], None, false, depth + 1);
                return Reach::Whole;
            }
            "rebase" => {
                for pair in rest.windows(2).filter(|pair| matches!(pair[0].value(), "-x" | "--exec")) {
                    self.shell_text(&pair[1..]);
                }
                for text in rest.iter().filter_map(|it| it.value().strip_prefix("--exec=")) {
                    self.shell_text(&[Word::literal(text)]);
                }
            }
            "submodule" if rest.iter().any(|it| it.value() == "foreach") => {
                let text = rest.iter().skip_while(|it| it.value() != "foreach").skip(1);
                let text: Vec<Word> = text.skip_while(|it| it.value().starts_with('-')).cloned().collect();
                self.shell_text(&text);
                return Reach::Whole;
            }
            _ => {}
        }
        if at == 1 && name == subcommand.text {
            return Reach::Name;
        }
        let plain = [&[Word::new("git"), Word::new(name)], rest].concat();
        self.line.patterns.push(super::joined(&plain));
        let n_words = super::arity::arity("git", Some(name)).min(plain.len());
        self.line.always.push(format!("{} *", super::joined(&plain[..n_words])));
        Reach::Words(at + n_words - 1)
    }
}

/// Returns the variable that a word sets; `env` takes any name for one.
fn assigned<'w>(wrapper: &Wrapper, word: &'w Word) -> Option<&'w str> {
    let (name, _) = word.literal.as_ref().unwrap_or(&word.text).split_once('=')?;
    let name = name.trim_start_matches('"').trim_end_matches('+');
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_variable = !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_name);
    (is_variable || wrapper.name == "env" && !name.starts_with('-')).then_some(name)
}

/// Returns true for a name of standard input or of another open file, however its directory is spelled.
fn is_open_file(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    matches!(parts.next(), Some("-" | "stdin")) || parts.next() == Some("fd")
}
