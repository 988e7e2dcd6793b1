//! Which commands change what decides, in a project whose configuration is read from files of many names.

use std::fs;

use crate::{
    config::{Config, Environment, fixture, paths::Paths},
    tool::bash::needs,
};

/// `OPENCODE_CONFIG` is `rules.json`, `OPENCODE_CONFIG_DIR` is `conf`, `market` is a marketplace, `src/server.js` an MCP
/// server, `hard` another name of `rules.json`, and `soft` a link to it;
/// `cdir` is a link to `conf`.
fn project() -> (tempfile::TempDir, Config) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let root = fs::canonicalize(temp.path()).expect("it is there");
    for directory in [
        "p/.git/hooks",
        "p/conf/agent",
        "p/.opencode/agent",
        "p/market",
        "p/build",
        "p/src/lib",
        "p/docs",
        "home/.config/opencode",
        "p/vendor/.git",
        "p/ev/objects",
        "p/ev/refs",
    ] {
        fs::create_dir_all(root.join(directory)).expect("created");
    }
    let write = |name: &str, text: &str| fs::write(root.join("p").join(name), text).expect("written");
    write("rules.json", r#"{"windlass": {"agents": {"paths": ["market"]}}}"#);
    write("opencode.json", r#"{"mcp": {"a": {"type": "local", "command": ["node", "src/server.js"]}}}"#);
    fs::hard_link(root.join("p/rules.json"), root.join("p/hard")).expect("linked");
    std::os::unix::fs::symlink("rules.json", root.join("p/soft")).expect("linked");
    std::os::unix::fs::symlink("conf", root.join("p/cdir")).expect("linked");
    write("src/server.js", "");
    write("conf/agent/a.md", "---\ndescription: a\n---\nx");
    write("market/a.md", "---\ndescription: a\n---\nx");
    write(".opencode/agent/b.md", "---\ndescription: b\n---\nx");
    write(".git/config", "");
    write("ev/HEAD", "ref: refs/heads/main");
    let variables = [("OPENCODE_CONFIG", "rules.json"), ("OPENCODE_CONFIG_DIR", "conf")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let environment = Environment { variables, home: root.join("home") };
    let config = fixture::load(&environment, &Paths::new(&environment), &root.join("p"));
    (temp, config)
}

/// The commands of the list, a line each, that do not count as expected.
async fn unexpected(list: &str, is_any: bool) -> Vec<String> {
    let (_temp, config) = project();
    let mut found = Vec::new();
    for command in list.lines().map(|line| line.replace('␤', "\n")) {
        let needs = needs(&config, &command, &config.directory).await.expect("it may be asked for");
        if needs.asks.last().expect("something is asked for").1 != is_any {
            found.push(command);
        }
    }
    found
}

#[tokio::test]
async fn commands_that_may_change_what_decides_count_as_any_command() {
    let list = include_str!("../../../../fixtures/permission/changes_what_decides.txt");
    assert_eq!(unexpected(list, true).await, [""; 0]);
}

#[tokio::test]
async fn commands_that_change_other_files_raise_nothing() {
    let list = include_str!("../../../../fixtures/permission/changes_other_files.txt");
    assert_eq!(unexpected(list, false).await, [""; 0]);
}
