//! What a command does to files and variables.

use super::{
    Directories, Walk,
    command::{below, value_of},
    files,
    input::{Input, InputFrom},
    outputs::{self, Destination},
    program, scripts,
    values::{Value, is_number},
    variables,
    word::Word,
    wrapper::{self, Inner},
};

/// Links of a line that lead on to another one.
const MAX_LINKS_IN_A_ROW: usize = 4;
/// Places that the links of a line lead to, beyond which nobody can say where it writes.
const MAX_LED: usize = 256;
/// Commands that take variables among their arguments.
const TAKES_VARIABLES: [&str; 6] = ["env", "sudo", "doas", "cross-env", "make", "configure"];

impl Walk {
    /// What a command does to files and variables.
    pub(super) fn effects(&mut self, name: &str, words: &[Word], at: &Directories, input: &Input) {
        for path in files::named(name, words) {
            self.path(&path, at);
        }
        let is_compiler = scripts::is_compiler(name);
        if is_compiler {
            self.compiles(name, words, at);
        }
        for destination in outputs::destinations(name, words) {
            self.output(&destination, at);
            if !is_compiler && destination.named_by.is_none() && !destination.is_removed {
                self.output_of_line(&destination, at);
            }
        }
        for (link, target) in outputs::links(name, words) {
            let places = at.iter().map(|base| (below(base, &link), below(base, &target)));
            self.links.extend(places);
        }
        // A patch names its files itself.
        let is_deciding =
            |text: &str| [".git/", ".opencode/", "opencode.json"].iter().any(|it| text.contains(it));
        self.acc.is_unknowable |= name == "patch" && input.known().is_some_and(is_deciding);
        if files::follows_links(name, words) {
            let mut below = files::named(name, words);
            below.extend(Some(".".to_owned()).filter(|_| below.is_empty()));
            below.iter().for_each(|path| self.links_below(path, at));
        }
        let (named, anywhere) = scripts::code(name, words);
        named.iter().for_each(|script| self.run_file(script, at));
        anywhere.iter().for_each(|name| self.run_file_anywhere(name));
        self.obeys(name, input, at);
        self.variables(name, words, input);
    }

    /// What is written through a link that the line makes is written where that leads.
    pub(super) fn follow_links(&mut self) {
        let links = self.links.iter().map(|(link, target)| (scripts::normal(link), target));
        let links: Vec<_> = links.collect();
        let mut writes: Vec<Destination> = self.acc.writes.iter().filter(|it| !it.is_link).cloned().collect();
        let mut n_led = 0;
        for _ in 0..MAX_LINKS_IN_A_ROW {
            let mut led_on = Vec::new();
            for write in &writes {
                let text = scripts::normal(&write.text);
                for (link, target) in &links {
                    let Some(rest) = text.strip_prefix(link.as_str()) else { continue };
                    let led = Destination { text: format!("{target}{rest}"), ..write.clone() };
                    if !(rest.is_empty() || rest.starts_with('/')) || self.acc.writes.contains(&led) {
                        continue;
                    }
                    n_led += 1;
                    if n_led > MAX_LED {
                        self.acc.is_unknowable = true;
                        return;
                    }
                    self.acc.is_unknowable |= !led.is_removed && outputs::is_gits(&led.text, led.is_tree);
                    self.acc.writes.push(led.clone());
                    led_on.push(led);
                }
            }
            writes = led_on;
        }
    }

    /// Programs that run commands which they find in their input.
    fn obeys(&mut self, name: &str, input: &Input, at: &Directories) {
        if !program::OBEDIENT.contains(&name) {
            return;
        }
        for from in &input.redirected {
            match from {
                InputFrom::Text(text) => self.acc.is_unknowable |= program::is_obeyed(name, text),
                InputFrom::File(file) => self.run_file(file, at),
                InputFrom::Computed => self.acc.is_unknowable = true,
            }
        }
        if let Some(piped) = &input.piped {
            let text = piped.output.as_ref().unwrap_or(&piped.written);
            self.acc.is_unknowable |= program::is_obeyed(name, text);
        }
    }

    /// What a command does to variables.
    fn variables(&mut self, name: &str, words: &[Word], input: &Input) {
        let arguments = &words[1..];
        // A name that is computed may have a subscript, which is evaluated.
        let is_computed = |word: &&Word| word.literal.is_none() && word.text.contains('$');
        match name {
            "printf" => {
                // `-vNAME` as well.
                if let Some(variable) =
                    arguments.first().filter(|it| it.text.starts_with("-v") && it.text != "-v")
                {
                    self.names_variable(&variable.text[2..]);
                }
                for (idx, _) in arguments.iter().enumerate().filter(|(_, option)| option.value() == "-v") {
                    let Some(variable) = arguments.get(idx + 1) else { continue };
                    let name = variable.value();
                    self.acc.is_unknowable |= name.contains("$(") || name.contains('`');
                    if idx == 0 {
                        self.names_variable(&variable.text);
                    }
                    self.values.evaluate_names(&variable.text);
                    let format = arguments.get(idx + 2).map(Word::value).unwrap_or_default();
                    let is_number = format
                        .strip_prefix('%')
                        .and_then(|it| it.strip_suffix(['d', 'i', 'u']))
                        .is_some_and(|it| it.chars().all(|c| c.is_ascii_digit()));
                    self.values.add(name, if is_number { Value::Number } else { Value::Outside });
                    let values = arguments.get(idx + 2..).unwrap_or_default();
                    values.iter().for_each(|value| self.values.add(name, value_of(&value.text)));
                }
            }
            "getopts" => {
                let values = arguments.get(2..).unwrap_or_default();
                values.iter().for_each(|value| self.values.add("OPTARG", value_of(&value.text)));
                let variable = arguments.get(1).map(Word::value).unwrap_or_default();
                arguments.get(1).into_iter().for_each(|word| self.names_variable(&word.text));
                [variable, "OPTARG"].iter().for_each(|name| self.values.add(name, Value::Outside));
            }
            "read" | "mapfile" | "readarray" => {
                let values = if name == "read" { "dinNptu" } else { "dnOsuCc" };
                let named = variables::operands(arguments, values);
                named.into_iter().for_each(|word| self.names_variable(&word.text));
                let is_name = |word: &&Word| {
                    word.literal.is_none() || (word.value().contains('[') && !word.value().contains(' '))
                };
                arguments.iter().filter(is_name).for_each(|word| self.values.evaluate_names(&word.text));
                let values: Vec<Value> = match input.known() {
                    Some(text) if is_number(text.trim()) => vec![Value::Number],
                    Some(text) => {
                        let words = text.split_whitespace().take(16);
                        let words = words.map(|it| Value::Text(format!("'{}'", it.replace('\'', ""))));
                        words.chain([Value::Outside]).collect()
                    }
                    None => vec![Value::Outside],
                };
                let names =
                    arguments.iter().map(Word::value).filter(|it| !it.is_empty() && !it.starts_with('-'));
                let may_be_any = input.known().is_none() && !input.begins_with_names();
                for name in names.chain(["REPLY", "MAPFILE", "OPTARG"]) {
                    if may_be_any {
                        self.values.add_read(name);
                    } else if input.known().is_none() {
                        input.found().into_iter().for_each(|it| self.values.add(name, Value::Text(it)));
                    }
                    values.iter().for_each(|value| self.values.add(name, value.clone()));
                }
            }
            "set" => {
                let is_option = |word: &&Word| {
                    word.text.len() > 1 && word.text.starts_with(['-', '+']) && word.text != "--"
                };
                let parameters = match arguments.iter().position(|word| word.text == "--") {
                    Some(at) => &arguments[at + 1..],
                    None if arguments.first().filter(is_option).is_some() => &[],
                    None => arguments,
                };
                self.positional(parameters);
            }
            "let" => arguments.iter().for_each(|word| self.values.evaluate(&word.text)),
            "test" | "[" => {
                let tested = arguments.iter().zip(arguments.iter().skip(1));
                for (_, variable) in tested.filter(|(option, _)| option.text == "-v") {
                    self.values.evaluate_names(&variable.text);
                }
            }
            "unset" | "declare" | "typeset" | "local" | "readonly" | "export" | "wait" => {
                arguments.iter().filter(is_computed).for_each(|word| self.values.evaluate_names(&word.text));
                self.assignments(arguments);
            }
            _other if TAKES_VARIABLES.contains(&name) => {
                let until = match wrapper::inner(name, words) {
                    Inner::Words(ranges) => ranges.first().map_or(words.len(), |it| it.0),
                    _other => words.len(),
                };
                self.assignments(words.get(1..until).unwrap_or_default());
            }
            _other => {}
        }
    }
}
