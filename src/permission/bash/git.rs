//! What git runs besides itself: by settings, options and subcommands that name programs.

use super::{options, outputs, program, word::Word, wrapper::Inner};

/// Options before the subcommand whose value is the next word.
const VALUES: [&str; 8] =
    ["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source", "--list-cmds"];

/// Settings that `git -c` may make without running anything; those with a point at the end are whole sections.
const HARMLESS: [&str; 23] = [
    "user.",
    "color.",
    "advice.",
    "log.",
    "i18n.",
    "column.",
    "fetch.prune",
    "push.default",
    "pull.",
    "merge.conflict",
    "merge.conflictstyle",
    "init.defaultbranch",
    "commit.gpgsign",
    "tag.gpgsign",
    "core.quotepath",
    "core.autocrlf",
    "core.abbrev",
    "core.longpaths",
    "core.filemode",
    "core.ignorecase",
    "diff.renames",
    "gc.auto",
    "http.postbuffer",
];

/// Settings whose value is a command.
const COMMANDS: [&str; 18] = [
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.askpass",
    "core.gitproxy",
    "core.fsmonitor",
    "core.alternaterefscommand",
    "sequence.editor",
    "diff.external",
    "interactive.difffilter",
    "uploadpack.packobjectshook",
    "gpg.program",
    "sendemail.smtpserver",
    "sendemail.sendmailcmd",
    "sendemail.tocmd",
    "sendemail.cccmd",
    "sendemail.headercmd",
    "credential.helper",
];

/// The same with a name of the user's choice in the middle: first and last part of the key.
const NAMED_COMMANDS: [(&str, &str); 16] = [
    ("browser.", ".cmd"),
    ("credential.", ".helper"),
    ("diff.", ".command"),
    ("diff.", ".textconv"),
    ("difftool.", ".cmd"),
    ("filter.", ".clean"),
    ("filter.", ".process"),
    ("filter.", ".smudge"),
    ("gpg.", ".program"),
    ("guitool.", ".cmd"),
    ("man.", ".cmd"),
    ("merge.", ".driver"),
    ("mergetool.", ".cmd"),
    ("remote.", ".receivepack"),
    ("remote.", ".uploadpack"),
    ("trailer.", ".command"),
];

/// Settings that have other files read, or run what lies somewhere.
const ELSEWHERE: [&str; 7] = [
    "core.hookspath",
    "include.",
    "includeif.",
    "init.templatedir",
    "url.",
    "protocol.",
    "core.attributesfile",
];

/// What runs besides git and its subcommand.
#[derive(Debug, Default)]
pub struct Besides {
    pub texts: Vec<String>,
    pub is_unknowable: bool,
}

/// Where the subcommand begins; the number of words when there is none.
pub fn subcommand_at(words: &[Word]) -> usize {
    let mut idx = 1;
    while let Some(word) = words.get(idx).filter(|word| word.text.starts_with('-')) {
        idx += 1 + usize::from(VALUES.contains(&word.value()));
    }
    idx.min(words.len())
}

/// The subcommand as a command of its own.
pub fn inner(words: &[Word]) -> Inner {
    let at = subcommand_at(words);
    if words[..at].iter().any(|word| word.literal.is_none()) {
        return Inner::Unknowable;
    }
    match words.get(at..) {
        None | Some([]) => Inner::None,
        Some([name, run, ..]) if name.value() == "bisect" && run.value() == "run" => {
            Inner::Words(vec![(at + 2, words.len())])
        }
        // `git merge-index [-o] [-q] PROGRAM files…`.
        Some([name, ..]) if name.value() == "merge-index" && at == 1 => {
            let rest = words[at + 1..].iter().position(|word| !word.text.starts_with('-'));
            rest.map_or(Inner::None, |first| Inner::Words(vec![(at + 1 + first, words.len())]))
        }
        // `git -C x push` is a `git push`; the caller puts the name in front again.
        Some(_) if at > 1 => Inner::Words(vec![(at, words.len())]),
        Some(_) => Inner::None,
    }
}

/// What options and settings have it run.
pub fn besides(words: &[Word]) -> Besides {
    let mut acc = Besides::default();
    let at = subcommand_at(words);
    let (before, rest) = words.split_at(at);
    let mut idx = 1;
    while let Some(word) = before.get(idx) {
        idx += 1;
        match word.value() {
            "-c" => {
                acc.setting(before.get(idx).and_then(|it| it.literal.as_deref()), rest);
                idx += 1;
            }
            option if option.starts_with("--config-env") || option.starts_with("--exec-path=") => {
                acc.is_unknowable = true;
            }
            option => {
                let next = before.get(idx).map(Word::value).filter(|_| option == "--work-tree");
                // What is checked out there are hooks and settings.
                let tree = option.strip_prefix("--work-tree=").or(next);
                acc.is_unknowable |= tree.is_some_and(|tree| outputs::is_gits(tree, true));
                idx += usize::from(VALUES.contains(&option));
            }
        }
    }
    let Some(name) = rest.first() else { return acc };
    acc.is_unknowable |= name.literal.is_none() || rest.iter().any(|word| word.text.contains("ext::"));
    let subcommand: Vec<Word> = words.first().into_iter().chain(rest).cloned().collect();
    let arguments = options::arguments("git", &subcommand);
    acc.is_unknowable |= program::may_give_options("git", &subcommand, &arguments);
    acc.add(program::options_run(&arguments));
    match name.value() {
        "clone" => {
            for (idx, word) in rest.iter().enumerate() {
                match word.value() {
                    "-c" | "--config" => {
                        acc.setting(rest.get(idx + 1).and_then(|it| it.literal.as_deref()), &[]);
                    }
                    option => {
                        if let Some(setting) = option.strip_prefix("--config=") {
                            acc.setting(Some(setting), &[]);
                        }
                    }
                }
            }
        }
        "config" => acc.configuration(rest),
        "submodule" => {
            if let Some(each) = rest.iter().position(|word| word.value() == "foreach") {
                let command = rest[each + 1..].iter().skip_while(|word| word.text.starts_with('-'));
                acc.joined(command);
            }
        }
        "filter-branch" | "daemon" | "remote-ext" | "hook" => acc.is_unknowable = true,
        _other => {}
    }
    acc
}

impl Besides {
    fn add(&mut self, inner: Inner) {
        match inner {
            Inner::Texts(texts) => self.texts.extend(texts),
            Inner::None | Inner::Script(_) => {}
            Inner::Unknowable | Inner::Words(_) | Inner::Elsewhere(_) | Inner::Stdin => {
                self.is_unknowable = true;
            }
        }
    }

    fn joined<'a>(&mut self, words: impl Iterator<Item = &'a Word>) {
        let texts: Option<Vec<&str>> = words.map(|word| word.literal.as_deref()).collect();
        match texts {
            Some(texts) => self.texts.push(texts.join(" ")),
            None => self.is_unknowable = true,
        }
    }

    /// A setting for this run; `rest` is the subcommand, which may be an alias that it makes.
    fn setting(&mut self, setting: Option<&str>, rest: &[Word]) {
        let Some((key, value)) = setting.map(|it| it.split_once('=').unwrap_or((it, "true"))) else {
            self.is_unknowable = true;
            return;
        };
        let key = key.to_lowercase();
        if let Some(alias) = key.strip_prefix("alias.") {
            let arguments = rest.iter().skip(1).filter(|_| rest[0].value().eq_ignore_ascii_case(alias));
            let arguments: String = arguments.map(|word| format!(" {}", word.text)).collect();
            self.texts.push(match value.strip_prefix('!') {
                Some(text) => format!("{text}{arguments}"),
                None => format!("git {value}{arguments}"),
            });
        } else if is_command(&key) {
            self.command(&key, value);
        } else if !is_harmless(&key) {
            self.is_unknowable = true;
        }
    }

    fn command(&mut self, key: &str, value: &str) {
        if matches!(value, "" | "true" | "false" | "0" | "1") {
            return;
        }
        let is_helper = key.ends_with(".helper");
        self.texts.push(match value.strip_prefix('!') {
            Some(text) => text.to_owned(),
            None if is_helper && !value.starts_with('/') => format!("git credential-{value}"),
            None => value.to_owned(),
        });
    }

    /// `git config`: what is set is run by a later command.
    fn configuration(&mut self, rest: &[Word]) {
        let only_reads = |word: &Word| {
            let text = word.value();
            text.starts_with("--get") || text.starts_with("--unset") || matches!(text, "--list" | "-l")
        };
        let verb = rest.get(1).map(Word::value).unwrap_or_default();
        if rest.iter().any(only_reads) || matches!(verb, "get" | "list" | "unset" | "remove-section") {
            return;
        }
        self.is_unknowable |= matches!(verb, "edit" | "-e" | "--edit");
        self.is_unknowable |=
            rest.iter().any(|word| word.literal.as_deref().is_none_or(|it| it.starts_with('!')));
        // `--file FILE` and its like.
        let is_value =
            |idx: usize| matches!(rest[idx - 1].value(), "-f" | "--file" | "--blob" | "--type" | "--comment");
        let operands = (1..rest.len()).filter(|&idx| !rest[idx].text.starts_with('-') && !is_value(idx));
        let operands: Vec<&Word> = operands.map(|idx| &rest[idx]).collect();
        let key_at = operands.iter().position(|word| word.value().contains('.'));
        let Some(key_at) = key_at else { return };
        let key = operands[key_at].value().to_lowercase();
        let Some(value) = operands.get(key_at + 1) else { return };
        let is_alias = key.starts_with("alias.");
        if is_alias || is_command(&key) {
            let setting = value.literal.as_deref().map(|value| format!("{key}={value}"));
            self.setting(setting.as_deref(), &[]);
            self.is_unknowable |= !is_alias || value.value().starts_with('!');
        } else if ELSEWHERE.iter().any(|it| key == *it || (it.ends_with('.') && key.starts_with(it))) {
            self.is_unknowable = true;
        }
    }
}

fn is_command(key: &str) -> bool {
    COMMANDS.contains(&key)
        || key.starts_with("pager.")
        || NAMED_COMMANDS.iter().any(|(start, end)| key.starts_with(start) && key.ends_with(end))
}

fn is_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|it| key == *it || (it.ends_with('.') && key.starts_with(it)))
}
