//! Refuses files that import each other in a circle.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

/// Imports of each module of a folder from the others, by their paths.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_import_each_other_in_one_direction() {
    let circles = |imports: &Imports| -> Vec<String> {
        imports.keys().filter_map(|name| circle(name, imports)).collect()
    };
    super::report(super::crates().iter().flat_map(|folder| circles(&imports(folder))).collect());
}

#[test]
fn folders_of_the_engine_import_each_other_in_one_direction() {
    let mut folders = Imports::new();
    for (name, imported) in imports("crates/engine/src") {
        let top = |name: &str| name.split("::").next().unwrap().to_owned();
        let from = top(&name);
        let others = imported.iter().map(|it| top(it)).filter(|to| *to != from);
        folders.entry(from.clone()).or_default().extend(others);
    }
    super::report(folders.keys().filter_map(|name| circle(name, &folders)).collect());
}

/// Returns the imports between the files of a crate.
fn imports(folder: &str) -> Imports {
    let texts: BTreeMap<String, String> = super::files(folder, "rs")
        .into_iter()
        .filter(|(path, _)| !["tests.rs", "lib.rs", "main.rs"].iter().any(|it| path.ends_with(it)))
        .map(|(path, text)| (module(&path, folder), super::code(without_tests(&text))))
        .collect();
    let names: BTreeSet<&str> = texts.keys().map(String::as_str).collect();
    // A crate of several modules has a façade for each, with items that their files may use.
    let has_facades = holds_modules_alone(folder);
    let is_facade =
        |name: &str, of: &str| has_facades && !name.contains("::") && of.starts_with(&format!("{name}::"));
    texts
        .iter()
        .map(|(name, code)| {
            let imported = paths(code).into_iter().filter_map(|path| resolved(&path, name, &names));
            (name.clone(), imported.filter(|it| it != name && !is_facade(it, name)).collect())
        })
        .collect()
}

#[test]
fn a_circle_is_found_in_every_form_of_an_import() {
    let code =
        "pub use super::a::{B, c::{self, D}};\nfn f() { crate::x::g::h(); super::i(); }\nuse std::fmt;";
    let expected =
        ["super::a::B", "super::a::c::self", "super::a::c::D", "std::fmt", "crate::x::g::h", "super::i"];
    assert_eq!(paths(code), expected);
    let names = BTreeSet::from(["x::a", "x::a::c", "x::b"]);
    let resolved = |path: &str| resolved(path, "x::b", &names);
    assert_eq!(resolved("super::a::c::D").as_deref(), Some("x::a::c"));
    assert_eq!(resolved("crate::x::a").as_deref(), Some("x::a"));
    assert_eq!(resolved("super::Engine"), None);
    let edge = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let imports = Imports::from([edge("x::a", "x::b"), edge("x::b", "x::c"), edge("x::c", "x::a")]);
    assert_eq!(circle("x::a", &imports).as_deref(), Some("x::a imports x::b imports x::c imports x::a"));
    assert_eq!(circle("x::a", &Imports::from([edge("x::a", "x::b"), edge("x::c", "x::a")])), None);
}

/// Returns a file's text before its inline tests, which may import anything.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

/// Returns true if the root of a crate does nothing but name its modules.
fn holds_modules_alone(folder: &str) -> bool {
    let text = std::fs::read_to_string(super::root().join(folder).join("lib.rs")).unwrap();
    text.lines().all(|line| line.is_empty() || line.starts_with("//!") || line.starts_with("pub mod "))
}

/// Returns the path of a file's module in its crate: `src/cli/view/look.rs` is `cli::view::look`.
fn module(path: &Path, folder: &str) -> String {
    let parts = path.strip_prefix(folder).unwrap().with_extension("");
    parts.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("::")
}

/// Returns the paths that code imports, then those it names in full.
fn paths(code: &str) -> Vec<String> {
    let (mut imported, mut others) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let is_import = |at: &usize| statement[..*at].chars().next_back().is_none_or(char::is_whitespace);
        let start = statement.match_indices("use ").map(|(at, _)| at).find(is_import);
        match start.map(|at| statement.split_at(at)) {
            Some((before, tree)) => {
                others.push_str(before);
                expand("", tree.trim_start_matches("use ").trim_end_matches(';'), &mut imported);
            }
            None => others.push_str(statement),
        }
    }
    let is_path = |char: char| char.is_alphanumeric() || "_:".contains(char);
    let named = others.split(|char: char| !is_path(char));
    imported
        .extend(named.filter(|it| it.starts_with("super::") || it.starts_with("crate::")).map(str::to_owned));
    imported
}

/// Writes out the braces of an import.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some((head, list)) = tree.split_once('{') else {
        let path = format!("{prefix}{}", tree.trim());
        return if !tree.trim().is_empty() {
            found.push(path)
        };
    };
    let prefix = format!("{prefix}{}", head.trim());
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let (mut depth, mut start) = (0, 0);
    for (at, char) in list.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &list[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &list[start..], found);
}

/// Returns the module of `names` that a path written in the module `from` leads to.
fn resolved(path: &str, from: &str, names: &BTreeSet<&str>) -> Option<String> {
    let mut place: Vec<&str> = from.split("::").collect();
    for part in path.split("::") {
        match part {
            "crate" => place.clear(),
            "super" => _ = place.pop(),
            "self" => {}
            part => place.push(part),
        }
    }
    let starts = (1..=place.len()).rev().map(|n_parts| place[..n_parts].join("::"));
    starts.into_iter().find(|start| names.contains(start.as_str()))
}

/// Returns the shortest way from a module back to itself.
fn circle(name: &str, imports: &Imports) -> Option<String> {
    let mut ways = VecDeque::from([vec![name]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in imports.get(*way.last()?).into_iter().flatten() {
            if next == name {
                return Some([way, vec![name]].concat().join(" imports "));
            }
            if seen.insert(next) {
                ways.push_back([way.clone(), vec![next.as_str()]].concat());
            }
        }
    }
    None
}
