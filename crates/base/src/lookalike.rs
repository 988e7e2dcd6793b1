//! Finds files with names that look like one that does not exist: another space, quote, dash, or composed letters.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use icu_normalizer::DecomposingNormalizerBorrowed;

/// Entries of a directory that are compared.
const MAX_ENTRIES: usize = 10_000;
/// Files that are found at most; of two neither is taken.
const MAX_FOUND: usize = 4;

/// Returns the paths that look like one, which does not exist; none if it does. Reads directories.
pub fn alike(path: &Path) -> Vec<PathBuf> {
    if fs::symlink_metadata(path).is_ok() {
        return Vec::new();
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        let mut next = Vec::new();
        for directory in found {
            let exact = directory.join(component);
            match component {
                Component::Normal(name) if fs::symlink_metadata(&exact).is_err() => {
                    let Some(wanted) = name.to_str().map(folded) else { continue };
                    let entries = fs::read_dir(&directory).into_iter().flatten().flatten().take(MAX_ENTRIES);
                    let names = entries.map(|entry| entry.file_name());
                    let is_alike =
                        |name: &std::ffi::OsString| name.to_str().is_some_and(|name| folded(name) == wanted);
                    next.extend(names.filter(is_alike).map(|name| directory.join(name)));
                }
                _ => next.push(exact),
            }
        }
        next.sort();
        next.truncate(MAX_FOUND);
        found = next;
    }
    found
}

/// Returns the words that propose paths, with the characters that tell them apart; none for no paths.
pub fn proposal(paths: &[PathBuf]) -> Option<String> {
    let plain = |letter: char| match letter {
        ' '..='~' => letter.to_string(),
        other => other.escape_unicode().to_string(),
    };
    let names = paths.iter().map(|path| path.to_string_lossy().chars().map(plain).collect::<String>());
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("These look the same:\n{}", names.join("\n")))
}

/// Returns a name as it looks.
fn folded(name: &str) -> String {
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(name);
    let plain = decomposed.chars().filter_map(|letter| match letter {
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2bc}' | '\u{2032}' => Some('\''),
        '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => None,
        space if space.is_whitespace() => Some(' '),
        other => Some(other),
    });
    plain.collect()
}

#[cfg(test)]
mod tests;
