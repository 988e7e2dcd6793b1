//! What one command of a line does: the names it runs under, what it runs besides, its files and variables.

use tree_sitter::Node;

use super::{
    Directories, Flow, PathArgument, Source, Walk, arity, files, git,
    input::{Input, InputFrom},
    merge, options,
    outputs::{self, Destination},
    program, push_new,
    tree::spans,
    values::{self, Value, is_number},
    word::{self, Word, base_name},
    wrapper::{self, Inner},
};

/// Commands that only move the shell: a path, but nothing to run.
const MOVES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];

/// Values of variables that a command is read with.
const MAX_COMMAND_READINGS: usize = 8;

/// Programs that run what some option says, and whose arguments are seldom computed.
const RUNS_BY_OPTIONS: [&str; 8] = ["find", "fd", "fdfind", "tar", "gtar", "bsdtar", "rsync", "zip"];

/// Words that begin or end something else than a command.
const RESERVED: [&str; 18] = [
    "!", "{", "}", "(", ")", "[[", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done",
    "case", "function",
];

impl Walk {
    pub(super) fn command<'t>(&mut self, source: &mut Source<'t>, node: Node<'t>, at: &Directories) -> Flow {
        let outer = source.redirects.get(&node.id()).cloned().unwrap_or_default();
        let end = outer.iter().map(Node::end_byte).fold(node.end_byte(), usize::max);
        let written = source.text.get(node.start_byte()..end).unwrap_or_default().trim();
        let Some(name) = node.child_by_field_name("name") else {
            self.unknowable(written);
            return Flow::stay(at);
        };
        let mut cursor = node.walk();
        let mut nodes: Vec<Node<'t>> = node.children_by_field_name("argument", &mut cursor).collect();
        let mut redirects: Vec<Node<'t>> = node.children_by_field_name("redirect", &mut cursor).collect();
        redirects.extend(outer);
        for redirect in redirects.iter().filter(|it| it.kind() == "file_redirect") {
            let destinations = redirect.children_by_field_name("destination", &mut cursor);
            let destinations: Vec<Node<'t>> = destinations.collect();
            let behind = destinations.windows(2).filter(|pair| pair[0].end_byte() != pair[1].start_byte());
            nodes.extend(behind.map(|pair| pair[1]));
        }
        for redirect in redirects.iter().filter(|it| it.kind() == "heredoc_redirect") {
            // Arguments behind a here-document are the command's; further lines are the document's.
            let line_end = source.text[redirect.start_byte()..].find('\n').unwrap_or(source.text.len());
            let line_end = redirect.start_byte() + line_end;
            let arguments = redirect.children_by_field_name("argument", &mut cursor);
            nodes.extend(arguments.filter(|argument| argument.end_byte() <= line_end));
        }
        // `0<file`: the grammar takes the descriptor for an argument.
        let is_descriptor = |node: &Node<'_>| {
            let behind = source.text.get(node.end_byte()..).unwrap_or_default();
            behind.starts_with(['<', '>']) && source.of(*node).chars().all(|c| c.is_ascii_digit())
        };
        nodes.retain(|node| !is_descriptor(node));
        nodes.sort_by_key(Node::start_byte);
        nodes.insert(0, name);
        let mut spans = spans(nodes);
        if let Some(assignment) = split_assignment(node, name) {
            // `x=$a/$b/c`: the grammar ends the word in the middle.
            let (_, end) = spans.remove(0);
            self.assignment_of(source.text.get(assignment.start_byte()..end).unwrap_or_default());
            if spans.is_empty() {
                return Flow::stay(at);
            }
        }
        let texts = spans.iter().filter_map(|(start, end)| source.text.get(*start..*end));
        self.acc.is_unknowable |= texts.into_iter().any(word::may_hide_options);
        // Braces become words before anything is read as an option.
        let braced = spans.iter().enumerate().flat_map(|(nth, (start, end))| {
            let text = source.text.get(*start..*end).unwrap_or_default();
            // What is left empty of braces is no word.
            let texts = word::braces(text).into_iter().filter(|it| !it.is_empty());
            texts.map(move |text| (nth, Word::new(&text)))
        });
        let (places, words): (Vec<usize>, Vec<Word>) = braced.unzip();
        if words.is_empty() {
            return Flow::stay(at);
        }
        let own_name = base_name(words[0].value()).to_owned();
        if MOVES.contains(&own_name.as_str())
            && words[0].literal.is_some()
            && !self.defined.contains(&own_name)
        {
            let is_redirected = end != node.end_byte() || !redirects.is_empty();
            if is_redirected {
                push_new(&mut self.acc.patterns, written.to_owned());
                push_new(&mut self.acc.always, format!("{own_name} *"));
            }
            self.moves |= !is_redirected;
            return self.moved(&words, at);
        }
        // The prefix as written, up to the word with this index.
        let until = |idx: usize| {
            let place = places.get(idx).and_then(|place| spans.get(*place));
            let end = place.map_or(node.end_byte(), |(_, end)| *end);
            source.text.get(node.start_byte()..end).unwrap_or_default().trim()
        };
        let redirected = redirects.iter().filter_map(|redirect| self.input_of(source, *redirect)).collect();
        let input = Input { redirected, piped: self.piped.clone() };
        let prefixes = self.words(&words, Some(written), at, &input);
        for prefix in prefixes {
            self.always(until(prefix));
        }
        Flow::stay(at)
    }

    /// Notes a command of these words; `written` is its text when it stands in the line by itself.
    ///
    /// Returns the index of the last word of each prefix that `always` may take.
    fn words(
        &mut self,
        words: &[Word],
        written: Option<&str>,
        at: &Directories,
        input: &Input,
    ) -> Vec<usize> {
        let joined = |words: &[Word]| {
            let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            texts.join(" ")
        };
        let Some(first) = words.first() else { return Vec::new() };
        let written = written.map_or_else(|| joined(words), str::to_owned);
        push_new(&mut self.acc.patterns, written.clone());
        let Some(full_name) = first.literal.as_deref().filter(|name| !name.is_empty()) else {
            self.acc.is_unknowable = true;
            self.resolved(words, at, input);
            return Vec::new();
        };
        // `time { …`: the grammar took a construct for words.
        if RESERVED.contains(&first.text.as_str()) {
            self.acc.is_unknowable = true;
            return Vec::new();
        }
        // `time x=1`: the grammar took an assignment for a command.
        if wrapper::is_assignment(full_name) {
            self.assignments(&words[..1]);
        }
        // Behind another command the definition was not collected beforehand.
        self.acc.is_unknowable |=
            self.n_nested > 0 && full_name == "alias" && words.iter().any(|it| it.text.contains('='));
        let plain_name = wrapper::unprefixed(base_name(full_name));
        let name = if has_own_place(full_name, self.moves) { full_name } else { plain_name };
        self.acc.is_unknowable |= self.defined.contains(name) || self.defined.contains(plain_name);
        let named = |words: &[Word]| {
            let rest: Vec<&str> = words[1..].iter().map(Word::plain).collect();
            let name = if name.contains(char::is_whitespace) { first.text.as_str() } else { name };
            std::iter::once(name).chain(rest).collect::<Vec<_>>().join(" ")
        };
        let normal = named(words);
        let is_normal = written
            .strip_prefix(&normal)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if !is_normal {
            push_new(&mut self.acc.patterns, normal.clone());
        }
        match full_name.contains('/') {
            true => {
                if !has_own_place(full_name, false) && !is_installed(full_name) {
                    self.path(&first.text, at);
                }
                self.run_file(&first.text, at);
            }
            false => self.run_program(full_name),
        }
        self.effects(plain_name, words, at, input);
        if plain_name == "git" {
            let besides = git::besides(words);
            self.acc.is_unknowable |= besides.is_unknowable;
            for text in besides.texts {
                self.text(&text, at);
            }
        }

        self.split(plain_name, words, at, input);
        if self.n_nested > wrapper::MAX_NESTED {
            self.acc.is_unknowable = true;
            return Vec::new();
        }
        self.n_nested += 1;
        // Prefixes by the index of their last word; the inner command's decide.
        let mut prefixes = Vec::new();
        match wrapper::inner(plain_name, words) {
            inner @ (Inner::None | Inner::Script(_)) => {
                if let Inner::Script(script) = inner {
                    self.path(&words[script].text, at);
                    self.run_file(&words[script].text, at);
                }
                if wrapper::is_wrapper(plain_name) && arity::arity(plain_name, None) == 1 {
                    self.exactly(&written, &normal, is_normal);
                } else {
                    let arity = arity::arity(plain_name, words.get(1).map(Word::value));
                    prefixes.push(arity.min(words.len()) - 1);
                }
            }
            Inner::Unknowable => {
                self.acc.is_unknowable = true;
                self.resolved(words, at, input);
            }
            Inner::Words(ranges) if plain_name == "git" => {
                let before = &words[..ranges.first().map_or(0, |range| range.0)];
                let mut at = at.clone();
                for (idx, _) in before.iter().enumerate().filter(|(_, word)| word.value() == "-C") {
                    at =
                        words.get(idx + 1).map_or(at.clone(), |directory| self.entered(&directory.text, &at));
                }
                for (from, to) in ranges {
                    let is_git = from == git::subcommand_at(words);
                    let mut inner = if is_git { vec![Word::new("git")] } else { Vec::new() };
                    inner.extend_from_slice(&words[from..to]);
                    let skipped = usize::from(is_git);
                    for prefix in self.words(&inner, None, &at, &Input::default()) {
                        prefixes.push((prefix + from).saturating_sub(skipped));
                    }
                }
            }
            Inner::Words(ranges) => {
                let moved =
                    wrapper::directory(plain_name, words).map(|directory| self.entered(directory, at));
                let at = moved.as_ref().unwrap_or(at);
                let found = match plain_name {
                    "find" | "fd" | "fdfind" => files::found(words),
                    "xargs" if input.known().is_none() => input.found(),
                    _other => self.found.clone(),
                };
                let found = std::mem::replace(&mut self.found, found);
                for (from, to) in ranges {
                    let inner = self.words(&words[from..to], None, at, input);
                    prefixes.extend(inner.into_iter().map(|prefix| from + prefix));
                    if plain_name == "xargs" {
                        self.with_input(words, &words[from..to], at, input);
                    }
                }
                self.found = found;
                if prefixes.is_empty() {
                    self.exactly(&written, &normal, is_normal);
                }
            }
            Inner::Texts(texts) => {
                for text in texts {
                    self.parameters(&text, words);
                    self.text(&text, at);
                }
                self.exactly(&written, &normal, is_normal);
            }
            Inner::Elsewhere(text) => {
                // Its paths are those of the other machine.
                let paths = self.acc.paths.clone();
                self.text(&text, at);
                self.acc.paths = paths;
                self.exactly(&written, &normal, is_normal);
            }
            Inner::Stdin => {
                self.acc.is_unknowable |= input.redirected.is_empty();
                for from in &input.redirected {
                    match from {
                        InputFrom::Text(text) => self.text(text, at),
                        InputFrom::File(_) | InputFrom::Computed => self.acc.is_unknowable = true,
                    }
                }
                self.exactly(&written, &normal, is_normal);
            }
        }
        self.n_nested -= 1;
        for &prefix in &prefixes {
            let prefix = &words[..=prefix];
            if !is_normal {
                self.always(&named(prefix));
            }
            self.always(&joined(prefix));
        }
        prefixes
    }

    /// Reads a command with what its variables are known to hold, for the files that it is likely to use. What it
    /// runs stays unknowable: that is asked for, not judged.
    fn resolved(&mut self, words: &[Word], at: &Directories, input: &Input) {
        let readings: Vec<Vec<String>> = words.iter().map(|word| self.values.known(&word.text)).collect();
        let n_readings = readings.iter().map(Vec::len).max().unwrap_or_default().min(MAX_COMMAND_READINGS);
        let mut commands: Vec<Vec<Word>> = (0..n_readings)
            .map(|reading| {
                let of = |readings: &Vec<String>| readings.get(reading).or(readings.first()).cloned();
                readings.iter().filter_map(of).map(|text| Word::new(&text)).collect()
            })
            .collect();
        if n_readings > 1 {
            // The readings of one word may as well be words that stand in it.
            commands.push(readings.iter().flatten().take(64).map(|text| Word::new(text)).collect());
        }
        let patterns = self.acc.patterns.clone();
        for resolved in commands {
            let is_known = resolved.first().is_some_and(|name| name.literal.is_some());
            if is_known && resolved != words && self.n_nested < wrapper::MAX_NESTED {
                self.n_nested += 1;
                self.words(&resolved, None, at, input);
                self.n_nested -= 1;
            }
        }
        self.acc.patterns = patterns;
    }

    /// Reads a command with the words that its unquoted expansions become: options that run something may be among
    /// them.
    fn split(&mut self, name: &str, words: &[Word], at: &Directories, input: &Input) {
        let is_split = |word: &Word| {
            values::may_split(&word.text) || word.text.contains("$@") || word.text.contains("[@]}")
        };
        let readings: Vec<Vec<Word>> = words
            .iter()
            .map(|word| match word.literal.is_some() {
                true => vec![word.clone()],
                false => self.values.known(&word.text).iter().map(|it| Word::new(it)).collect(),
            })
            .collect();
        let are_given = |word: &Word| word.literal.is_none();
        let computed = words.iter().zip(&readings).filter(|(word, _)| are_given(word));
        let gives_options =
            computed.clone().any(|(_, known)| known.iter().any(|it| it.value().starts_with('-')));
        let is_likely = RUNS_BY_OPTIONS.contains(&name) && words.iter().any(is_split);
        // `x=$(cat f); sort $x`.
        let runs_by_options =
            options::program_of(name, words).is_some_and(|(program, _)| program.runs_by_options());
        let mut given = words.iter().zip(&readings).filter(|(word, _)| are_given(word));
        self.acc.is_unknowable |= runs_by_options
            && given
                .any(|(word, known)| known.iter().any(|it| it != word && values::may_be_option(&it.text)));
        self.acc.is_unknowable |=
            program::exposed(name, words).iter().any(|it| self.values.may_be_option_by_name(it));
        if !(gives_options || is_likely) || self.n_nested > wrapper::MAX_NESTED {
            return;
        }
        // The readings of a word are words that stand there together, or one at a time.
        let n_readings = readings.iter().map(Vec::len).max().unwrap_or_default().min(MAX_COMMAND_READINGS);
        let one_of = |nth: usize| {
            readings.iter().filter_map(move |known| known.get(nth).or(known.first())).cloned().collect()
        };
        let mut commands: Vec<Vec<Word>> = vec![readings.iter().flatten().cloned().collect()];
        commands.extend((0..n_readings).map(one_of));
        for split in commands {
            self.acc.is_unknowable |= is_likely && split.iter().any(is_split);
            if split != words && (name == "git" || wrapper::inner(name, &split) != Inner::None) {
                self.n_nested += 1;
                self.words(&split, None, at, input);
                self.n_nested -= 1;
            }
        }
    }

    /// What `xargs` runs once it has read what the line gives it.
    fn with_input(&mut self, words: &[Word], inner: &[Word], at: &Directories, input: &Input) {
        let own = words.get(..words.len().saturating_sub(inner.len())).unwrap_or(words);
        let option = own.iter().position(|word| word.text.starts_with("-I") || word.text.starts_with("-i"));
        let replaced = option.map(|idx| match words[idx].value().get(2..).filter(|rest| !rest.is_empty()) {
            Some(attached) => attached.to_owned(),
            None => words.get(idx + 1).map_or("{}", Word::value).to_owned(),
        });
        let Some(text) = input.known() else {
            let name = inner.first().map(|word| base_name(word.value())).unwrap_or_default();
            let fed = Word::new(replaced.as_deref().unwrap_or("*"));
            let behind: Vec<Word> =
                inner.iter().cloned().chain(Some(fed.clone()).filter(|_| replaced.is_none())).collect();
            let given = |word: &Word| match replaced.as_deref().filter(|it| !it.is_empty()) {
                Some(replaced) => Word::new(&word.text.replace(replaced, "{}")),
                None => word.clone(),
            };
            let last = Some(Word::new("{}")).filter(|_| replaced.is_none());
            let filled: Vec<Word> = inner.iter().map(given).chain(last).collect();
            outputs::destinations(name, &filled).iter().for_each(|it| self.output(it, at));
            self.acc.is_unknowable |= !input.begins_with_names()
                && program::exposed(name, &behind).iter().any(|it| it.starts_with(&fed.text));
            let name = inner.first().map(|word| base_name(word.value())).unwrap_or_default();
            if let (Inner::Script(script), Some(replaced)) = (wrapper::inner(name, inner), replaced)
                && inner[script].text.contains(&replaced)
            {
                self.run_file("{}", at);
            }
            return;
        };
        let given: Vec<&str> =
            text.split([' ', '\t', '\n', '\0']).filter(|it| !it.is_empty()).take(64).collect();
        match replaced.filter(|it| !it.is_empty()) {
            Some(replaced) => {
                for given in given {
                    let inner: Vec<Word> =
                        inner.iter().map(|word| Word::new(&word.text.replace(&replaced, given))).collect();
                    self.words(&inner, None, at, &Input::default());
                }
            }
            None => {
                let mut inner = inner.to_vec();
                inner.extend(given.into_iter().map(Word::new));
                self.words(&inner, None, at, &Input::default());
            }
        }
    }

    /// What `bash -c text name parameters…` gives to the text.
    fn parameters(&mut self, text: &str, words: &[Word]) {
        let behind = words.iter().position(|word| word.literal.as_deref() == Some(text));
        let parameters = behind.and_then(|idx| words.get(idx + 2..)).unwrap_or_default();
        self.positional(parameters);
        if wrapper::is_fed_by_files(words) {
            ["@", "1", "2"].iter().for_each(|name| self.values.add(name, Value::Outside));
        }
    }

    pub(super) fn positional(&mut self, words: &[Word]) {
        for (idx, word) in words.iter().enumerate() {
            for name in ["@".to_owned(), (idx + 1).to_string()] {
                self.values.add(&name, value_of(&word.text));
            }
        }
    }

    /// Where a wrapper's command runs that is given a directory.
    fn entered(&mut self, directory: &str, at: &Directories) -> Directories {
        self.path(directory, at);
        match path_of(directory) {
            Some(directory) => at.iter().map(|base| below(base, &directory)).collect(),
            None => at.clone(),
        }
    }

    /// A file that is written. Where git looks for programs, that decides what runs later.
    pub(super) fn output(&mut self, destination: &Destination, at: &Directories) {
        let sources = destination.named_by.as_deref().map(|it| self.values.known(it)).unwrap_or_default();
        let sources = sources.iter().flat_map(|it| self.filled(it));
        let names: Vec<String> = sources.map(|it| outputs::name_of(&it)).collect();
        let known = self.values.known(&destination.text);
        let known: Vec<String> = known.iter().flat_map(|it| self.filled(it)).collect();
        for known in known {
            let text = path_of(&known);
            if text.is_none() && !destination.is_removed {
                self.acc.is_unknowable |= outputs::is_likely_gits(&known, destination.is_tree);
            }
            let Some(text) = text.or_else(|| self.computed(&known)) else { continue };
            for text in word::braces(&text) {
                let named = names.iter().map(|name| below(&text, name));
                let texts: Vec<String> = if names.is_empty() { vec![text.clone()] } else { named.collect() };
                for (base, text) in at.iter().flat_map(|base| texts.iter().map(move |text| (base, text))) {
                    let text = below(base, text);
                    let destination = Destination { text, named_by: None, ..destination.clone() };
                    self.acc.is_unknowable |= (!destination.is_removed || destination.is_link)
                        && outputs::is_gits(&destination.text, destination.is_tree);
                    if !self.acc.writes.contains(&destination) {
                        self.acc.writes.push(destination);
                    }
                }
            }
        }
    }

    /// A text with what `find` or `xargs` puts in its place.
    fn filled(&self, text: &str) -> Vec<String> {
        match text.contains("{}") && !self.found.is_empty() {
            true => self.found.iter().map(|found| text.replace("{}", found)).collect(),
            false => vec![text.to_owned()],
        }
    }

    /// As a glob: a path that is computed from where its directory is known, or that comes from outside of the line.
    fn computed(&self, written: &str) -> Option<String> {
        if let Some(directory) = known_directory(written) {
            return Some(format!("{directory}{}", outputs::name_of(written)));
        }
        let is_given = self.values.may_be_option_by_name(written) || values::repeats_text(written);
        is_given.then(|| format!("/**/{}", outputs::name_of(written)))
    }

    /// What the links below a directory lead to.
    pub(super) fn links_below(&mut self, written: &str, at: &Directories) {
        for text in self.values.known(written).iter().filter_map(|it| path_of(it)) {
            at.iter().for_each(|base| push_new(&mut self.acc.globs, format!("{}/**", below(base, &text))));
        }
    }

    fn moved(&mut self, words: &[Word], at: &Directories) -> Flow {
        let mut target = None;
        let mut n_targets = 0;
        for argument in words[1..].iter().filter(|it| !it.text.starts_with('(')) {
            if argument.text.starts_with('-') && argument.text != "-" {
                continue;
            }
            n_targets += 1;
            if argument.text != "-" {
                self.path(&argument.text, at);
            }
            let places = self.values.known("$CDPATH");
            for place in
                places.iter().filter(|it| *it != "$CDPATH" && !argument.text.starts_with(['/', '.', '~']))
            {
                place.split(':').for_each(|place| self.path(&format!("{place}/{}", argument.text), at));
            }
            let known = self.values.known(&argument.text);
            target = known.first().and_then(|it| path_of(it)).filter(|target| target != "-");
            if target.is_none() && known.iter().any(|it| it.contains("git-dir") || it.contains("GIT_DIR")) {
                target = Some(".git".to_owned());
            }
        }
        let target = match (n_targets, words[0].value()) {
            (0, "cd" | "chdir") => Some("~".to_owned()),
            _ => target,
        };
        let success: Directories = match target {
            Some(target) => at.iter().map(|base| below(base, &target)).collect(),
            None => at.clone(),
        };
        let mut any = at.clone();
        merge(&mut any, success.clone());
        Flow { success, any }
    }

    pub(super) fn path(&mut self, written: &str, at: &Directories) {
        for written in self.values.known(written) {
            for written in word::braces(&written).iter().flat_map(|it| word::braces(it)) {
                self.known_path(&written, at);
            }
        }
    }

    fn known_path(&mut self, written: &str, at: &Directories) {
        let Some(text) = path_of(written).or_else(|| known_directory(written)) else { return };
        if wrapper::is_stdin(&text) {
            return;
        }
        for base in at {
            let glob = below(base, &text);
            if glob.contains(['?', '*', '[']) {
                push_new(&mut self.acc.globs, glob);
            }
        }
        let text = match text.find(['?', '*', '[']) {
            // Behind a `..` the rest matters more than what the glob may match.
            Some(glob) if !text[glob..].contains("..") => &text[..glob],
            Some(_) | None => &text,
        };
        let mut texts = vec![text];
        if text.contains('{') {
            // Alternatives of a brace expansion that begin a path of their own.
            texts.extend(
                text.split(['{', ',', '}']).skip(1).filter(|piece| piece.starts_with(['/', '~', '.'])),
            );
        }
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            for base in at {
                let path = PathArgument { text: below(base, text) };
                if !self.acc.paths.contains(&path) {
                    self.acc.paths.push(path);
                }
            }
        }
    }

    /// Offers a prefix with any arguments.
    fn always(&mut self, prefix: &str) {
        // A star in the prefix would allow more than was seen.
        if !prefix.contains(['*', '?', '\n']) {
            push_new(&mut self.acc.always, format!("{prefix} *"));
        }
    }

    /// Offers a text and nothing else: with any arguments it could run anything.
    fn exactly(&mut self, written: &str, normal: &str, is_normal: bool) {
        for text in [written, normal].into_iter().take(if is_normal { 1 } else { 2 }) {
            if !text.contains(['*', '?']) {
                push_new(&mut self.acc.always, text.to_owned());
            }
        }
    }
}

/// The assignment of which a command's name is the rest.
fn split_assignment<'t>(command: Node<'t>, name: Node<'t>) -> Option<Node<'t>> {
    let mut cursor = command.walk();
    let mut before =
        command.named_children(&mut cursor).take_while(|child| child.end_byte() <= name.start_byte());
    before.find(|child| child.kind() == "variable_assignment" && child.end_byte() == name.start_byte())
}

/// What a variable holds that this is assigned to.
pub(super) fn value_of(written: &str) -> Value {
    if is_number(written) { Value::Number } else { Value::Text(written.to_owned()) }
}

/// Whether a program lies where programs are installed: a name written out, no file of somebody's.
fn is_installed(name: &str) -> bool {
    let directory = name.rsplit('/').nth(1).unwrap_or_default();
    matches!(directory, "bin" | "sbin" | "libexec" | "lib" | "lib64")
}

/// Whether a name with a path is a program of its own: below the working directory, where only the project can be.
fn has_own_place(name: &str, has_moved: bool) -> bool {
    !has_moved
        && name.contains('/')
        && !name.starts_with(['/', '~'])
        && !name.split('/').any(|part| part == "..")
}

/// A written path without quotes; `None` when it has expansions other than the home and working directories.
pub(super) fn path_of(written: &str) -> Option<String> {
    let written = written.trim_start_matches("\"\"");
    let unquoted = written.strip_prefix('"').unwrap_or(written);
    let places = [
        ("$HOME", "~"),
        ("${HOME}", "~"),
        ("$PWD", "."),
        ("${PWD}", "."),
        ("$(pwd)", "."),
        ("`pwd`", "."),
        ("$OLDPWD", "~-"),
        ("${OLDPWD}", "~-"),
    ];
    for (variable, place) in places {
        let Some(rest) = unquoted.strip_prefix(variable) else { continue };
        if rest.is_empty() || rest.starts_with(['/', '"']) {
            let rest = match written.starts_with('"') {
                true => word::path_text(&rest.replacen('"', "", 1))?,
                false => word::path_text(rest)?,
            };
            return Some(format!("{place}{rest}"));
        }
    }
    let text = word::path_text(written)?;
    // A quoted tilde is a file of that name.
    Some(if text.starts_with('~') && !written.starts_with('~') { format!("./{text}") } else { text })
}

/// The directory that a path begins with which is computed further on; `None` when that says nothing.
fn known_directory(written: &str) -> Option<String> {
    let computed = written.find(['$', '`'])?;
    let (directory, _) = written[..computed].trim_start_matches('"').rsplit_once('/')?;
    let directory = word::path_text(directory)?;
    Some(format!("{directory}/"))
}

pub(super) fn below(base: &str, path: &str) -> String {
    match base.is_empty() || path.starts_with(['/', '~']) {
        true => path.to_owned(),
        false => format!("{}/{path}", base.trim_end_matches('/')),
    }
}
