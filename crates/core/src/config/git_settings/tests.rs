//! Directories that settings call safe.

use std::{fs, path::Path};

use super::GitSettings;
use crate::config::Environment;

/// Returns true if `~/p/sub` is safe with this text as the user's settings.
fn is_safe(text: &str, variables: &[(&str, &str)]) -> bool {
    let temporary = tempfile::tempdir().unwrap();
    let home = temporary.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("p/sub")).unwrap();
    let text = text.replace("<home>", &home.display().to_string());
    fs::write(home.join(".gitconfig"), text).unwrap();
    fs::write(home.join("more"), "[safe]\ndirectory = ~/p/sub\n").unwrap();
    let own = [("GIT_CONFIG_NOSYSTEM", "1")];
    let variables = own.iter().chain(variables).map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let environment =
        Environment { variables: variables.collect(), home: home.clone(), ..Environment::default() };
    GitSettings::new(&environment).is_safe(&home.join("p/sub"))
}

#[test]
fn a_directory_is_safe_by_its_name_a_pattern_or_an_included_file() {
    for text in [
        "[safe]\n\tdirectory = *\n",
        "[SAFE] Directory = \"<home>/p/sub\" ; mine\n",
        "[user]\nname = x\n[safe]\n# no\ndirectory = /elsewhere\ndirectory = ~/p/sub\n",
        "[safe]\ndirectory = <home>/p/*\n",
        "[include]\npath = more\n",
    ] {
        assert!(is_safe(text, &[]), "{text}");
    }
    for text in [
        "",
        "[safe]\ndirectory = <home>/p\n",
        "[safe]\ndirectory = <home>/p/sub/*\n",
        "[safe]\ndirectory = *\ndirectory =\n",
        "[unsafe]\ndirectory = *\n",
        "[safe \"x\"]\ndirectory = *\n",
        "[safe]\ndirectory = .\n",
        "[include]\npath = ~/.gitconfig\n",
    ] {
        assert!(!is_safe(text, &[]), "{text}");
    }
}

#[test]
fn variables_add_values_and_replace_files() {
    let added =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];
    assert!(is_safe("", &added));
    assert!(!is_safe("[safe]\ndirectory = *\n", &[("GIT_CONFIG_GLOBAL", "/nowhere")]));
    let settings = GitSettings::new(&Environment { home: "/h".into(), ..Environment::default() });
    assert_eq!(
        settings.files,
        [Path::new("/etc/gitconfig"), Path::new("/h/.config/git/config"), Path::new("/h/.gitconfig")]
    );
}
