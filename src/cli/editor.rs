//! `windlass editor`: prints the entry with which an editor starts this program, or puts it into the editor's file.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use windlass_base::program;
use windlass_core::config::Environment;
use windlass_engine::Finding;

use super::output;

mod file;
mod merge;

use file::Change;

#[derive(Debug, Args)]
pub struct EditorArgs {
    /// Without it, the editors are listed.
    editor: Option<Editor>,
    /// Write the entry into the editor's file and keep a copy of the file.
    #[arg(long)]
    write: bool,
    /// The editor's file, if it is not in the usual place.
    #[arg(long, value_name = "FILE", requires = "write")]
    file: Option<PathBuf>,
}

/// Editors that speak the Agent Client Protocol, some of them by an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Editor {
    Zed,
    Jetbrains,
    /// With CodeCompanion.
    Neovim,
    /// With agent-shell.
    Emacs,
    /// With the extension ACP Client.
    Vscode,
}

const EDITORS: [Editor; 5] = [Editor::Zed, Editor::Jetbrains, Editor::Neovim, Editor::Emacs, Editor::Vscode];

pub fn run(environment: &Environment, args: &EditorArgs) -> ExitCode {
    let program = match env::current_exe().map(PathBuf::into_os_string).map(std::ffi::OsString::into_string) {
        Ok(Ok(program)) => program,
        Ok(Err(program)) => {
            let program = program.display();
            return output::fail(&format!(
                "{program} is not valid text; move windlass to another directory."
            ));
        }
        Err(error) => return output::fail(&format!("The place of windlass cannot be found: {error}.")),
    };
    let Some(editor) = args.editor else {
        if args.write {
            return output::misuse("Name the editor: `windlass editor zed --write`.");
        }
        return output::print_answer(&listed(environment));
    };
    let path = args.file.clone().unwrap_or_else(|| editor.file(environment));
    if !args.write {
        output::note(&editor.hint(&path));
        return output::print_answer(editor.entry(&program).trim_end());
    }
    match write(editor, &path, &program) {
        Ok(Change::Made { copy: Some(copy) }) => output::print_answer(&format!(
            "{} now has the entry; the previous file is kept as {}.",
            path.display(),
            copy.display()
        )),
        Ok(Change::Made { copy: None }) => {
            output::print_answer(&format!("{} was created with the entry.", path.display()))
        }
        Ok(Change::None) => output::print_answer(&format!("{} already has the entry.", path.display())),
        Err(reason) => output::fail(&format!("{} was not changed: {reason}.", path.display())),
    }
}

/// Lists the editors, each with its file.
fn listed(environment: &Environment) -> String {
    let row = |editor: &Editor| {
        let word = editor.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        format!("{word:<10} {}", editor.file(environment).display())
    };
    EDITORS.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// Puts an editor's entry into its file.
fn write(editor: Editor, path: &Path, program: &str) -> Result<Change, String> {
    if editor == Editor::Neovim && !path.exists() && path.with_file_name("init.vim").exists() {
        return Err(
            "Neovim takes no init.lua beside init.vim; put the entry into a Lua file that init.vim loads"
                .to_owned(),
        );
    }
    file::change(path, |text| match editor.keys() {
        Some(keys) => merge::json(text, &keys, program),
        None => merge::block(text, editor.comment(), &editor.entry(program), editor.plugin()),
    })
}

impl Editor {
    fn name(self) -> &'static str {
        match self {
            Self::Zed => "Zed",
            Self::Jetbrains => "JetBrains",
            Self::Neovim => "Neovim",
            Self::Emacs => "Emacs",
            Self::Vscode => "VS Code",
        }
    }

    /// Returns the file that holds the entry, unless the user keeps it elsewhere.
    fn file(self, environment: &Environment) -> PathBuf {
        let home = &environment.home;
        let config = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = config.unwrap_or_else(|| home.join(".config"));
        match self {
            Self::Zed => config.join("zed/settings.json"),
            Self::Jetbrains => home.join(".jetbrains/acp.json"),
            Self::Neovim => config.join("nvim/init.lua"),
            Self::Emacs => {
                let places = [home.join(".emacs"), home.join(".emacs.el"), config.join("emacs/init.el")];
                places.into_iter().find(|path| path.exists()).unwrap_or_else(|| home.join(".emacs.d/init.el"))
            }
            Self::Vscode if cfg!(target_os = "macos") => {
                home.join("Library/Application Support/Code/User/settings.json")
            }
            Self::Vscode => config.join("Code/User/settings.json"),
        }
    }

    /// Returns where in a JSON file the entry is, and its fields beside the command.
    fn keys(self) -> Option<merge::Keys> {
        match self {
            Self::Zed => Some(merge::Keys { owner: "agent_servers", kind: Some("custom") }),
            Self::Jetbrains => Some(merge::Keys { owner: "agent_servers", kind: None }),
            Self::Vscode => Some(merge::Keys { owner: "acp.agents", kind: None }),
            Self::Neovim | Self::Emacs => None,
        }
    }

    /// Returns the beginning of a comment in a file that is a program.
    fn comment(self) -> &'static str {
        match self {
            Self::Emacs => ";;",
            Self::Zed | Self::Jetbrains | Self::Vscode | Self::Neovim => "--",
        }
    }

    /// Returns the call that may be there only once: a second one takes the place of the user's own.
    fn plugin(self) -> Option<&'static str> {
        match self {
            Self::Neovim => Some("codecompanion"),
            Self::Zed | Self::Jetbrains | Self::Vscode | Self::Emacs => None,
        }
    }

    fn entry(self, program: &str) -> String {
        match self {
            Self::Neovim => include_str!("editor/neovim.lua").replace("PROGRAM", &quoted(program)),
            Self::Emacs => include_str!("editor/emacs.el").replace("PROGRAM", &quoted(program)),
            Self::Zed | Self::Jetbrains | Self::Vscode => {
                self.keys().map(|keys| merge::whole(&keys, program)).unwrap_or_default()
            }
        }
    }

    fn hint(self, path: &Path) -> String {
        let then = match self {
            Self::Zed => "then start a thread with windlass in the agent panel",
            Self::Jetbrains => "then choose windlass in AI Chat",
            Self::Neovim => "for the plugin CodeCompanion; then `:CodeCompanionChat`",
            Self::Emacs => "for the package agent-shell; then `M-x windlass`",
            Self::Vscode => "for the extension `formulahendry.acp-client`; then choose windlass in its panel",
        };
        let name = self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        format!("For {}, {then}. `windlass editor {name} --write` puts it there:", path.display())
    }
}

/// Returns a text as Lua and Emacs Lisp write it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the editors with an entry for windlass, and whether its program exists.
pub fn findings(environment: &Environment) -> Vec<Finding> {
    let mut findings = Vec::new();
    for editor in EDITORS {
        let path = editor.file(environment);
        let Ok(text) = file::read(&path) else { continue };
        let name = editor.name();
        let place = path.display();
        let programs_named = match editor.keys() {
            Some(keys) => match merge::programs(&text, &keys) {
                Ok(programs) => programs,
                Err(reason) => {
                    let remedy = "correct the file: the editor cannot read it either";
                    findings.push(Finding::warning("editors", format!("{name}: {place}: {reason}"), remedy));
                    continue;
                }
            },
            None => merge::programs_in_block(&text),
        };
        findings.extend(programs_named.into_iter().map(|program| {
            if program::find(environment.get("PATH"), Path::new("/"), Path::new(&program)).is_some() {
                Finding::ok("editors", format!("{name}: {place} starts {program}"))
            } else {
                let editor = name.to_lowercase().replace(' ', "");
                Finding::wrong(
                    "editors",
                    format!("{name}: {place} names {program}, which is not there"),
                    format!("run `windlass editor {editor} --write` to correct it"),
                )
            }
        }));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("editors", "none has an entry; `windlass editor zed --write` makes one"));
    }
    findings
}

#[cfg(test)]
mod tests;
