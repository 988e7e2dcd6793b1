//! The language ids of the language server protocol, by file name.

use std::path::Path;

/// Languages with ids that differ from their extensions.
const LANGUAGES: &[(&str, &str)] = &[
    ("bibtex", "bib bibtex"),
    ("c", "h"),
    ("clojure", "clj cljs cljc edn"),
    ("coffeescript", "coffee"),
    ("cpp", "c++ cc cxx hh hpp hxx h++"),
    ("csharp", "cs csx"),
    ("diff", "patch"),
    ("elixir", "ex exs"),
    ("erlang", "erl hrl"),
    ("fsharp", "fs fsi fsx fsscript"),
    ("handlebars", "hbs"),
    ("haskell", "hs lhs"),
    ("html", "htm"),
    ("jade", "jade pug"),
    ("javascript", "cjs js mjs"),
    ("javascriptreact", "jsx"),
    ("julia", "jl"),
    ("kotlin", "kt kts"),
    ("latex", "tex"),
    ("markdown", "md"),
    ("objective-c", "m"),
    ("objective-cpp", "mm"),
    ("ocaml", "ml mli"),
    ("pascal", "pas"),
    ("perl", "pl pm"),
    ("perl6", "pm6"),
    ("powershell", "ps1 psm1"),
    ("python", "py pyi"),
    ("razor", "cshtml"),
    ("ruby", "gemspec rake rb ru"),
    ("rust", "rs"),
    ("shaderlab", "shader"),
    ("shellscript", "bash ksh sh zsh"),
    ("terraform", "tf"),
    ("terraform-vars", "tfvars"),
    ("typescript", "cts ets mts ts"),
    ("typescriptreact", "ctsx mtsx tsx"),
    ("typst", "typ typc"),
    ("xsl", "xsl"),
    ("yaml", "yml"),
    ("zig", "zon"),
];

/// Languages with their extension as the id.
const AS_THEIR_EXTENSION: &[&str] = &[
    "abap",
    "astro",
    "bat",
    "c",
    "cpp",
    "css",
    "d",
    "dart",
    "dockerfile",
    "erb",
    "gleam",
    "go",
    "groovy",
    "haskell",
    "hcl",
    "html",
    "ini",
    "java",
    "json",
    "less",
    "lua",
    "makefile",
    "nix",
    "php",
    "prisma",
    "r",
    "razor",
    "sass",
    "scala",
    "scss",
    "sql",
    "svelte",
    "swift",
    "vue",
    "xml",
    "yaml",
    "zig",
];

/// Returns the language of a file, by its extension or, without one, by its name.
pub fn language(path: &Path) -> &'static str {
    let end = path.extension().or(path.file_name()).unwrap_or_default().to_string_lossy();
    let end = if path.extension().is_some() { end } else { end.to_lowercase().into() };
    let named = LANGUAGES.iter().find(|(_, ends)| ends.split(' ').any(|it| it == end));
    let same = || AS_THEIR_EXTENSION.iter().find(|it| **it == end).copied();
    named.map(|(language, _)| *language).or_else(same).unwrap_or("plaintext")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::language;

    #[test]
    fn languages_are_known_by_extensions_and_names() {
        for (path, expected) in [
            ("/a/main.rs", "rust"),
            ("/a/b.test.tsx", "typescriptreact"),
            ("/a/b.c", "c"),
            ("/a/b.h++", "cpp"),
            ("/a/Dockerfile", "dockerfile"),
            ("/a/Makefile", "makefile"),
            ("/a/b.tfvars", "terraform-vars"),
            ("/a/notes.xyz", "plaintext"),
            ("/", "plaintext"),
        ] {
            assert_eq!(language(Path::new(path)), expected, "{path}");
        }
    }
}
