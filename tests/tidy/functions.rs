//! Refuses functions that are longer than a reader can take in.

const MAX_LINES: usize = 90;

#[test]
fn functions_stay_short() {
    let mut problems = Vec::new();
    for (path, text) in super::rust_files() {
        for (name, n_lines) in functions(&text) {
            if n_lines > MAX_LINES {
                problems
                    .push(format!("{}: {name} has {n_lines} lines, more than {MAX_LINES}", path.display()));
            }
        }
    }
    super::report(problems);
}

#[test]
fn functions_are_measured_from_their_name_to_their_end() {
    let text = "impl A {\n    pub(super) const fn one(&self) -> u8 {\n        1\n    }\n\n    async fn two() {}\n}\n\nfn three(\n    a: u8,\n) {\n    a;\n}\n\n// No fn here.\ntrait T {\n    fn four(&self);\n}\n";
    let expected = [("one", 3), ("two", 1), ("three", 5), ("four", 1)];
    assert_eq!(functions(text), expected);
}

/// Returns the functions of a formatted file, each with its number of lines.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let measured = lines.iter().enumerate().filter_map(|(idx, line)| {
        let name = name(line)?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest.starts_with('}') || rest.ends_with(';') && rest.starts_with(')'))
        };
        let n_more = if line.ends_with(['}', ';']) { Some(0) } else { lines[idx..].iter().position(is_end) };
        Some((name, n_more.unwrap_or_default() + 1))
    });
    measured.collect()
}

/// Returns the name of the function that begins in a line.
fn name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        ["async", "const", "extern", "unsafe"].contains(&word)
            || word.starts_with("pub")
            || word.starts_with('"')
    };
    let is_function =
        before.split_whitespace().all(is_qualifier) && (before.is_empty() || before.ends_with(' '));
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    is_function.then(|| &rest[..end]).filter(|name| !name.is_empty())
}
