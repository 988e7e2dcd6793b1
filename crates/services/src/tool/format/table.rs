//! The formatters that are known, and the needs of each (facts: OpenCode §12.2).

/// A known formatter.
pub(super) struct Row {
    pub name: &'static str,
    pub command: &'static [&'static str],
    pub extensions: &'static [&'static str],
    pub needs: Needs,
}

/// The conditions under which a formatter runs, beside its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// One of these files, beside the file or above it.
    Files(&'static [&'static str]),
    /// A file that contains a text, beside the file or above it: one of these pairs.
    Words(&'static [(&'static str, &'static str)]),
}

use Needs::{Files, Nothing, Words};

const WEB: &[&str] = &[
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".html", ".htm", ".css", ".scss", ".sass",
    ".less", ".vue", ".svelte", ".json", ".jsonc", ".yaml", ".yml", ".toml", ".xml", ".md", ".mdx",
    ".graphql", ".gql",
];
const PYTHON: &[&str] = &[".py", ".pyi"];

const fn row(
    name: &'static str,
    command: &'static [&'static str],
    extensions: &'static [&'static str],
    needs: Needs,
) -> Row {
    Row { name, command, extensions, needs }
}

pub(super) const ROWS: &[Row] = &[
    row("gofmt", &["gofmt", "-w", "$FILE"], &[".go"], Nothing),
    row(
        "mix",
        &["mix", "format", "$FILE"],
        &[".ex", ".exs", ".eex", ".heex", ".leex", ".neex", ".sface"],
        Files(&["mix.exs"]),
    ),
    row("prettier", &["prettier", "--write", "$FILE"], WEB, Words(&[("package.json", "\"prettier\"")])),
    row("biome", &["biome", "format", "--write", "$FILE"], WEB, Files(&["biome.json", "biome.jsonc"])),
    row("zig", &["zig", "fmt", "$FILE"], &[".zig", ".zon"], Nothing),
    row(
        "clang-format",
        &["clang-format", "-i", "$FILE"],
        &[".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".ino", ".C", ".H"],
        Files(&[".clang-format", "_clang-format"]),
    ),
    row("ktlint", &["ktlint", "-F", "$FILE"], &[".kt", ".kts"], Nothing),
    row(
        "ruff",
        &["ruff", "format", "$FILE"],
        PYTHON,
        Words(&[
            ("ruff.toml", ""),
            (".ruff.toml", ""),
            ("pyproject.toml", "ruff"),
            ("requirements.txt", "ruff"),
            ("Pipfile", "ruff"),
        ]),
    ),
    row("air", &["air", "format", "$FILE"], &[".R", ".r"], Files(&["air.toml", ".air.toml"])),
    row("uv", &["uv", "format", "--", "$FILE"], PYTHON, Files(&["uv.lock"])),
    row(
        "rubocop",
        &["rubocop", "--autocorrect", "$FILE"],
        &[".rb", ".rake", ".gemspec", ".ru"],
        Files(&[".rubocop.yml"]),
    ),
    row(
        "standardrb",
        &["standardrb", "--fix", "$FILE"],
        &[".rb", ".rake", ".gemspec", ".ru"],
        Words(&[(".standard.yml", ""), ("Gemfile", "standard")]),
    ),
    row("htmlbeautifier", &["htmlbeautifier", "$FILE"], &[".erb", ".html.erb"], Nothing),
    row("dart", &["dart", "format", "$FILE"], &[".dart"], Nothing),
    row("ocamlformat", &["ocamlformat", "-i", "$FILE"], &[".ml", ".mli"], Files(&[".ocamlformat"])),
    row("terraform", &["terraform", "fmt", "$FILE"], &[".tf", ".tfvars"], Nothing),
    row("latexindent", &["latexindent", "-w", "-s", "$FILE"], &[".tex"], Nothing),
    row("gleam", &["gleam", "format", "$FILE"], &[".gleam"], Nothing),
    row("shfmt", &["shfmt", "-w", "$FILE"], &[".sh", ".bash"], Nothing),
    row("nixfmt", &["nixfmt", "$FILE"], &[".nix"], Nothing),
    row("rustfmt", &["rustfmt", "$FILE"], &[".rs"], Nothing),
    row("pint", &["vendor/bin/pint", "$FILE"], &[".php"], Words(&[("composer.json", "laravel/pint")])),
    row("ormolu", &["ormolu", "-i", "$FILE"], &[".hs"], Nothing),
    row("cljfmt", &["cljfmt", "fix", "--quiet", "$FILE"], &[".clj", ".cljs", ".cljc", ".edn"], Nothing),
    row("dfmt", &["dfmt", "-i", "$FILE"], &[".d"], Nothing),
];
