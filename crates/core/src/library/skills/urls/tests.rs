//! Lists from servers, and the copies kept of them.

use serde_json::json;

use super::{KeptSkill, Listed, Listing, cache, directory, list_file, locations, place, prune, read_index};
use crate::config::{Environment, paths::Paths};

fn read(index: serde_json::Value) -> (Vec<Listed>, Vec<String>) {
    read_index(index.to_string().as_bytes()).unwrap()
}

fn paths(scratch: &tempfile::TempDir) -> Paths {
    let variables = [("WINDLASS_HOME".to_owned(), scratch.path().display().to_string())];
    let environment =
        Environment { trusts_projects: true, home: scratch.path().to_owned(), variables: variables.into() };
    Paths::new(&environment)
}

#[test]
fn an_index_lists_skills_with_their_files() {
    let (listed, problems) = read(json!({"skills": [
        {"name": "bees", "files": ["SKILL.md", "scripts/smoke.sh", "SKILL.md"], "version": "1.2"},
        {"name": "ants", "files": ["SKILL.md"], "version": 3, "extra": true},
        {"name": "wasps", "files": ["SKILL.md"]},
    ]}));
    let skill = |name: &str, files: &[&str], version: Option<&str>| Listed {
        name: name.to_owned(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        version: version.map(str::to_owned),
    };
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        listed,
        [
            skill("bees", &["SKILL.md", "scripts/smoke.sh"], Some("1.2")),
            skill("ants", &["SKILL.md"], Some("3")),
            skill("wasps", &["SKILL.md"], None),
        ]
    );
}

#[test]
fn unusable_skills_are_left_out_with_the_reason() {
    let with_file = |file: &str| json!({"name": "x", "files": ["SKILL.md", file]});
    let mut cases = vec![
        (json!({"files": ["SKILL.md"]}), "it has no `name`"),
        (json!({"name": "../up", "files": ["SKILL.md"]}), "its name \"../up\" is not one word"),
        (json!({"name": "x"}), "it has no list `files`"),
        (json!({"name": "x", "files": []}), "it lists no SKILL.md"),
        (json!({"name": "x", "files": ["SKILL.md", 1]}), "its file 1 is not a path below"),
        (json!({"name": "x", "files": vec!["SKILL.md"; 101]}), "it has more than 100 files"),
        (json!("x"), "it has no `name`"),
    ];
    let long = "x".repeat(256);
    for file in ["../a", "/a", "a/../b", "a//b", "", ".", "a\\b", "c:a", "a\nb", &long] {
        cases.push((with_file(file), "is not a path below the skill's directory"));
    }
    for (entry, reason) in cases {
        let (listed, problems) = read(json!({"skills": [entry, {"name": "ok", "files": ["SKILL.md"]}]}));
        assert_eq!(listed.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["ok"], "{entry}");
        assert!(problems[0].starts_with("skill 1 of its list is left out: "), "{problems:?}");
        assert!(problems[0].contains(reason), "{problems:?} for {entry}");
    }
}

#[test]
fn a_malformed_index_is_refused_and_a_long_one_is_cut() {
    for (text, reason) in
        [("<html>", "is not JSON"), ("[]", "has no list `skills`"), (r#"{"skills": {}}"#, "has no list")]
    {
        assert!(read_index(text.as_bytes()).unwrap_err().contains(reason), "{text}");
    }
    let entry = |n: usize| json!({"name": format!("s{n}"), "files": ["SKILL.md"]});
    let (listed, problems) = read(json!({"skills": (0..201).map(entry).collect::<Vec<_>>()}));
    assert_eq!((listed.len(), problems.len()), (200, 1));
    let (listed, problems) = read(json!({"skills": [entry(1), entry(1)]}));
    assert_eq!(
        (listed.len(), problems.as_slice()),
        (1, &["lists the skill `s1` twice; the first holds".to_owned()][..])
    );
}

#[test]
fn only_the_previous_version_is_kept_for_turns_that_read_it() {
    let scratch = tempfile::tempdir().unwrap();
    let paths = paths(&scratch);
    let url = "https://example.com/skills";
    let version = |version: &str| KeptSkill { name: "bees".to_owned(), version: version.to_owned() };
    let mut before = Vec::new();
    for held in ["1", "2", "3"] {
        let skill = version(held);
        std::fs::create_dir_all(place(&directory(&paths, url), &skill)).unwrap();
        let now = Listing { url: url.to_owned(), entries: vec![skill.clone()], problems: Vec::new() };
        cache::write(&list_file(&paths, url), &now).unwrap();
        prune(&paths, &now, &before).unwrap();
        assert_eq!(cache::read(&list_file(&paths, url), url).unwrap(), Some(now));
        before = vec![skill];
    }
    let is_there = |held: &str| place(&directory(&paths, url), &version(held)).exists();
    assert_eq!(["1", "2", "3"].map(is_there), [false, true, true]);
    assert_eq!(locations(&paths, url).0, [directory(&paths, url).join("bees/3/SKILL.md")]);
}

#[test]
fn an_index_on_disk_that_names_other_places_is_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let paths = paths(&scratch);
    let skill = |name: &str, version: &str| KeptSkill { name: name.to_owned(), version: version.to_owned() };
    let skills = vec![skill("..", "1"), skill("a", ".."), skill("a/b", "1")];
    let listing = Listing { url: "u".to_owned(), entries: skills, problems: vec!["p".to_owned()] };
    cache::write(&list_file(&paths, "u"), &listing).unwrap();
    assert_eq!(locations(&paths, "u"), (Vec::new(), vec!["p".to_owned()]));
    let other = cache::read::<Listing<KeptSkill>>(&list_file(&paths, "u"), "other");
    assert_eq!(other.unwrap(), None);
}
