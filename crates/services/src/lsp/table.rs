//! The language servers that are known without being configured (facts: OpenCode §12.1): files, roots, programs.

/// A server that is started when its program is on PATH, or installed in the project.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub id: &'static str,
    /// Extensions of file names, or whole names.
    pub extensions: &'static [&'static str],
    /// Marker files in the root of a project, with `*` as a wildcard; the first list with a match counts.
    pub roots: &'static [&'static [&'static str]],
    /// Markers of projects that belong to another server instead.
    pub unless: &'static [&'static str],
    /// Set if files outside of such a root are not for this server.
    pub is_strict: bool,
    pub command: &'static [&'static str],
    pub extra: Extra,
    /// The packages of npm that bring the program; none when it comes in another way.
    pub packages: &'static [&'static str],
}

/// Special needs of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    None,
    /// Takes the whole Cargo workspace as the root.
    CargoWorkspace,
    /// Needs the path of the virtual environment's interpreter.
    VirtualEnvironment,
    /// Need the path of the project's TypeScript: its server, or its library.
    TypeScriptServer,
    TypeScriptLibrary,
    /// Must be told to send no telemetry.
    NoTelemetry,
    /// Needs settings for completing required fields and for checks on saving.
    Terraform,
}

const LOCK_FILES: &[&str] = &["package-lock.json", "bun.lockb", "bun.lock", "pnpm-lock.yaml", "yarn.lock"];
const DENO: &[&str] = &["deno.json", "deno.jsonc"];
const SCRIPTS: &[&str] = &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"];

const fn row(
    id: &'static str,
    extensions: &'static [&'static str],
    roots: &'static [&'static [&'static str]],
    command: &'static [&'static str],
) -> Row {
    Row { id, extensions, roots, unless: &[], is_strict: false, command, extra: Extra::None, packages: &[] }
}

/// The known servers, in OpenCode's order.
pub static ROWS: &[Row] = &[
    Row {
        is_strict: true,
        ..row("deno", &[".ts", ".tsx", ".js", ".jsx", ".mjs"], &[DENO], &["deno", "lsp"])
    },
    Row {
        unless: DENO,
        extra: Extra::TypeScriptServer,
        packages: &["typescript-language-server", "typescript"],
        ..row("typescript", SCRIPTS, &[LOCK_FILES], &["typescript-language-server", "--stdio"])
    },
    Row {
        packages: &["@vue/language-server"],
        ..row("vue", &[".vue"], &[LOCK_FILES], &["vue-language-server", "--stdio"])
    },
    Row {
        packages: &["vscode-langservers-extracted"],
        ..row(
            "eslint",
            &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue"],
            &[LOCK_FILES],
            &["vscode-eslint-language-server", "--stdio"],
        )
    },
    Row {
        packages: &["oxlint"],
        ..row(
            "oxlint",
            &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".astro", ".svelte"],
            &[&[
                ".oxlintrc.json",
                "package-lock.json",
                "bun.lockb",
                "bun.lock",
                "pnpm-lock.yaml",
                "yarn.lock",
                "package.json",
            ]],
            &["oxlint", "--lsp"],
        )
    },
    Row {
        packages: &["@biomejs/biome"],
        ..row(
            "biome",
            &[
                ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".jsonc", ".vue",
                ".astro", ".svelte", ".css", ".graphql", ".gql", ".html",
            ],
            &[&[
                "biome.json",
                "biome.jsonc",
                ".biome.json",
                ".biome.jsonc",
                "package-lock.json",
                "bun.lockb",
                "bun.lock",
                "pnpm-lock.yaml",
                "yarn.lock",
            ]],
            &["biome", "lsp-proxy", "--stdio"],
        )
    },
    row("gopls", &[".go"], &[&["go.work"], &["go.mod", "go.sum"]], &["gopls"]),
    row("ruby-lsp", &[".rb", ".rake", ".gemspec", ".ru"], &[&["Gemfile"]], &["rubocop", "--lsp"]),
    Row {
        extra: Extra::VirtualEnvironment,
        ..row(
            "ty",
            &[".py", ".pyi"],
            &[&[
                "pyproject.toml",
                "ty.toml",
                "setup.py",
                "setup.cfg",
                "requirements.txt",
                "Pipfile",
                "pyrightconfig.json",
            ]],
            &["ty", "server"],
        )
    },
    Row {
        extra: Extra::VirtualEnvironment,
        packages: &["pyright"],
        ..row(
            "pyright",
            &[".py", ".pyi"],
            &[&[
                "pyproject.toml",
                "setup.py",
                "setup.cfg",
                "requirements.txt",
                "Pipfile",
                "pyrightconfig.json",
            ]],
            &["pyright-langserver", "--stdio"],
        )
    },
    row("elixir-ls", &[".ex", ".exs"], &[&["mix.exs", "mix.lock"]], &["elixir-ls"]),
    row("zls", &[".zig", ".zon"], &[&["build.zig"]], &["zls"]),
    row(
        "csharp",
        &[".cs", ".csx"],
        &[&["*.slnx", "*.sln", "*.csproj", "global.json"]],
        &["roslyn-language-server", "--stdio", "--autoLoadProjects"],
    ),
    row(
        "fsharp",
        &[".fs", ".fsi", ".fsx", ".fsscript"],
        &[&["*.slnx", "*.sln", "*.fsproj", "global.json"]],
        &["fsautocomplete"],
    ),
    row(
        "sourcekit-lsp",
        &[".swift", ".objc", ".objcpp"],
        &[&["Package.swift", "*.xcodeproj", "*.xcworkspace"]],
        &["sourcekit-lsp"],
    ),
    Row {
        extra: Extra::CargoWorkspace,
        ..row("rust", &[".rs"], &[&["Cargo.toml", "Cargo.lock"]], &["rust-analyzer"])
    },
    row(
        "clangd",
        &[".c", ".cpp", ".cc", ".cxx", ".c++", ".h", ".hpp", ".hh", ".hxx", ".h++"],
        &[&["compile_commands.json", "compile_flags.txt", ".clangd"]],
        &["clangd", "--background-index", "--clang-tidy"],
    ),
    Row {
        packages: &["svelte-language-server"],
        ..row("svelte", &[".svelte"], &[LOCK_FILES], &["svelteserver", "--stdio"])
    },
    Row {
        extra: Extra::TypeScriptLibrary,
        packages: &["@astrojs/language-server"],
        ..row("astro", &[".astro"], &[LOCK_FILES], &["astro-ls", "--stdio"])
    },
    Row {
        is_strict: true,
        ..row(
            "jdtls",
            &[".java"],
            &[
                &["settings.gradle", "settings.gradle.kts"],
                &["gradlew", "gradlew.bat"],
                &["build.gradle", "build.gradle.kts"],
                &["pom.xml"],
                &[".project", ".classpath"],
            ],
            &["jdtls"],
        )
    },
    row(
        "kotlin-ls",
        &[".kt", ".kts"],
        &[
            &["settings.gradle.kts", "settings.gradle"],
            &["gradlew", "gradlew.bat"],
            &["build.gradle.kts", "build.gradle"],
            &["pom.xml"],
        ],
        &["kotlin-lsp", "--stdio"],
    ),
    Row {
        packages: &["yaml-language-server"],
        ..row("yaml-ls", &[".yaml", ".yml"], &[LOCK_FILES], &["yaml-language-server", "--stdio"])
    },
    row(
        "lua-ls",
        &[".lua"],
        &[&[
            ".luarc.json",
            ".luarc.jsonc",
            ".luacheckrc",
            ".stylua.toml",
            "stylua.toml",
            "selene.toml",
            "selene.yml",
        ]],
        &["lua-language-server"],
    ),
    Row {
        extra: Extra::NoTelemetry,
        packages: &["intelephense"],
        ..row(
            "php intelephense",
            &[".php"],
            &[&["composer.json", "composer.lock", ".php-version"]],
            &["intelephense", "--stdio"],
        )
    },
    Row {
        unless: &["package.json"],
        packages: &["prisma"],
        ..row("prisma", &[".prisma"], &[&["schema.prisma", "prisma"]], &["prisma", "language-server"])
    },
    row(
        "dart",
        &[".dart"],
        &[&["pubspec.yaml", "analysis_options.yaml"]],
        &["dart", "language-server", "--lsp"],
    ),
    row(
        "ocaml-lsp",
        &[".ml", ".mli"],
        &[&["dune-project", "dune-workspace", ".merlin", "opam"]],
        &["ocamllsp"],
    ),
    Row {
        packages: &["bash-language-server"],
        ..row("bash", &[".sh", ".bash", ".zsh", ".ksh"], &[], &["bash-language-server", "start"])
    },
    Row {
        extra: Extra::Terraform,
        ..row(
            "terraform",
            &[".tf", ".tfvars"],
            &[&[".terraform.lock.hcl", "terraform.tfstate", "*.tf"]],
            &["terraform-ls", "serve"],
        )
    },
    row(
        "texlab",
        &[".tex", ".bib"],
        &[&[".latexmkrc", "latexmkrc", ".texlabroot", "texlabroot"]],
        &["texlab"],
    ),
    Row {
        packages: &["dockerfile-language-server-nodejs"],
        ..row("dockerfile", &[".dockerfile", "Dockerfile"], &[], &["docker-langserver", "--stdio"])
    },
    row("gleam", &[".gleam"], &[&["gleam.toml"]], &["gleam", "lsp"]),
    row(
        "clojure-lsp",
        &[".clj", ".cljs", ".cljc", ".edn"],
        &[&["deps.edn", "project.clj", "shadow-cljs.edn", "bb.edn", "build.boot"]],
        &["clojure-lsp", "listen"],
    ),
    row("nixd", &[".nix"], &[&["flake.nix"]], &["nixd"]),
    row("tinymist", &[".typ", ".typc"], &[&["typst.toml"]], &["tinymist"]),
    row(
        "haskell-language-server",
        &[".hs", ".lhs"],
        &[&["stack.yaml", "cabal.project", "hie.yaml", "*.cabal"]],
        &["haskell-language-server-wrapper", "--lsp"],
    ),
    row(
        "julials",
        &[".jl"],
        &[&["Project.toml", "Manifest.toml", "*.jl"]],
        &["julia", "--startup-file=no", "--history-file=no", "-e", "using LanguageServer; runserver()"],
    ),
];
