//! `--worktree`: work in a git worktree of its own.

use std::process::Command;

use serde_json::json;

use crate::{cli::Machine, support::llm::Reply};

fn git(machine: &Machine, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(&machine.scratch.work).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn work_in_a_worktree_stays_there_until_it_is_thrown_away() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("Written."));
    let ended = machine.run(&["run", "--worktree=try-it", "write it"]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("Written."), "{ended:?}");
    assert!(ended.stderr.contains("on the branch opencode/try-it"), "{ended:?}");
    assert!(ended.stderr.contains("`windlass worktree remove try-it`"), "{ended:?}");
    assert!(!machine.scratch.exists("new.txt"));

    machine.llm.reply(Reply::call("call_1", "read", json!({"filePath": "new.txt"})));
    machine.llm.reply(Reply::text("Read."));
    let ended = machine.run(&["run", "--worktree=try-it", "read it"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(machine.llm.last_request().tool_result("call_1").contains("new"));

    let listed = machine.run(&["worktree", "list"]).await;
    assert!(listed.stdout.starts_with("try-it  work in it  "), "{listed:?}");
    let refused = machine.run(&["worktree", "remove", "try-it"]).await;
    assert!(refused.code == Some(2) && refused.stderr.contains("--yes throws it away"), "{refused:?}");
    let removed = machine.run(&["worktree", "remove", "--yes", "try-it"]).await;
    assert!(removed.code == Some(0) && removed.stdout.starts_with("Removed "), "{removed:?}");
    assert_eq!(git(&machine, &["branch", "--list", "opencode/*"]), "");
    machine.finish().await;
}

#[tokio::test]
async fn the_projects_configuration_holds_in_a_worktree() {
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", json!({"permission": {"edit": "deny"}}).to_string());
    git(&machine, &["add", "opencode.json"]);
    git(
        &machine,
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.invalid",
            "commit",
            "--quiet",
            "--message",
            "rules",
        ],
    );
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("It was denied."));
    let ended = machine.run(&["run", "--worktree=try-it", "write it"]).await;
    assert!(ended.stderr.contains("Nothing was changed"), "{ended:?}");
    assert!(!ended.stderr.contains("keys and records"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn work_in_a_worktree_is_merged_and_a_conflict_leaves_all_as_it_is() {
    let machine = Machine::new().await;
    for (key, value) in [("user.name", "a"), ("user.email", "a@example.invalid")] {
        git(&machine, &["config", key, value]);
    }
    let write = async |name: &str, file: &str, content: &str| {
        machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": file, "content": content})));
        machine.llm.reply(Reply::text("Written."));
        let ended = machine.run(&["run", &format!("--worktree={name}"), "write it"]).await;
        assert!(ended.stderr.contains(&format!("`windlass worktree merge {name}`")), "{ended:?}");
    };
    write("good", "new.txt", "new\n").await;
    let asked = machine.run(&["worktree", "merge", "good"]).await;
    assert!(
        asked.code == Some(2) && asked.stderr.contains("Not committed in good: 1 file (?? new.txt)."),
        "{asked:?}"
    );
    assert!(!machine.scratch.exists("new.txt"));
    let merged = machine.run(&["worktree", "merge", "--yes", "good"]).await;
    assert!(merged.code == Some(0) && merged.stdout.contains("Merged, and removed "), "{merged:?}");
    assert!(machine.scratch.exists("new.txt"));
    assert!(git(&machine, &["log", "--format=%s"]).starts_with("Work of good\n"));
    assert_eq!(git(&machine, &["branch", "--list", "opencode/*"]), "");

    write("bad", "other.txt", "theirs\n").await;
    machine.scratch.write("other.txt", "ours\n");
    git(&machine, &["add", "other.txt"]);
    git(&machine, &["commit", "--quiet", "--message", "ours"]);
    let stopped = machine.run(&["worktree", "merge", "--yes", "bad"]).await;
    assert!(stopped.code == Some(1) && stopped.stderr.contains("`git merge --abort`"), "{stopped:?}");
    git(&machine, &["merge", "--abort"]);
    assert!(machine.run(&["worktree", "list"]).await.stdout.starts_with("bad  work in it"));
    let unknown = machine.run(&["worktree", "merge", "none"]).await;
    assert!(unknown.stderr.contains("There is no worktree `none`"), "{unknown:?}");
    machine.finish().await;
}

#[tokio::test]
async fn commits_on_another_branch_and_ignored_files_keep_a_worktree() {
    let machine = Machine::new().await;
    let commit = "git switch -qc opencode/other && git -c user.name=a -c user.email=a@example.invalid commit -q \
                  --allow-empty -m work";
    for (name, command) in [("branched", commit), ("ignored", "echo '*' > .gitignore && echo x > report")] {
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
        machine.llm.reply(Reply::text("Done."));
        let ended = machine.run(&["run", &format!("--worktree={name}"), "do it"]).await;
        assert!(ended.code == Some(0) && ended.stderr.contains("The work is in "), "{name}: {ended:?}");
    }
    assert!(git(&machine, &["log", "--format=%s", "opencode/other"]).starts_with("work\n"));
    let listed = machine.run(&["worktree", "list"]).await;
    assert_eq!(listed.stdout.matches("  work in it  ").count(), 2, "{listed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_worktree_whose_directory_has_gone_is_listed_and_removed() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "new\n"})));
    machine.llm.reply(Reply::text("Written."));
    machine.run(&["run", "--worktree=gone", "write it"]).await;
    let listed = machine.run(&["worktree", "list"]).await;
    let directory = listed.stdout.split("  ").nth(2).unwrap().split(" on the branch").next().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let listed = machine.run(&["worktree", "list"]).await;
    assert!(listed.stdout.starts_with("gone  directory gone  "), "{listed:?}");
    let ended = machine.run(&["run", "--worktree=gone", "again"]).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("worktree remove gone"), "{ended:?}");
    let removed = machine.run(&["worktree", "remove", "--yes", "gone"]).await;
    assert!(removed.code == Some(0), "{removed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_worktree_in_which_nothing_was_changed_is_gone_again() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Nothing to do."));
    let ended = machine.run(&["run", "--worktree", "look"]).await;
    assert!(ended.code == Some(0) && ended.stderr.contains("is gone again"), "{ended:?}");
    assert_eq!(git(&machine, &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    let unknown = machine.run(&["worktree", "remove", "nobody"]).await;
    assert!(
        unknown.code == Some(1) && unknown.stderr.contains("There is no worktree `nobody`"),
        "{unknown:?}"
    );
    std::fs::remove_dir_all(machine.scratch.work.join(".git")).unwrap();
    let ended = machine.run(&["run", "--worktree", "look"]).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("commit something first"), "{ended:?}");
    machine.finish().await;
}
