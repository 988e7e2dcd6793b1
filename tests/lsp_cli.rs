//! `windlass lsp`: the list of language servers, and those that are installed on command.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{agent::Agent, scratch::Scratch},
};

const SHELL: &str = "#!/bin/sh\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{SHELL}{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts an npm on the PATH that it returns, which logs its arguments and installs a scripted server.
fn registry(scratch: &Scratch) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lsp/server.py");
    let programs = scratch.home.join("programs");
    let npm = format!(
        "echo \"$@\" >> \"$HOME/told\"\n\
         mkdir -p node_modules/.bin && cd node_modules/.bin || exit 1\n\
         printf '%s\\n' '#!/bin/sh' 'LSP_LOG=lsp.log exec python3 \"{}\" good' > yaml-language-server\n\
         chmod +x yaml-language-server\n",
        server.display()
    );
    program(&programs.join("npm"), &npm);
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn every_server_is_listed_with_its_program_or_the_way_to_get_it() {
    let mut machine = Machine::new().await;
    program(&machine.scratch.home.join("programs/zls"), "");
    let path = machine.scratch.home.join("programs").display().to_string();
    machine.config["windlass"] = json!({"plugin": {"runtime": "node"}});
    let list = async |machine: &Machine, arguments: &[&str]| {
        let output = machine.command(arguments).env("PATH", &path).output().await.unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (listed, note) = list(&machine, &["lsp", "list"]).await;
    let of = |id: &str| {
        let of_id = |line: &&str| line.split_whitespace().next() == Some(id);
        listed.lines().find(of_id).map(str::to_owned).unwrap_or_default()
    };
    assert!(note.contains("`\"lsp\": true` in opencode.json switches them on"), "{note}");
    assert!(of("zls").ends_with("/programs/zls"), "{listed}");
    assert!(of("gopls").ends_with("missing: put gopls on PATH"), "{listed}");
    assert!(of("pyright").ends_with("missing: run `windlass lsp install 'pyright'`"), "{listed}");

    machine.config["lsp"] = json!({
        "zls": {"disabled": true}, "mine": {"command": ["my-server"], "extensions": [".my"]},
    });
    let (listed, note) = list(&machine, &["lsp", "list", "--format", "json"]).await;
    assert_eq!(note, "");
    let rows: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let of = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!(
        (&of("zls")["on"], &of("gopls")["on"], &of("ty")["on"]),
        (&json!(false), &json!(true), &json!(false))
    );
    let mine = json!({
        "id": "mine", "command": "my-server", "path": null, "configured": true, "on": true, "extensions": [".my"],
        "packages": [],
    });
    assert_eq!(of("mine"), &mine);
}

#[tokio::test]
async fn an_installed_server_serves_the_files_of_every_project() {
    let machine = Machine::new().await.with("windlass", json!({"plugin": {"runtime": "node"}}));
    let path = registry(&machine.scratch);
    let install = machine.command(&["lsp", "install", "yaml-ls"]).env("PATH", &path).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&install.stdout), "yaml-ls is installed.\n", "{install:?}");
    let told = fs::read_to_string(machine.scratch.home.join("told")).unwrap();
    assert!(
        told.starts_with("install --ignore-scripts ") && told.ends_with(" yaml-language-server@latest\n"),
        "{told}"
    );

    machine.scratch.write("a.yaml", "one: 1\ntwo: 2\n");
    let builder = Agent::builder().scratch(&machine.scratch).env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1");
    let agent = builder.config(json!({"lsp": true})).start().await;
    let session = agent.new_session().await;
    let question = json!({"operation": "documentSymbol", "filePath": "a.yaml", "line": 2, "character": 5});
    let told = agent.told(&session, "lsp", question).await;
    assert!(told.contains("scripted"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn what_cannot_be_installed_is_told_with_the_way_out_and_leaves_nothing() {
    let machine = Machine::new().await.with("windlass", json!({"plugin": {"runtime": "node"}}));
    program(&machine.scratch.home.join("programs/npm"), "echo 'npm error code E404' >&2; exit 1\n");
    let path = format!("{}:/usr/bin:/bin", machine.scratch.home.join("programs").display());
    for (id, reason) in [
        ("gopls", "npm does not have gopls: install the program gopls and put it on PATH."),
        ("nobody", "there is no language server nobody; `windlass lsp list` shows all."),
        ("bash", "bash was not installed: npm error code E404."),
    ] {
        let output = machine.command(&["lsp", "install", id]).env("PATH", &path).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().last()), (Some(1), Some(reason)));
    }
    let cache = machine.scratch.home.join(".local/share/windlass/cache");
    let left = |name: &str| fs::read_dir(cache.join(name)).map_or(0, Iterator::count);
    assert_eq!((left("packages"), left("language-servers")), (0, 0));
}
