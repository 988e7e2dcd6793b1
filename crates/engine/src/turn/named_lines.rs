//! Finds the lines of a file that the URL of a mention names: by numbers, or by a symbol that a language server knows.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Url;
use serde_json::Value;
use tokio::time::timeout;
use windlass_base::{blocking::blocking, path::real};
use windlass_core::config::Config;
use windlass_services::lsp;

/// Time that a language server has for the symbols of a file, its start included: a prompt waits for it.
const LIMIT: Duration = Duration::from_secs(3);
/// Depth to which symbols are looked for in each other.
const MAX_DEPTH: usize = 16;

/// Lines of a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    pub start: u64,
    pub end: Option<u64>,
}

/// The part of a file that a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    Whole,
    Lines(Lines),
    /// The symbol that begins in this line; the line alone where no server knows one (facts: OpenCode §6.1).
    SymbolAt(u64),
    /// The symbol of this name; the whole file where no server knows it.
    Symbol(String),
}

/// Returns the path of a `file:` URL and the part that it names: by `?start=&end=`, by a fragment such as `#L3-5`, which
/// editors write, or by `?symbol=`.
pub fn of_url(url: &str) -> Option<(PathBuf, Named)> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "file")?;
    let value = |name: &str| Some(url.query_pairs().find(|(key, _)| key == name)?.1.into_owned());
    let line = |name: &str| value(name)?.parse::<u64>().ok();
    let by_query = line("start").map(|start| Lines { start, end: line("end") });
    let symbol = value("symbol").filter(|name| !name.is_empty());
    let named = match (by_query.or_else(|| of_fragment(url.fragment()?)), symbol) {
        (Some(Lines { start, end: Some(end) }), None) if start == end => Named::SymbolAt(start),
        (Some(lines), _) => Named::Lines(lines),
        (None, Some(name)) => Named::Symbol(name),
        (None, None) => Named::Whole,
    };
    Some((url.to_file_path().ok()?, named))
}

/// Reads `L3`, `L3-5`, `L3-L5` and `L3:5`.
fn of_fragment(fragment: &str) -> Option<Lines> {
    let numbers = fragment.strip_prefix('L')?;
    let (start, end) = numbers.split_once(['-', ':']).unwrap_or((numbers, numbers));
    let line = |text: &str| text.parse::<u64>().ok().filter(|line| *line > 0);
    let (start, end) = (line(start)?, line(end.strip_prefix('L').unwrap_or(end))?);
    Some(Lines { start: start.min(end), end: Some(end.max(start)) })
}

/// Returns the lines to read; `None` for the whole file.
pub async fn find(config: &Config, servers: &lsp::Servers, path: &Path, named: Named) -> Option<Lines> {
    match named {
        Named::Whole => None,
        Named::Lines(lines) => Some(lines),
        Named::SymbolAt(line) => {
            let symbols = symbols(config, servers, path).await;
            let begins = |symbol: &Symbol<'_>| symbol.lines.start == line;
            Some(first(&symbols, &begins, 0).unwrap_or(Lines { start: line, end: Some(line) }))
        }
        Named::Symbol(name) => {
            let symbols = symbols(config, servers, path).await;
            let is_named = |symbol: &Symbol<'_>| symbol.name == name;
            let ends_so = |symbol: &Symbol<'_>| last_name(symbol.name) == last_name(&name);
            first(&symbols, &is_named, 0).or_else(|| first(&symbols, &ends_so, 0))
        }
    }
}

/// Returns the symbols of a file; none without a server, and from one that takes its time.
async fn symbols(config: &Config, servers: &lsp::Servers, path: &Path) -> Vec<Value> {
    let path = path.to_owned();
    let path = blocking(move || real(&path)).await;
    let operation = lsp::Operation::DocumentSymbol;
    let question = lsp::Question { operation, path: &path, line: 0, character: 0, query: "" };
    match timeout(LIMIT, servers.ask(config, &question)).await {
        Ok(Ok(symbols)) => symbols,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

struct Symbol<'a> {
    name: &'a str,
    lines: Lines,
}

/// Returns the lines of the first symbol that is wanted, also within others.
fn first(symbols: &[Value], is_wanted: &dyn Fn(&Symbol<'_>) -> bool, depth: usize) -> Option<Lines> {
    symbols.iter().find_map(|value| {
        let range = value.get("range").or_else(|| value.pointer("/location/range"));
        let line = |end: &str| Some(range?.get(end)?.get("line")?.as_u64()?.saturating_add(1));
        let name = value.get("name").and_then(Value::as_str);
        let symbol = name.zip(line("start")).map(|(name, start)| {
            let end = line("end").unwrap_or(start).max(start);
            Symbol { name, lines: Lines { start, end: Some(end) } }
        });
        let own = symbol.filter(|symbol| is_wanted(symbol)).map(|symbol| symbol.lines);
        let children = value.get("children").and_then(Value::as_array).filter(|_| depth < MAX_DEPTH);
        own.or_else(|| first(children?, is_wanted, depth + 1))
    })
}

/// Returns a symbol's own name: without its parameters, and without the names around it.
fn last_name(name: &str) -> &str {
    let name = name.split('(').next().unwrap_or(name).trim_end();
    name.rsplit(['.', ':', '#']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_names_a_file_lines_or_a_symbol() {
        let lines = |start, end| Named::Lines(Lines { start, end });
        for (url, expected) in [
            ("file:///a.rs", Named::Whole),
            ("file:///a.rs?start=3", lines(3, None)),
            ("file:///a.rs?start=3&end=5", lines(3, Some(5))),
            ("file:///a.rs?start=3&end=3", Named::SymbolAt(3)),
            ("file:///a.rs#L3-5", lines(3, Some(5))),
            ("file:///a.rs#L3-L5", lines(3, Some(5))),
            ("file:///a.rs#L5:3", lines(3, Some(5))),
            ("file:///a.rs#L3", Named::SymbolAt(3)),
            ("file:///a.rs#L0-5", Named::Whole),
            ("file:///a.rs#section", Named::Whole),
            ("file:///a.rs?symbol=f%3A%3Ag", Named::Symbol("f::g".to_owned())),
            ("file:///a.rs?symbol=f#L3:3", lines(3, Some(3))),
            ("file:///a.rs?symbol=", Named::Whole),
        ] {
            assert_eq!(of_url(url), Some((PathBuf::from("/a.rs"), expected)), "{url}");
        }
        assert_eq!(of_url("https://a.b/c#L3"), None);
    }

    #[test]
    fn a_symbol_is_found_by_its_own_name_and_within_others() {
        let range = |start: u64, end: u64| json!({"start": {"line": start}, "end": {"line": end}});
        let symbols = [
            json!({"name": "other", "location": {"range": range(0, 1)}}),
            json!({"name": "Outer", "range": range(2, 9), "children": [{"name": "inner(int)", "range": range(4, 6)}]}),
            json!({"name": 1, "range": "garbage", "children": {}}),
        ];
        let named = |name: &str| first(&symbols, &|symbol| last_name(symbol.name) == last_name(name), 0);
        assert_eq!(named("other"), Some(Lines { start: 1, end: Some(2) }));
        assert_eq!(named("Outer::inner"), Some(Lines { start: 5, end: Some(7) }));
        assert_eq!(named("none"), None);
    }
}
