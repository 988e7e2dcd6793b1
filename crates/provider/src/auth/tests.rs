//! Reading and writing of keys.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use windlass_core::config::{Environment, paths::Paths};
use windlass_protocol::opencode::config::AuthEntry;

use super::{clear, load, remove, save};

fn environment(home: &Path, content: Option<&str>) -> Environment {
    let variables = content.map(|content| ("OPENCODE_AUTH_CONTENT".to_owned(), content.to_owned()));
    Environment { trusts_projects: true, variables: variables.into_iter().collect(), home: home.to_owned() }
}

fn key(key: &str) -> AuthEntry {
    AuthEntry::key(key)
}

/// Returns `provider=key` and the warnings.
fn loaded(environment: &Environment) -> (Vec<String>, Vec<String>) {
    let (credentials, faults) = load(&Paths::new(environment), environment);
    let shown = credentials.iter().map(|(provider, entry)| match entry {
        AuthEntry::Api { key, .. } => format!("{provider}={key}"),
        AuthEntry::Oauth { access, .. } => format!("{provider}=oauth {access}"),
        AuthEntry::Wellknown { token, .. } => format!("{provider}=wellknown {token}"),
    });
    (shown.collect(), faults.iter().map(|it| it.warning.to_string()).collect())
}

#[test]
fn our_file_overrides_opencodes_which_is_never_written() {
    let home = tempfile::tempdir().unwrap();
    let environment = environment(home.path(), None);
    let paths = Paths::new(&environment);
    let theirs = r#"{"a": {"type": "api", "key": "1", "metadata": {}}, "b": {"type": "oauth", "refresh": "r", "access": "2", "expires": 3}}"#;
    fs::create_dir_all(&paths.opencode_data).unwrap();
    fs::write(paths.opencode_auth(), theirs).unwrap();
    assert_eq!(loaded(&environment), (vec!["a=1".to_owned(), "b=oauth 2".to_owned()], vec![]));

    save(&paths, "a", &key("own")).unwrap();
    save(&paths, "c", &key("new")).unwrap();
    assert_eq!(loaded(&environment).0, ["a=own", "b=oauth 2", "c=new"]);
    let mode = fs::metadata(paths.auth()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    assert_eq!([remove(&paths, "a").unwrap(), remove(&paths, "a").unwrap()], [true, false]);
    assert_eq!(loaded(&environment).0, ["a=1", "b=oauth 2", "c=new"]);
    clear(&paths).unwrap();
    clear(&paths).unwrap();
    assert_eq!(loaded(&environment).0, ["a=1", "b=oauth 2"]);
    assert_eq!(fs::read_to_string(paths.opencode_auth()).unwrap(), theirs);
    let left = fs::read_dir(&paths.data).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["auth.json.lock"]);
}

#[test]
fn the_variable_replaces_both_files() {
    let home = tempfile::tempdir().unwrap();
    let plain = environment(home.path(), None);
    save(&Paths::new(&plain), "a", &key("1")).unwrap();
    let replaced = environment(home.path(), Some(r#"{"b": {"type": "api", "key": "2"}}"#));
    assert_eq!(loaded(&replaced), (vec!["b=2".to_owned()], vec![]));
}

#[test]
fn broken_files_are_reported_without_their_content() {
    let home = tempfile::tempdir().unwrap();
    let broken = environment(home.path(), Some("{\"a\": sk-secret}"));
    let message = "OPENCODE_AUTH_CONTENT:1:7: is not a JSON object of credentials; it is ignored";
    assert_eq!(loaded(&broken), (vec![], vec![message.to_owned()]));
    let odd = environment(home.path(), Some(r#"{"a": {"type": "new"}, "b/": {"type": "api", "key": "2"}}"#));
    let message = "OPENCODE_AUTH_CONTENT: the entry of `a` is not a credential";
    assert_eq!(loaded(&odd), (vec!["b=2".to_owned()], vec![message.to_owned()]));
}

#[test]
fn saving_keeps_unknown_entries_and_moves_a_broken_file_aside() {
    let home = tempfile::tempdir().unwrap();
    let environment = environment(home.path(), None);
    let paths = Paths::new(&environment);
    fs::create_dir_all(&paths.data).unwrap();
    fs::write(paths.auth(), r#"{"x": {"type": "new"}}"#).unwrap();
    save(&paths, "a", &key("1")).unwrap();
    assert!(fs::read_to_string(paths.auth()).unwrap().contains("\"new\""));
    fs::write(paths.auth(), "{").unwrap();
    save(&paths, "a", &key("2")).unwrap();
    assert_eq!(loaded(&environment), (vec!["a=2".to_owned()], vec![]));
    assert_eq!(fs::read_to_string(paths.data.join("auth.json.broken")).unwrap(), "{");
}
