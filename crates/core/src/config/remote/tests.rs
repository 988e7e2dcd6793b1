//! Organisations that are asked, meanings of their answers, and the part that is kept.

use std::{collections::BTreeMap, fs};

use serde_json::json;

use super::*;
use crate::config::{
    Findings,
    layer::{Kind, SourceContext, parse_part},
};

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Environment {
        trusts_projects: true,
        variables: BTreeMap::from_iter(variables),
        home: PathBuf::from("/nowhere"),
    }
}

#[test]
fn well_known_entries_are_found_among_the_credentials() {
    let auth = json!({
        "anthropic": {"type": "api", "key": "k"},
        "https://corp.example/": {"type": "wellknown", "key": "CORP_TOKEN", "token": "t"},
        "broken": 1,
    });
    let environment = environment(&[("OPENCODE_AUTH_CONTENT", &auth.to_string())]);
    let entry = Entry {
        url: "https://corp.example".to_owned(),
        variable: "CORP_TOKEN".to_owned(),
        token: "t".to_owned(),
    };
    assert_eq!(entries(&environment, &Paths::new(&environment)), [entry]);
}

#[test]
fn only_addresses_that_nobody_can_answer_for_are_trusted() {
    let trusted = [
        "https://a.example",
        "http://127.0.0.1:80/x",
        "http://localhost:1",
        "http://[::1]:9",
        "http://127.9.9.9",
    ];
    assert!(trusted.into_iter().all(is_trusted));
    let others = [
        "http://a.example",
        "http://127.0.0.1.example",
        "http://localhost.example",
        "http://127.0.0.1@a.example",
        "http://localhost:x@a.example",
        "http://a.example\\@localhost",
        "ftp://localhost",
        "file:///etc/passwd",
        "",
    ];
    for other in others {
        assert!(!is_trusted(other), "{other}");
    }
}

#[test]
fn answers_hold_a_configuration_or_where_it_is() {
    let environment = environment(&[("CORP_TOKEN", "t\"t")]);
    let answer = json!({
        "config": {"model": "a/b"},
        "remote_config": {"url": "https://c.example/x", "headers": {"Authorization": "Bearer {env:CORP_TOKEN}"}},
    });
    let headers = vec![("Authorization".to_owned(), "Bearer t\"t".to_owned())];
    let request = Request { url: "https://c.example/x".to_owned(), headers };
    assert_eq!(first_answer(&answer.to_string(), &environment), Ok(Some(request)));
    assert_eq!(first_answer("{}", &environment), Ok(None));
    assert!(first_answer("<html>", &environment).is_err());
    assert!(first_answer(r#"{"config": 7}"#, &environment).is_err());
    for (text, expected) in [
        (r#"{"config": {"a": 1}}"#, r#"{"a": 1}"#),
        (r#" {"a": 1}"#, r#"{"a": 1}"#),
        (r#"{"config": 1}"#, r#"{"config": 1}"#),
    ] {
        assert_eq!(&text[second_answer(text).unwrap()], expected);
    }
    assert!(second_answer("[]").is_err() && second_answer("<html>").is_err());
}

#[test]
fn configurations_keep_their_places_in_what_was_fetched() {
    let document = Document {
        url: "https://corp.example".to_owned(),
        text: "{\n  \"config\": {\n    \"model\": \"a/b\"\n  }\n}".to_owned(),
        remote: Some(("https://c.example/x".to_owned(), "\n{\"share\": \"auto\"}".to_owned())),
    };
    let mut findings = Findings::default();
    let positions: Vec<_> = document
        .configs()
        .into_iter()
        .map(|(source, part)| {
            let base = PathBuf::from("/");
            let environment = &environment(&[]);
            let context =
                SourceContext { environment, kind: Kind::Remote, source, base, project_files: None };
            let layer = parse_part(context, part, &mut findings);
            (layer.source.clone(), layer.position(&["model"]), layer.position(&["share"]))
        })
        .collect();
    let first = ("https://corp.example/.well-known/opencode".to_owned(), Some((3, 5)), None);
    assert_eq!(positions, [first, ("https://c.example/x".to_owned(), None, Some((2, 2)))]);
}

#[test]
fn what_is_kept_belongs_to_its_address() {
    let temporary = tempfile::tempdir().unwrap();
    let paths = Paths { data: temporary.path().to_owned(), ..Paths::new(&environment(&[])) };
    let url = "https://corp.example/a";
    let file = cache_file(&paths, url);
    let cached = |file, url| cache::read::<Document>(file, url).unwrap();
    assert_ne!(file, cache_file(&paths, "https://corp.example-a"));
    assert_eq!(cached(&file, url), None);
    let text = r#"{"config": {"a": 1}}"#.to_owned();
    let document = Document { url: url.to_owned(), text, remote: None };
    assert!(keep(&file, &document).unwrap());
    assert!(!keep(&file, &document).unwrap());
    assert_eq!(cached(&file, url), Some(document.clone()));
    assert_eq!(cached(&file, "https://other.example"), None);
    fs::write(&file, "{").unwrap();
    let damaged = cache::read::<Document>(&file, url).unwrap_err();
    assert_eq!(damaged.to_string(), "is damaged; it is fetched again");
    assert!(keep(&file, &document).unwrap());
}
