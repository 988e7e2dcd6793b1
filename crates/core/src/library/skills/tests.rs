//! Skills: locations, precedence, and problems.

use std::{fs, os::unix::fs::symlink};

use tempfile::TempDir;
use windlass_base::path::absolute;
use windlass_protocol::opencode::permission::Rule;

use super::*;
use crate::config::{fixture, rules::rule, text_file};

struct Project {
    root: TempDir,
    config: Config,
}

impl Project {
    /// Returns a path below `project/`; `..` leads out of it.
    fn path(&self, name: &str) -> PathBuf {
        absolute(&self.config.directory, name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn root(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }
}

/// Makes a project with the home directory beside it.
fn project() -> Project {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().canonicalize().unwrap();
    fs::create_dir(path.join("project")).unwrap();
    let mut project = Project { config: fixture::project(&path), root };
    project.config.environment.home = project.path("../home");
    project.config.directories = vec![project.path("../home/.config/opencode"), project.path(".opencode")];
    project
}

fn write(project: &Project, place: &str, name: &str, description: &str) {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nbody of {description}\n");
    project.write(&format!("{place}/SKILL.md"), text);
}

/// Returns names with descriptions, without the built-in skill, and the warnings, then the notes.
fn found(project: &Project) -> (Vec<(String, String)>, Vec<String>) {
    let (skills, findings) = scan(&project.config);
    let skills = skills.into_iter().filter(|skill| skill.location.is_some());
    let root = format!("{}/", project.root().display());
    (
        skills.map(|skill| (skill.name, skill.description)).collect(),
        [findings.warnings, findings.notes]
            .concat()
            .iter()
            .map(|it| it.to_string().replace(&root, ""))
            .collect(),
    )
}

fn names(project: &Project) -> Vec<String> {
    found(project).0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn skills_are_found_in_every_place() {
    let mut project = project();
    let places = [
        ("../home/.claude/skills/a", "a"),
        ("../home/.agents/skills/deep/er/b", "b"),
        (".claude/skills/c", "c"),
        (".agents/skills/d", "d"),
        ("../home/.config/opencode/skill/e", "e"),
        (".opencode/skills/f", "f"),
        ("named/g", "g"),
        ("../home/more/h", "h"),
    ];
    for (place, name) in places {
        write(&project, place, name, "text");
    }
    project.config.skills.paths = vec!["named".to_owned(), "~/more".to_owned(), "gone".to_owned()];
    let (skills, warnings) = found(&project);
    let names: Vec<&str> = skills.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(warnings, ["skills.paths.2: project/gone is not a directory"]);
}

#[test]
fn switches_leave_places_out() {
    let mut project = project();
    write(&project, ".claude/skills/c", "c", "text");
    write(&project, ".agents/skills/d", "d", "text");
    write(&project, ".opencode/skill/f", "f", "text");
    let cases: [(&str, &[&str]); 4] = [
        ("OPENCODE_DISABLE_CLAUDE_CODE_SKILLS", &["d", "f"]),
        ("OPENCODE_DISABLE_CLAUDE_CODE", &["d", "f"]),
        ("OPENCODE_DISABLE_EXTERNAL_SKILLS", &["f"]),
        ("OPENCODE_DISABLE_OTHER", &["c", "d", "f"]),
    ];
    for (switch, wanted) in cases {
        project.config.environment.variables = [(switch.to_owned(), "1".to_owned())].into();
        assert_eq!(names(&project), wanted, "{switch}");
    }
}

#[test]
fn a_later_location_wins_with_a_note() {
    let project = project();
    write(&project, "../home/.claude/skills/x", "x", "home");
    write(&project, ".claude/skills/x", "x", "project");
    write(&project, ".opencode/skill/x", "x", "opencode");
    let (skills, warnings) = found(&project);
    assert_eq!(skills, [("x".to_owned(), "opencode".to_owned())]);
    let root = project.root().display().to_string();
    let replaced = |by: &str| format!("the skill `x` is replaced by the one in {root}/project/{by}/SKILL.md");
    let warnings: Vec<String> =
        warnings.into_iter().map(|it| it.replace("project/", &format!("{root}/project/"))).collect();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].ends_with(&replaced(".claude/skills/x")), "{warnings:?}");
    assert!(warnings[1].ends_with(&replaced(".opencode/skill/x")), "{warnings:?}");
}

#[test]
fn one_file_in_two_places_is_one_skill() {
    let project = project();
    write(&project, ".claude/skills/x", "x", "text");
    std::fs::create_dir_all(project.path(".agents/skills")).unwrap();
    symlink(project.path(".claude/skills/x"), project.path(".agents/skills/x")).unwrap();
    // A link back up would be followed for ever.
    symlink(project.path(".claude/skills"), project.path(".claude/skills/round")).unwrap();
    let (skills, warnings) = found(&project);
    assert_eq!((skills.len(), warnings), (1, Vec::new()));
}

#[test]
fn a_skill_has_the_name_it_gives_itself() {
    let project = project();
    let given = ["../../up", "Bee Keeping: 101", "a/b", "star*"];
    for (number, name) in given.iter().enumerate() {
        write(&project, &format!(".opencode/skill/{number}"), &format!("\"{name}\""), "text");
    }
    assert_eq!(
        found(&project),
        (given.map(|name| (name.to_owned(), "text".to_owned())).to_vec(), Vec::new())
    );
    let (skills, _) = scan(&project.config);
    let (commands, _) = crate::library::commands::commands(&project.config, &skills);
    let callable = given.map(|name| commands.contains_key(name));
    assert_eq!(callable, [false, true, true, true]);
}

#[test]
fn broken_skills_are_named_with_their_line() {
    let ok = "---\nname: ok\ndescription: fine\n---\n";
    let cases: [(&str, &[u8], &str); 8] = [
        ("none", b"just text", ":1:1: the skill is ignored: its front matter has no `name`"),
        (
            "open",
            b"---\nname: x\n",
            ":1:1: the skill is ignored: the front matter that begins here has no closing `---`",
        ),
        (
            "nodesc",
            b"---\nname: x\n---\n",
            ":1:1: the skill is ignored: its front matter has no `description`",
        ),
        (
            "list",
            b"---\nname: x\ndescription: [a]\n---\n",
            ":3:1: the skill is ignored: `description` must be a text",
        ),
        (
            "empty",
            b"---\nname: ''\ndescription: a\n---\n",
            ":2:1: the skill is ignored: `name` must be a text",
        ),
        (
            "lines",
            b"---\nname: \"a\\nb\"\ndescription: a\n---\n",
            ":2:1: the skill is ignored: its name must be one line of at most 100 characters",
        ),
        ("binary", b"---\nname: \xff\xfe\n---\n", ":2:7: the skill cannot be read: it is not text in UTF-8"),
        ("yaml", b"---\nname: [x\ndescription: a\n---\n", ": the skill is ignored: is not valid YAML"),
    ];
    for (name, text, wanted) in cases {
        let project = project();
        project.write(&format!(".opencode/skill/{name}/SKILL.md"), text);
        project.write(".opencode/skill/ok/SKILL.md", ok);
        let (skills, warnings) = found(&project);
        assert_eq!(skills.len(), 1, "{name}: {skills:?}");
        let start = format!("project/.opencode/skill/{name}/SKILL.md");
        assert!(warnings[0].starts_with(&start) && warnings[0].contains(wanted), "{name}: {warnings:?}");
    }
}

#[test]
fn a_skill_that_is_not_a_file_blocks_nothing() {
    let project = project();
    std::fs::create_dir_all(project.path(".opencode/skill/pipe")).unwrap();
    let socket = project.path(".opencode/skill/pipe/SKILL.md");
    let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    assert!(found(&project).1[0].contains("it is not a regular file"));
}

#[test]
fn front_matter_may_be_longer_than_the_first_read() {
    let project = project();
    write(&project, ".opencode/skill/x", "x", &"long ".repeat(4000));
    assert_eq!(found(&project).0[0].1.len(), 4 + 3999 * 5);
}

#[test]
fn loading_gives_the_body_and_some_files() {
    let project = project();
    write(&project, ".opencode/skill/x", "x", "text");
    for n_file in 0..12 {
        project.write(&format!(".opencode/skill/x/scripts/{n_file:02}.sh"), "");
    }
    let (skills, _) = scan(&project.config);
    let content = find(&skills, "x").unwrap().load(&project.config.project_files).unwrap();
    assert_eq!((content.body.as_str(), content.files.len()), ("body of text", MAX_FILES));
    assert!(content.files[0].ends_with("scripts/00.sh"));
}

#[test]
fn the_built_in_skill_answers_to_both_names() {
    let config = project().config;
    let (skills, _) = scan(&config);
    for name in [CUSTOMIZE, CUSTOMIZE_ALIAS] {
        let content = find(&skills, name).unwrap().load(&config.project_files).unwrap();
        assert!(content.body.contains("opencode.json"), "{name}");
    }
    assert_eq!(find(&skills, "other"), None);
}

#[test]
fn rules_keep_skills_from_the_model() {
    let skill =
        |name: &str| Skill { name: name.to_owned(), description: "a <b>\nc".to_owned(), location: None };
    let skills = [skill("internal-a"), skill("other")];
    let rules = [rule("*", "*", Action::Allow), rule("skill", "internal-*", Action::Deny)];
    let offered = offered(&skills, &Policy::new(rules.to_vec()));
    assert_eq!(lines(&offered), "- other: a <b> c");
    let wanted = "<available_skills>\n  <skill>\n    <name>other</name>\n    <description>a &lt;b&gt;\nc</description>\n    \
                  <location>built in</location>\n  </skill>\n</available_skills>";
    assert!(listing(&offered).ends_with(wanted), "{}", listing(&offered));
    assert_eq!(listing(&[]), "");
}

#[test]
fn skill_directories_may_be_read_unless_the_user_says_otherwise() {
    let verdict = |permission: Vec<Rule>, managed: Vec<Rule>| {
        let mut project = project();
        project.config.managed.general = managed;
        write(&project, "../home/.claude/skills/x", "x", "text");
        project.config.permission = permission;
        let (skills, _) = scan(&project.config);
        let (agents, _) = crate::library::agents(&project.config, &skills);
        let pattern = format!("{}/*", project.path("../home/.claude/skills/x").display());
        ["build", "explore"].map(|name| {
            let agent = agents.iter().find(|agent| agent.name == name).unwrap();
            agent.policy.evaluate("external_directory", &pattern)
        })
    };
    let denied = || vec![rule("external_directory", "*", Action::Deny)];
    let elsewhere = || vec![rule("bash", "rm *", Action::Deny)];
    assert_eq!(verdict(Vec::new(), Vec::new()), [Action::Allow; 2]);
    assert_eq!(verdict(denied(), Vec::new()), [Action::Deny; 2]);
    assert_eq!(verdict(denied(), elsewhere()), [Action::Deny; 2]);
    assert_eq!(verdict(Vec::new(), denied()), [Action::Deny; 2]);
}

#[test]
fn a_skill_with_binary_data_far_into_its_text_is_reported_and_not_listed() {
    let project = project();
    let head = b"---\nname: x\ndescription: text\n---\n".to_vec();
    let text = [head, b"line\n".repeat(4000), b"ab \xff\n".to_vec()].concat();
    project.write(".opencode/skill/x/SKILL.md", text);
    let (skills, warnings) = found(&project);
    assert_eq!(skills, []);
    assert_eq!(
        warnings,
        ["project/.opencode/skill/x/SKILL.md:4005:4: the skill cannot be read: it is not text in UTF-8"]
    );
    // A skill may break between the listing and its use.
    let location = Some(project.path(".opencode/skill/x/SKILL.md"));
    let skill = Skill { name: "x".to_owned(), description: "text".to_owned(), location };
    let reason = skill.load(&project.config.project_files).unwrap_err();
    assert!(reason.ends_with("/SKILL.md:4005:4 cannot be read: it is not text in UTF-8"), "{reason}");
}

#[test]
fn a_skill_too_large_to_load_is_reported_and_not_listed() {
    let project = project();
    let text =
        |n_bytes: u64| format!("---\nname: x\ndescription: text\n---\n{}", "x".repeat(n_bytes as usize));
    project.write(".opencode/skill/x/SKILL.md", text(text_file::MAX_BYTES));
    let (skills, warnings) = found(&project);
    assert_eq!(skills, []);
    assert_eq!(
        warnings,
        ["project/.opencode/skill/x/SKILL.md: the skill cannot be read: it is larger than 1 MiB"]
    );
    project.write(".opencode/skill/x/SKILL.md", text(text_file::MAX_BYTES - 100));
    assert_eq!(names(&project), ["x"]);
}

#[test]
fn an_endless_search_is_cut_and_reported() {
    let project = project();
    write(&project, ".opencode/skill/near", "near", "text");
    let much = project.path(".opencode/skill/much/data");
    std::fs::create_dir_all(&much).unwrap();
    for idx in 0..MAX_ENTRIES {
        std::fs::File::create(much.join(idx.to_string())).unwrap();
    }
    write(&project, ".opencode/skill/much/data/far/er", "far", "text");
    // Package directories are neither searched nor counted.
    write(&project, ".agents/skills/vendor/node_modules/x", "package", "text");
    let (skills, warnings) = found(&project);
    assert_eq!(skills, [("near".to_owned(), "text".to_owned())]);
    let message = "skills are looked for among the nearest 20000 files and directories only";
    assert_eq!(warnings, [format!("project/.opencode/skill: {message}")]);
}

#[test]
fn a_location_that_is_not_a_directory_is_reported() {
    let mut project = project();
    project.write(".opencode/skills", "a file");
    std::fs::create_dir_all(project.path(".agents")).unwrap();
    symlink("nowhere", project.path(".agents/skills")).unwrap();
    project.write(".claude", "a file where a directory might be");
    // Home and project are the same directory, which is searched once.
    project.config.environment.home = project.root().join("project");
    let (_, warnings) = found(&project);
    let cannot = "cannot be read, so skills in it are left out";
    assert_eq!(
        warnings,
        [
            format!("project/.agents/skills: {cannot}: No such file or directory"),
            format!("project/.opencode/skills: {cannot}: Not a directory"),
        ]
    );
}
