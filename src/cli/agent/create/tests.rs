//! Questions on a terminal, and the file that results.

use std::path::Path;

use serde_json::json;
use windlass_core::config::{Environment, fixture::load, paths::Paths};

use super::{CreateArgs, GeneratedAgent, Mode, Wanted, allowed, checked_name, markdown, permission, wanted};

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

/// Returns the result of an interview, and the text that it showed.
fn interview(args: &CreateArgs, typed: &str) -> (Result<Wanted, String>, String) {
    let environment = Environment { trusts_projects: true, home: "/home".into(), ..Environment::default() };
    let mut shown = Vec::new();
    let mut input = typed.as_bytes();
    let result = wanted(args, &environment, Path::new("/nowhere"), Some((&mut input, &mut shown)));
    (result, String::from_utf8(shown).unwrap())
}

#[test]
fn a_terminal_is_asked_for_what_the_flags_do_not_say() {
    let (result, shown) = interview(&no_flags(), "2\nReads logs.\nread, grep\nsubagent\n");
    let wanted = result.unwrap();
    assert_eq!((&wanted.directory, wanted.mode), (&"/home/.config/opencode".into(), Mode::Subagent));
    assert_eq!(wanted.description, "Reads logs.");
    assert_eq!(wanted.allowed, Some(vec!["grep", "read"]));
    assert!(shown.contains("1 this project (/nowhere/.opencode)"), "{shown}");

    let (result, _) = interview(&no_flags(), "\nReads logs.\n\n\n");
    let expected = Wanted {
        directory: "/nowhere/.opencode".into(),
        description: "Reads logs.".to_owned(),
        mode: Mode::All,
        allowed: None,
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
        ("1\nx\nfly\n", "Unknown permission `fly`"),
        ("1\nx\nall\nmaybe\n", "`maybe` is not a mode"),
    ] {
        let (result, _) = interview(&no_flags(), typed);
        let error = result.unwrap_err();
        assert!(error.contains(reason), "{typed:?}: {error}");
    }
}

#[test]
fn a_list_names_the_permissions_there_are() {
    let all = ["bash", "edit", "read"];
    let of = |names: &[&str]| allowed(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), &all);
    assert_eq!(of(&["all"]), Ok(None));
    assert_eq!(of(&["read", "write", ""]), Ok(Some(vec!["edit", "read"])));
    assert_eq!(of(&["none"]), Ok(Some(Vec::new())));
    assert!(of(&["read", "fly"]).unwrap_err().contains("`fly`"));
}

#[test]
fn what_is_not_allowed_is_denied_and_the_rest_stays_as_the_configuration_has_it() {
    let of = |user: &str, allowed: &[&str]| {
        let variables = [("OPENCODE_PERMISSION".to_owned(), user.to_owned())].into();
        let environment = Environment { trusts_projects: true, variables, home: "/home/me".into() };
        let config = load(&environment, &Paths::new(&environment), Path::new("/nowhere"));
        json!(permission(allowed, &config))
    };
    let read = json!({"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"});
    assert_eq!(of("{}", &[]), json!({"*": "deny"}));
    assert_eq!(
        of("{}", &["read", "question"]),
        json!({"*": "deny", "doom_loop": "ask", "external_directory": "ask", "read": read, "question": "allow"})
    );
    let user = r#"{"bash": {"*": "ask", "git *": "allow", "rm *": "deny"}, "external_directory": {"~/lib/*": "allow"}}"#;
    let made = of(user, &["bash"]);
    assert_eq!(made["bash"], json!({"*": "ask", "git *": "allow", "rm *": "deny"}));
    assert_eq!(made["external_directory"], json!({"*": "ask", "~/lib/*": "allow"}));
    assert_eq!(
        of(r#""ask""#, &["grep"]),
        json!({"*": "deny", "doom_loop": "ask", "external_directory": "ask", "grep": "ask"})
    );
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&made)[0], "*", "what is allowed stands behind the denial");
    assert_eq!(keys(&made["bash"]), ["*", "git *", "rm *"]);
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
    let permission = json!({"*": "deny", "grep": "allow", "bash": {"*": "ask", "git: *": "allow"}});
    let agent = GeneratedAgent {
        name: "a".to_owned(),
        description: "Use this when: \"x\"\n- or # y".to_owned(),
        prompt: "You do x.\n\n---\nReally.".to_owned(),
    };
    let expected = "---\ndescription: \"Use this when: \\\"x\\\"\\n- or # y\"\nmode: subagent\npermission:\n  \"*\": deny\n  grep: allow\n  bash:\n    \"*\": ask\n    \"git: *\": allow\n---\n\nYou do x.\n\n---\nReally.\n";
    assert_eq!(markdown(Mode::Subagent, &agent, permission.as_object()), expected);
}
