//! Variables that decide what runs.

use tree_sitter::Node;

use super::{
    Source, Walk,
    command::{self, value_of},
    tree::spans,
    word::{self, Word},
};

/// Variables whose value decides which programs later commands are, what they load, or how words are split.
#[rustfmt::skip]
const STEERING: &[&str] = &[
    // Shells.
    "PATH", "IFS", "ENV", "BASH_ENV", "ZDOTDIR", "SHELLOPTS", "BASHOPTS", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "CDPATH", "FPATH",
    "BASH_ALIASES", "BASH_CMDS", "BASH_LOADABLES_PATH", "MAKESHELL", "CONFIG_SITE",
    // Where settings lie.
    "HOME", "XDG_CONFIG_HOME", "RIPGREP_CONFIG_PATH", "CURL_HOME", "WGETRC", "SCREENRC", "APT_CONFIG", "AWS_CONFIG_FILE", "PSQLRC",
    "NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "NMAPDIR", "TEXMFCNF", "MANOPT", "MYSQL_HOME", "BAT_CONFIG_PATH", "DC_ENV_ARGS",
    "ANSIBLE_CONFIG", "ANSIBLE_LIBRARY", "HGRCPATH", "MERCURIAL_CONFIG", "LYNX_CFG", "SUDO_CONF", "PIP_CONFIG_FILE", "FZF_DEFAULT_OPTS",
    "FZF_DEFAULT_OPTS_FILE", "TAR_OPTIONS", "ZIPOPT", "RSYNC_CONNECT_PROG",
    "KUBECONFIG", "HELM_PLUGINS", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KREW_ROOT", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "CONTAINERS_CONF", "AWS_SHARED_CREDENTIALS_FILE",
    "BOTO_CONFIG", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "AZURE_EXTENSION_DIR", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_DATA_DIR",
    "PACKER_CONFIG", "PACKER_PLUGIN_PATH", "VAGRANT_HOME", "VAGRANT_VAGRANTFILE", "VAGRANT_CWD", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "HUB_CONFIG", "JJ_CONFIG", "DIRENV_CONFIG",
    "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOENV", "GOTOOLCHAIN", "GOPACKAGESDRIVER", "GRADLE_USER_HOME", "M2_HOME", "MAVEN_HOME", "ANT_HOME", "ANT_ARGS",
    "COMPOSER_HOME", "COMPOSER", "BUNDLE_APP_CONFIG", "BUNDLE_USER_CONFIG", "BUNDLE_USER_HOME", "GEMRC", "IRBRC", "PRYRC", "MIX_HOME", "MIX_EXS", "MIX_ARCHIVES", "REBAR_CONFIG", "ERL_LIBS",
    "STACK_ROOT", "STACK_YAML", "CABAL_DIR", "CABAL_CONFIG", "GHC_PACKAGE_PATH", "OPAMROOT", "CLJ_CONFIG", "LEIN_HOME", "JULIA_DEPOT_PATH", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE",
    "NPM_CONFIG_GLOBALCONFIG", "NPM_CONFIG_PREFIX", "npm_config_prefix", "YARN_RC_FILENAME", "YARN_YARN_PATH", "YARN_PLUGINS", "COREPACK_HOME", "PNPM_HOME", "BUN_INSTALL",
    "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR", "ASDF_DIR", "ASDF_DATA_DIR", "ASDF_CONFIG_FILE", "MISE_CONFIG_DIR", "MISE_CONFIG_FILE", "MISE_GLOBAL_CONFIG_FILE", "MISE_DATA_DIR", "VOLTA_HOME",
    "UV_CONFIG_FILE", "UV_TOOL_DIR", "POETRY_CONFIG_DIR", "PIPENV_PIPFILE", "PIPX_HOME", "CONDARC", "MAMBARC", "JUPYTER_CONFIG_DIR", "JUPYTER_PATH", "IPYTHONDIR", "TOX_CONFIG_FILE",
    "PRE_COMMIT_HOME", "PYLINTRC", "COVERAGE_RCFILE", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "VIM", "VIMRUNTIME", "NVIM_APPNAME", "GNUPGHOME",
    "LESSKEY", "LESSKEYIN", "LESSKEY_SYSTEM", "LESSKEYIN_SYSTEM", "LESSKEY_CONTENT", "MAILCAPS", "MAILRC", "INPUTRC", "SYSTEM_WGETRC", "SYSSCREENRC", "HTTPIE_CONFIG_DIR", "BAT_CONFIG_DIR",
    "TASKRC", "TASKDATA", "MPV_HOME", "GNUPLOT_DRIVER_DIR", "OCTAVE_SITE_INITFILE", "OCTAVE_VERSION_INITFILE", "MATLABPATH", "EMACSDATA", "EMACSPATH", "MYSQL_TEST_LOGIN_FILE", "MYCLIRC",
    "RCLONE_CONFIG", "RCLONE_CONFIG_DIR", "NIX_CONFIG", "NIX_PATH", "NIX_CONF_DIR", "NIX_USER_CONF_FILES", "NIX_SSHOPTS", "CCACHE_CONFIGPATH", "CCACHE_DIR", "BAZELISK_HOME", "USE_BAZEL_VERSION",
    "PERF_CONFIG", "PERF_EXEC_PATH", "VALGRIND_OPTS", "VALGRIND_LIB", "GROFF_COMMAND_PREFIX", "GROFF_BIN_PATH", "LATEXMKRCSYS", "TEXMFHOME", "PERL_CPANM_OPT", "PERL_CPANM_HOME",
    "CROSS_COMPILE", "CCC_OVERRIDE_OPTIONS", "CMAKE_TOOLCHAIN_FILE", "CMAKE_PROJECT_TOP_LEVEL_INCLUDES", "MSBuildSDKsPath", "KRB5_CONFIG", "SASL_PATH", "ODBCSYSINI",
    "ANSIBLE_INVENTORY", "ANSIBLE_ROLES_PATH", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_COLLECTIONS_PATHS", "ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_SSH_ARGS", "ANSIBLE_SSH_COMMON_ARGS",
    "ANSIBLE_SSH_EXTRA_ARGS", "ANSIBLE_SSH_EXECUTABLE", "ANSIBLE_PYTHON_INTERPRETER",
    // What the linker, the C library and the compiler load.
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_PROFILE", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "GCONV_PATH",
    "GCC_EXEC_PREFIX", "COMPILER_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "GOROOT", "GOTOOLDIR",
    "SSH_SK_PROVIDER", "GIO_MODULE_DIR", "GIO_EXTRA_MODULES", "GTK_MODULES", "GTK_PATH", "QT_PLUGIN_PATH", "GST_PLUGIN_PATH", "CAML_LD_LIBRARY_PATH", "DOTNET_STARTUP_HOOKS",
    "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "DOTNET_ROOT", "CORECLR_PROFILER_PATH", "COR_PROFILER_PATH", "PYTHONPYCACHEPREFIX", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "MONO_PATH",
    // git.
    "GIT_EXEC_PATH", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG", "GIT_TEMPLATE_DIR",
    "GIT_DIR", "GIT_COMMON_DIR",
    // Interpreters.
    "PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT", "PYTHONUSERBASE", "PYTHONINSPECT", "PYTEST_PLUGINS", "PERL5OPT", "PERL5DB", "PERL5LIB", "PERLLIB",
    "RUBYOPT", "NODE_REPL_EXTERNAL_MODULE", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE", "R_PROFILE_USER",
    "R_ENVIRON", "R_ENVIRON_USER", "AWKPATH", "AWKLIBPATH", "TCLLIBPATH", "GUILE_LOAD_PATH", "EMACSLOADPATH", "VIMINIT", "GVIMINIT", "EXINIT",
    "MAKEFILES", "PERL_MB_OPT", "COVERAGE_PROCESS_START",
];

/// Variables that name where programs are installed; those that a system puts there are what they are.
const INSTALLED: [&str; 5] = ["JAVA_HOME", "JDK_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT", "VIRTUAL_ENV"];

/// Where systems put programs.
const SYSTEM: [&str; 6] = ["/usr/", "/opt/", "/Library/", "/Applications/", "/nix/store/", "/snap/"];

/// Variables of a kind, by how their names begin and end.
const STEERING_KINDS: [(&str, &str); 9] = [
    ("GIT_CONFIG_KEY_", ""),
    ("BASH_FUNC_", ""),
    ("LUA_INIT_", ""),
    ("LUA_PATH_", ""),
    ("LUA_CPATH_", ""),
    ("VERSIONER_", ""),
    ("ANSIBLE_", "_PLUGINS"),
    ("NPM_CONFIG_", "_CONFIG"),
    ("npm_config_", "config"),
];

/// Variables whose value is a command that some program runs.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "PAGER", "MANPAGER", "GIT_PAGER", "BAT_PAGER", "DELTA_PAGER", "SYSTEMD_PAGER", "PSQL_PAGER", "AWS_PAGER", "GH_PAGER", "GLAB_PAGER", "NIX_PAGER",
    "ACK_PAGER", "ACK_PAGER_COLOR", "JJ_PAGER", "HGPAGER", "DEBPAGER", "LESSEDIT", "PGCLI_PAGER", "MYCLI_PAGER",
    "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "HGEDITOR", "SVN_EDITOR", "SYSTEMD_EDITOR", "SUDO_EDITOR", "KUBE_EDITOR",
    "PSQL_EDITOR", "PSQL_EDITOR_COMMAND", "GH_EDITOR", "HOMEBREW_EDITOR", "BUNDLER_EDITOR", "GEM_EDITOR", "P4EDITOR", "CVSEDITOR", "JJ_EDITOR", "FCEDIT", "TEXEDIT",
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "SSH_ASKPASS", "SUDO_ASKPASS", "BROWSER", "WWW_BROWSER",
    "GH_BROWSER", "HGMERGE", "P4DIFF", "P4MERGE", "SVN_SSH", "SVN_MERGE", "CVS_RSH", "RSYNC_RSH", "BORG_RSH", "BORG_PASSCOMMAND", "RESTIC_PASSWORD_COMMAND",
    "RCLONE_PASSWORD_COMMAND", "LESSOPEN", "LESSCLOSE", "FZF_DEFAULT_COMMAND", "FZF_CTRL_T_COMMAND", "FZF_ALT_C_COMMAND", "SHELL", "CONFIG_SHELL",
    "TERMINAL", "npm_config_script_shell", "NPM_CONFIG_SCRIPT_SHELL", "npm_config_editor", "NPM_CONFIG_EDITOR", "npm_config_shell", "npm_config_git", "NPM_CONFIG_GIT",
    "RUSTC", "RUSTDOC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_LINKER", "CARGO", "CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "STRIP", "FC", "F77",
    "OBJC", "NVCC", "YACC", "LEX", "PKG_CONFIG", "CCACHE_PREFIX", "CCACHE_COMPILER", "MAKE", "XDG_TERMINAL", "PYTHON", "npm_config_python", "NODE_GYP_FORCE_PYTHON",
    "ALTERNATE_EDITOR", "PERLDOC_PAGER", "SSH_SK_HELPER", "SSH_PKCS11_HELPER", "CLOUDSDK_PYTHON", "UV_PYTHON", "PIPENV_PYTHON", "PUPPETEER_EXECUTABLE_PATH", "CHROME_BIN", "CHROME_PATH",
    "ASAN_SYMBOLIZER_PATH", "LLVM_SYMBOLIZER_PATH", "MAKEINFO", "TEXI2DVI", "RM", "BORG_REMOTE_PATH", "KUBECTL_EXTERNAL_DIFF", "LESSGLOBALTAGS", "GIT_MAN_VIEWER",
];

/// The same, by how their names begin and end.
const COMMAND_KINDS: [(&str, &str); 7] = [
    ("CARGO_TARGET_", "_RUNNER"),
    ("CARGO_TARGET_", "_LINKER"),
    ("CARGO_BUILD_RUST", ""),
    ("CMAKE_", "_LAUNCHER"),
    ("CMAKE_", "_COMPILER"),
    ("HOST_", "CC"),
    ("CC_", ""),
];

/// Variables whose value has a program load or run something when it holds one of these.
#[rustfmt::skip]
const LOADING: &[(&[&str], &[&str])] = &[
    (&["NODE_OPTIONS", "BUN_OPTIONS", "npm_config_node_options", "NPM_CONFIG_NODE_OPTIONS"], &["-r", "require", "import", "loader", "preload"]),
    (&["MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS"], &["eval", "SHELL", "-f", "file", "!=", "$(", "-E"]),
    (&["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "MAVEN_ARGS", "GRADLE_OPTS", "JAVA_OPTS", "ANT_OPTS", "SBT_OPTS", "CATALINA_OPTS"],
        &["agent", "bootclasspath", "OnError", "OnOutOfMemory", "-Xrun", "@", "Flags", "VMOptions", "exec.", "init"]),
    (&["LESS"], &["!", "+"]),
    (&["GOFLAGS"], &["exec", "vettool", "overlay", "modfile"]),
    (&["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS"], &["plugin", "-wrapper", "-specs", "-B", "-fuse-ld", "--ld-path"]),
    (&["RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"], &["linker", "link-arg", "codegen-backend", "runtool"]),
    (&["PYTEST_ADDOPTS"], &["-p ", " -p", "-c ", " -c", "confcutdir", "rootdir"]),
    (&["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS"], &["eval", "run", "-s"]),
    (&["GIT_TRACE", "GIT_TRACE2", "GIT_TRACE_PACKET", "GIT_TRACE_SETUP", "GIT_TRACE_CURL", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"], &[".git", "bin/"]),
    (&["HISTFILE"], &[".git", "bin/"]),
];

/// Variables whose value is directories, or files, that interpreters take code from.
pub const SEARCHED: [&str; 8] = [
    "PYTHONPATH",
    "NODE_PATH",
    "RUBYLIB",
    "CLASSPATH",
    "GEM_PATH",
    "GEM_HOME",
    "BUNDLE_GEMFILE",
    "JULIA_LOAD_PATH",
];

fn is_of(kinds: &[(&str, &str)], name: &str) -> bool {
    let is_it = |(start, end): &(&str, &str)| {
        name.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && rest.ends_with(end))
    };
    kinds.iter().any(is_it)
}

/// Whether the value of this variable is a command that some program runs.
pub fn is_command(name: &str) -> bool {
    COMMANDS.contains(&name) || is_of(&COMMAND_KINDS, name)
}

/// Whether a value of this variable has a program load or run something.
pub fn is_loading(name: &str, value: Option<&str>) -> bool {
    if INSTALLED.contains(&name) {
        let is_of_system =
            |value: &str| SYSTEM.iter().any(|it| value.starts_with(it)) && !value.contains("..");
        return value.is_none_or(|value| !value.is_empty() && !is_of_system(value));
    }
    let row = LOADING.iter().find(|(names, _)| names.contains(&name));
    row.is_some_and(|(_, marks)| value.is_none_or(|value| marks.iter().any(|mark| value.contains(mark))))
}

/// Whether later commands or words mean something else once this variable is set.
pub fn is_steering(name: &str) -> bool {
    STEERING.contains(&name) || is_of(&STEERING_KINDS, name)
}

/// Whether a value of this variable may decide what runs.
fn is_deciding(name: &str) -> bool {
    is_steering(name) || is_command(name) || is_loading(name, None) || SEARCHED.contains(&name)
}

/// The words that are no options, nor values of these; `-a NAME` names a variable as well.
pub fn operands<'a>(arguments: &'a [Word], values: &str) -> Vec<&'a Word> {
    let mut found = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.text.strip_prefix('-').filter(|options| !options.is_empty()) {
            Some("-") => {}
            Some(options) => {
                let at = options.find(|c| values.contains(c));
                if at.is_some_and(|at| at + 1 == options.len()) {
                    arguments.next();
                }
            }
            None => found.push(word),
        }
    }
    found
}

impl Walk {
    /// What a written word may be, as a variable's name and perhaps its value; `None` when only running it would tell.
    fn name_and_value(&self, written: &str) -> Vec<Option<(String, Option<String>)>> {
        let readings = self.values.known(written);
        let texts = readings.iter().flat_map(|reading| word::braces(reading));
        let read = |text: String| {
            let whole = word::literal(&text);
            let (name, value) = match (&whole, text.split_once('=')) {
                (Some(whole), _) => match whole.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (whole.clone(), None),
                },
                (None, Some((name, _))) => (name.replace(['"', '\'', '\\'], ""), None),
                (None, None) => return None,
            };
            let end = name.find('[').unwrap_or(name.len());
            let name = name.get(..end).unwrap_or_default().trim_end_matches('+').to_owned();
            (!name.contains(['$', '`', '*', '?'])).then_some((name, value))
        };
        texts.map(read).collect()
    }

    /// A word by which a command gives a variable a value of its own making.
    pub(super) fn names_variable(&mut self, written: &str) {
        for found in self.name_and_value(written) {
            self.acc.is_unknowable |= found.is_none_or(|(name, _)| is_deciding(&name));
        }
    }

    /// `NAME=value` as a command's argument, quoted or not.
    fn argument_assigns(&mut self, written: &str) {
        for (name, value) in self.name_and_value(written).into_iter().flatten() {
            if written.contains('=') || value.is_some() {
                self.assign(&name, value.as_deref());
                let text = written.split_once('=').map(|it| it.1).unwrap_or_default();
                self.searches(&name, text);
                self.values.add(&name, value_of(text));
            }
        }
    }

    /// Directories that interpreters take code from: it is run, whatever it is called.
    pub(super) fn searches(&mut self, name: &str, written: &str) {
        let name = name.split(['+', '[']).next().unwrap_or_default();
        if !SEARCHED.contains(&name) {
            return;
        }
        let stays = [format!("${name}"), format!("${{{name}}}"), format!("${{{name}:-}}")];
        let here = vec![String::new()];
        for known in self.values.known(written) {
            let unquoted = known.replace(['"', '\''], "");
            let elements = unquoted.split(':').filter(|it| !it.is_empty() && !it.starts_with("${"));
            for element in elements.filter(|it| !stays.iter().any(|own| own == it) && *it != "-}") {
                self.acc.is_unknowable |=
                    command::path_of(element).is_none() && !element.starts_with("$(pwd)");
                self.path(element, &here);
                self.run_tree(element, &here);
            }
        }
    }

    pub(super) fn assignments(&mut self, arguments: &[Word]) {
        arguments.iter().for_each(|argument| self.argument_assigns(&argument.text));
    }

    /// `declare`, `export`, `unset` and their like, for the words that the grammar takes for no assignment.
    pub(super) fn declaration(&mut self, source: &Source<'_>, node: Node<'_>) {
        let mut cursor = node.walk();
        let plain: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let is_unset = node.kind() == "unset_command";
        let spans = spans(plain);
        let texts: Vec<&str> =
            spans.iter().filter_map(|(start, end)| source.text.get(*start..*end)).collect();
        let is_reference = !source.of(node).starts_with("export")
            && !is_unset
            && texts.iter().any(|text| text.starts_with('-') && text.contains('n'));
        for text in texts.into_iter().filter(|text| !text.starts_with(['-', '+'])) {
            if is_unset {
                // Without it programs are looked for in the working directory.
                let removes = |it: &Option<(String, _)>| it.as_ref().is_some_and(|(name, _)| name == "PATH");
                self.acc.is_unknowable |= self.name_and_value(text).iter().any(removes);
                continue;
            }
            if is_reference {
                match text.split_once('=') {
                    Some((_, name)) => self.names_variable(name),
                    None => self.acc.is_unknowable = true,
                }
                continue;
            }
            self.acc.is_unknowable |= self.name_and_value(text).iter().any(Option::is_none);
            self.argument_assigns(text);
        }
    }
}
