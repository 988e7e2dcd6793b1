//! Commands by the hundred: what they may be called, and what they do all the same.

use windlass_protocol::opencode::permission::Action;

use crate::{
    config::{policy::Policy, rules::rule},
    permission::{
        Ask, Verdict,
        bash::{analyse, refusal},
        evaluate_all,
    },
};

/// The commands of a list, a line each; a line feed within one is written `␤`.
fn listed(list: &str) -> Vec<String> {
    list.lines().map(|line| line.replace('␤', "\n")).collect()
}

/// What `* = allow` and `rm * = deny` say of a command.
fn verdict(command: &str) -> Verdict {
    let rules = [rule("bash", "*", Action::Allow), rule("bash", "rm *", Action::Deny)];
    let patterns = analyse(command).patterns;
    let (always, metadata) = (Vec::new(), Default::default());
    evaluate_all(
        &Ask { permission: "bash".to_owned(), patterns, always, metadata },
        &Policy::new(rules.to_vec()),
        &[],
    )
}

#[test]
fn every_way_to_run_rm_meets_the_rule_about_it() {
    for command in listed(include_str!("../../../../fixtures/permission/runs_rm.txt")) {
        assert!(matches!(verdict(&command), Verdict::Deny { .. }), "{command}: {:?}", analyse(&command));
    }
}

#[test]
fn what_only_running_would_tell_counts_as_any_command() {
    for command in listed(include_str!("../../../../fixtures/permission/runs_anything.txt")) {
        let analysis = analyse(&command);
        assert!(analysis.is_unknowable && analysis.always.is_empty(), "{command}: {analysis:?}");
    }
}

#[test]
fn ordinary_commands_raise_nothing() {
    let commands = listed(include_str!("../../../../fixtures/permission/runs_what_it_says.txt"));
    let raises = |command: &String| {
        refusal(command).is_some() || verdict(command) != Verdict::Allow || analyse(command).is_unknowable
    };
    let raising: Vec<&String> = commands.iter().filter(|command| raises(command)).collect();
    assert!(raising.is_empty(), "{raising:#?}");
}

/// A command and its paths a line, the paths apart by spaces.
#[test]
fn every_file_that_is_read_or_written_is_a_path() {
    for line in listed(include_str!("../../../../fixtures/permission/names_paths.txt")) {
        let (command, paths) = line.split_once('\t').unwrap();
        let found: Vec<String> = analyse(command).paths.into_iter().map(|path| path.text).collect();
        assert_eq!(found.join(" "), paths, "{command}");
    }
}
