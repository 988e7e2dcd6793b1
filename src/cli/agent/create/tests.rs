//! What is asked on a terminal, and the file that comes of it.

use std::path::Path;

use super::{CreateArgs, GeneratedAgent, Mode, Wanted, checked_name, denied, markdown, wanted};
use crate::config::{Environment, paths::Paths};

fn no_flags() -> CreateArgs {
    CreateArgs {
        description: None,
        path: None,
        global: false,
        mode: None,
        tools: None,
        model: None,
        name: None,
    }
}

/// What an interview comes to, and what it showed.
fn interview(args: &CreateArgs, typed: &str) -> (Result<Wanted, String>, String) {
    let environment = Environment { home: "/home".into(), ..Environment::default() };
    let paths = Paths::new(&environment);
    let mut shown = Vec::new();
    let mut input = typed.as_bytes();
    let result = wanted(args, &paths, Path::new("/nowhere"), Some((&mut input, &mut shown)));
    (result, String::from_utf8(shown).unwrap())
}

#[test]
fn a_terminal_is_asked_for_what_the_flags_do_not_say() {
    let (result, shown) = interview(&no_flags(), "2\nReads logs.\nread, grep\nsubagent\n");
    let wanted = result.unwrap();
    assert_eq!((&wanted.directory, wanted.mode), (&"/home/.config/opencode".into(), Mode::Subagent));
    assert_eq!(wanted.description, "Reads logs.");
    assert!(wanted.denied.contains(&"edit") && !wanted.denied.contains(&"grep"));
    assert!(shown.contains("1 this project (/nowhere/.opencode)"), "{shown}");

    let (result, _) = interview(&no_flags(), "\nReads logs.\n\n\n");
    let expected = Wanted {
        directory: "/nowhere/.opencode".into(),
        description: "Reads logs.".to_owned(),
        mode: Mode::All,
        denied: Vec::new(),
    };
    assert_eq!(result, Ok(expected));

    let args = CreateArgs { global: true, description: Some(" x ".to_owned()), ..no_flags() };
    let (result, shown) = interview(&args, "all\nprimary\n");
    assert_eq!(result.unwrap().mode, Mode::Primary);
    assert!(!shown.contains("Where?") && !shown.contains("What is the agent"), "{shown}");
}

#[test]
fn an_interview_that_goes_wrong_makes_nothing() {
    for (typed, reason) in [
        ("", "the input ended"),
        ("3\n", "`3` is neither 1 nor 2"),
        ("1\n\n", "the description is empty"),
        ("1\nx\nfly\n", "There is no permission `fly`"),
        ("1\nx\nall\nmaybe\n", "`maybe` is no mode"),
    ] {
        let (result, _) = interview(&no_flags(), typed);
        let error = result.unwrap_err();
        assert!(error.contains(reason), "{typed:?}: {error}");
    }
}

#[test]
fn a_list_of_permissions_denies_the_others() {
    let all = ["bash", "edit", "read"];
    let of = |names: &[&str]| denied(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &all);
    assert_eq!(of(&["all"]), Ok(Vec::new()));
    assert_eq!(of(&["read", "write", ""]), Ok(vec!["bash"]));
    assert_eq!(of(&["none"]), Ok(all.to_vec()));
    assert!(of(&["read", "fly"]).unwrap_err().contains("`fly`"));
}

#[test]
fn names_stay_below_their_directory() {
    for (name, is_fine) in [
        ("a", true),
        ("team/log-reader", true),
        ("../a", false),
        ("/a", false),
        ("a//b", false),
        ("A b", false),
    ] {
        assert_eq!(checked_name(name).is_some(), is_fine, "{name}");
    }
}

#[test]
fn the_file_holds_everything_behind_quotes() {
    let wanted = Wanted {
        directory: "/x".into(),
        description: String::new(),
        mode: Mode::Subagent,
        denied: vec!["bash", "edit"],
    };
    let agent = GeneratedAgent {
        name: "a".to_owned(),
        description: "Use this when: \"x\"\n- or # y".to_owned(),
        prompt: "You do x.\n\n---\nReally.".to_owned(),
    };
    let expected = "---\ndescription: \"Use this when: \\\"x\\\"\\n- or # y\"\nmode: subagent\npermission:\n  bash: deny\n  edit: deny\n---\n\nYou do x.\n\n---\nReally.\n";
    assert_eq!(markdown(&wanted, &agent), expected);
}
