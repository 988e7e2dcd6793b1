//! The patch format of GPT models: parses hunks and applies them to a file's text. Pure.

/// The changes of a patch to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hunk {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, move_to: Option<String>, chunks: Vec<Chunk> },
}

/// One changed place of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Lines to look for first, one after the other: a class, then a method in it.
    pub contexts: Vec<String>,
    pub lines: Vec<ChunkLine>,
    pub is_at_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkLine {
    Keep(String),
    Remove(String),
    Add(String),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch; the error describes the mistake.
pub fn parse(text: &str) -> Result<Vec<Hunk>, String> {
    let text = text.replace("\r\n", "\n");
    let text = without_heredoc(text.trim());
    let lines: Vec<&str> = text.split('\n').collect();
    let begin = lines.iter().position(|line| line.trim() == BEGIN);
    let end = lines.iter().rposition(|line| line.trim() == END);
    let body = begin.zip(end).and_then(|(begin, end)| lines.get(begin + 1..end));
    let Some(body) = body else {
        return Err("Invalid patch format: missing Begin/End markers".to_owned());
    };
    let mut hunks = Vec::new();
    let mut rest = body;
    while let [line, after @ ..] = rest {
        rest = after;
        let header = |name: &str| line.trim_end().strip_prefix(name).map(str::trim);
        if let Some(path) = header("*** Add File:") {
            let content = take_added(named(path, line)?, &mut rest)?;
            hunks.push(Hunk::Add { path: path.to_owned(), content });
        } else if let Some(path) = header("*** Delete File:") {
            hunks.push(Hunk::Delete { path: named(path, line)?.to_owned() });
        } else if let Some(path) = header("*** Update File:") {
            hunks.push(take_update(named(path, line)?, &mut rest)?);
        } else if !line.trim().is_empty() {
            return Err(format!("Invalid patch format: unexpected line '{line}'"));
        }
    }
    Ok(hunks)
}

fn named<'a>(path: &'a str, line: &str) -> Result<&'a str, String> {
    if path.is_empty() { Err(format!("Invalid patch format: no path in '{line}'")) } else { Ok(path) }
}

/// Returns the content of `cat <<'EOF' … EOF`, if the patch is wrapped in one.
fn without_heredoc(text: &str) -> &str {
    let unwrapped = || {
        let (first, rest) = text.split_once('\n')?;
        let word = first.strip_prefix("cat").unwrap_or(first).trim().strip_prefix("<<")?.trim();
        let word = word.trim_matches(['\'', '"']);
        let body = rest.trim_end().strip_suffix(word)?.strip_suffix('\n')?;
        let is_word = !word.is_empty() && word.chars().all(|char| char.is_alphanumeric() || char == '_');
        is_word.then_some(body)
    };
    unwrapped().unwrap_or(text)
}

fn is_header(line: &str) -> bool {
    ["*** Add File:", "*** Delete File:", "*** Update File:"].iter().any(|header| line.starts_with(header))
}

/// Takes the lines up to the next file, without the empty ones at their end.
fn take_section<'a, 'b>(rest: &mut &'b [&'a str]) -> &'b [&'a str] {
    let n_lines = rest.iter().position(|line| is_header(line)).unwrap_or(rest.len());
    let (section, after) = rest.split_at(n_lines);
    *rest = after;
    let n_filled = section.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    section.get(..n_filled).unwrap_or_default()
}

fn take_added(path: &str, rest: &mut &[&str]) -> Result<String, String> {
    let mut content = String::new();
    for line in take_section(rest) {
        let text = match line.strip_prefix('+') {
            Some(text) => text,
            None if line.is_empty() => "",
            None if *line == END_OF_FILE => continue,
            None => {
                return Err(format!(
                    "Invalid patch format: '{line}' in the new file {path} has no + before it"
                ));
            }
        };
        content.push_str(text);
        content.push('\n');
    }
    Ok(content)
}

fn take_update(path: &str, rest: &mut &[&str]) -> Result<Hunk, String> {
    let mut lines = take_section(rest);
    let mut move_to = None;
    if let [first, after @ ..] = lines
        && let Some(target) = first.strip_prefix("*** Move to:")
    {
        move_to = Some(named(target.trim(), first)?.to_owned());
        lines = after;
    }
    let mut chunks: Vec<Chunk> = Vec::new();
    for line in lines {
        if let Some(context) = line.strip_prefix("@@") {
            let context = without_numbers(context).trim();
            // Consecutive headers lead to one place.
            if chunks.last().is_none_or(|chunk| !chunk.lines.is_empty() || chunk.is_at_end) {
                chunks.push(Chunk::default());
            }
            if let Some(chunk) = chunks.last_mut().filter(|_| !context.is_empty()) {
                chunk.contexts.push(context.to_owned());
            }
            continue;
        }
        if chunks.is_empty() && line.is_empty() {
            continue;
        }
        if chunks.is_empty() {
            chunks.push(Chunk::default());
        }
        let Some(chunk) = chunks.last_mut() else { continue };
        if line.trim_end() == END_OF_FILE {
            chunk.is_at_end = true;
            continue;
        }
        let sign = line.chars().next();
        let text = line.get(1..).unwrap_or_default().to_owned();
        match sign {
            None | Some(' ') => chunk.lines.push(ChunkLine::Keep(text)),
            Some('-') => chunk.lines.push(ChunkLine::Remove(text)),
            Some('+') => chunk.lines.push(ChunkLine::Add(text)),
            Some('\\') => {}
            Some(_) => {
                return Err(format!(
                    "Invalid patch format: '{line}' in the update of {path} begins with none of ' ', '-', '+' and '@@'"
                ));
            }
        }
    }
    chunks.retain(|chunk| !chunk.lines.is_empty());
    if chunks.is_empty() && move_to.is_none() {
        return Err(format!("Invalid patch format: the update of {path} has no lines"));
    }
    Ok(Hunk::Update { path: path.to_owned(), move_to, chunks })
}

/// Removes the line numbers from a header: models that know unified diffs write `@@ -1,2 +1,3 @@ context`, and
/// the numbers are guesses.
fn without_numbers(header: &str) -> &str {
    match header.trim_start().split_once("@@") {
        Some((numbers, context)) if numbers.starts_with('-') && numbers.contains('+') => context,
        Some(_) | None => header,
    }
}

/// Returns the text with the chunks applied in order. Lines that they keep stay the same byte for byte.
pub fn apply(path: &str, text: &str, chunks: &[Chunk]) -> Result<String, String> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let bare: Vec<&str> = lines
        .iter()
        .map(|line| {
            let line = line.strip_suffix('\n').unwrap_or(line);
            line.strip_suffix('\r').unwrap_or(line)
        })
        .collect();
    let mut output = String::with_capacity(text.len());
    let mut done = 0;
    for chunk in chunks {
        let located = locate(path, &bare, done, chunk)?;
        lines.get(done..located.start).unwrap_or_default().iter().for_each(|line| output.push_str(line));
        let mut at = located.start;
        for line in chunk.lines.get(..located.n_used).unwrap_or_default() {
            match line {
                ChunkLine::Keep(_) => {
                    output.push_str(lines.get(at).copied().unwrap_or_default());
                    at += 1;
                }
                ChunkLine::Remove(_) => at += 1,
                ChunkLine::Add(added) => {
                    // The file's last line may have had no end.
                    if !output.is_empty() && !output.ends_with('\n') {
                        output.push_str(line_end);
                    }
                    output.push_str(added);
                    output.push_str(line_end);
                }
            }
        }
        done = at;
    }
    lines.get(done..).unwrap_or_default().iter().for_each(|line| output.push_str(line));
    Ok(output)
}

/// The start of a chunk, and the number of its lines that count.
struct LocatedChunk {
    start: usize,
    n_used: usize,
}

fn locate(path: &str, lines: &[&str], from: usize, chunk: &Chunk) -> Result<LocatedChunk, String> {
    let mut from = from;
    for context in &chunk.contexts {
        let found = seek(lines, &[context.as_str()], from, false);
        from = 1 + found.ok_or_else(|| format!("Failed to find context '{context}' in {path}"))?;
    }
    let old: Vec<&str> = chunk.lines.iter().filter_map(old_line).collect();
    let n_used = chunk.lines.len();
    if old.is_empty() {
        let start = if chunk.contexts.is_empty() { lines.len() } else { from };
        return Ok(LocatedChunk { start, n_used });
    }
    if let Some(start) = seek(lines, &old, from, chunk.is_at_end) {
        return Ok(LocatedChunk { start, n_used });
    }
    // An empty line at the end may only have been meant to separate the chunk.
    if let (Some(ChunkLine::Keep(last)), [before @ .., _]) = (chunk.lines.last(), old.as_slice())
        && last.is_empty()
        && !before.is_empty()
        && let Some(start) = seek(lines, before, from, chunk.is_at_end)
    {
        return Ok(LocatedChunk { start, n_used: n_used - 1 });
    }
    Err(format!("Failed to find expected lines in {path}:\n{}", old.join("\n")))
}

fn old_line(line: &ChunkLine) -> Option<&str> {
    match line {
        ChunkLine::Keep(text) | ChunkLine::Remove(text) => Some(text),
        ChunkLine::Add(_) => None,
    }
}

/// Returns the first matching place from `from` on, by ever looser comparisons; for a chunk at the end of the
/// file, tries the end first.
fn seek(lines: &[&str], wanted: &[&str], from: usize, is_at_end: bool) -> Option<usize> {
    let same: [fn(&str, &str) -> bool; 4] = [
        |line, wanted| line == wanted,
        |line, wanted| line.trim_end() == wanted.trim_end(),
        |line, wanted| line.trim() == wanted.trim(),
        |line, wanted| plain(line.trim()).eq(plain(wanted.trim())),
    ];
    let last = lines.len().checked_sub(wanted.len())?;
    same.into_iter().find_map(|same| {
        let is_at = |start: &usize| {
            let found = lines.get(*start..*start + wanted.len()).unwrap_or_default();
            found.iter().zip(wanted).all(|(line, wanted)| same(line, wanted))
        };
        let at_end = Some(last).filter(|last| is_at_end && *last >= from).filter(is_at);
        at_end.or_else(|| (from..=last).find(is_at))
    })
}

/// Replaces typographic characters by the plain ones that models write instead.
fn plain(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .flat_map(|char| {
            let plain: &[char] = match char {
                '\u{2010}'..='\u{2015}' | '\u{2212}' => &['-'],
                '\u{2018}'..='\u{201b}' => &['\''],
                '\u{201c}'..='\u{201f}' => &['"'],
                '\u{2026}' => &['.', '.', '.'],
                '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => &[' '],
                _other => return [Some(char), None, None],
            };
            [plain.first().copied(), plain.get(1).copied(), plain.get(2).copied()]
        })
        .flatten()
}

#[cfg(test)]
pub(in crate::tool) mod tests;
