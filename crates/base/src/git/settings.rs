//! Reads the text of a git configuration line by line (git-config(1), "Syntax").
//!
//! A value that goes on over several lines is cut at the first, and its further lines are read as settings of their
//! own: a search for harmful settings finds too many rather than too few.

/// A setting of a file, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// In lower case; with a subsection as `remote "origin"`.
    pub section: String,
    /// In lower case.
    pub name: String,
    /// None for a name alone, which is true.
    pub value: Option<String>,
}

impl Setting {
    /// Returns true for this setting of a section without a subsection.
    pub fn is(&self, section: &str, name: &str) -> bool {
        (self.section.as_str(), self.name.as_str()) == (section, name)
    }
}

/// Returns the settings of a file. Included files are not read.
pub fn settings(text: &str) -> Vec<Setting> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some((header, rest)) = line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            section = header.trim().to_lowercase();
            line = rest.trim();
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) if !name.contains(['#', ';']) => (name, Some(unquoted(value))),
            Some(_) | None => (line.split(['#', ';']).next().unwrap_or_default(), None),
        };
        let name = name.trim().to_lowercase();
        if !name.is_empty() {
            found.push(Setting { section: section.clone(), name, value });
        }
    }
    found
}

/// Returns a value without its quotes and its comment.
fn unquoted(text: &str) -> String {
    let (mut value, mut n_kept, mut is_quoted) = (String::new(), 0, false);
    let mut letters = text.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => value.extend(letters.next()),
            '#' | ';' if !is_quoted => break,
            letter => value.push(letter),
        }
        if is_quoted || !letter.is_whitespace() {
            n_kept = value.len();
        }
    }
    value.truncate(n_kept);
    value
}

#[cfg(test)]
mod tests {
    //! Settings in every form in which git writes and reads them.

    use super::settings;

    #[test]
    fn settings_are_read_as_git_writes_them() {
        let check = |text: &str, wanted: &[&str]| {
            let found: Vec<String> = settings(text)
                .into_iter()
                .map(|it| format!("{}.{}={}", it.section, it.name, it.value.unwrap_or("(none)".into())))
                .collect();
            assert_eq!(found, wanted, "{text}");
        };
        check("[core]\n\tfileMode = true\n", &["core.filemode=true"]);
        check("[CORE] Bare # a = b\n; x = y\n", &["core.bare=(none)"]);
        check("[remote \"Origin\"]\n\turl = a ; why\n", &["remote \"origin\".url=a"]);
        check("[x]\na = \"b # \\\"c\\\" \" # d\n", &["x.a=b # \"c\" "]);
        check("[x]\na = \"\"\nb = a\\\\b;c\n", &["x.a=", "x.b=a\\b"]);
        check("[x]\na = b \\\n c = d\n", &["x.a=b ", "x.c=d"]);
        check("[x \"]\"] a = b\n", &["x \".\"] a=b"]);
    }
}
