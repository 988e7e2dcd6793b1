//! Pictures that are dropped on a terminal, which types their paths: quoted, or with blanks behind backslashes.

use std::path::PathBuf;

use windlass_base::mime;

/// Returns the absolute paths of pictures in a line, as terminals type them.
pub fn pictures(line: &str) -> Vec<PathBuf> {
    let words = words(line).into_iter();
    let paths = words.filter_map(|word| match word.strip_prefix("file://") {
        Some(_) => reqwest::Url::parse(&word).ok()?.to_file_path().ok(),
        None => Some(PathBuf::from(word)).filter(|path| path.is_absolute()),
    });
    let is_picture = |path: &PathBuf| {
        mime::of_path(&path.to_string_lossy()).is_some_and(|mime| mime.starts_with("image/"))
            && path.is_file()
    };
    paths.filter(is_picture).collect()
}

/// Splits a line as a shell does.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            (end, Some(begun)) if end == begun => quote = None,
            // Within a word it is an apostrophe.
            ('\'' | '"', None) if word.is_empty() => quote = Some(char),
            ('\\', None) => word.extend(chars.next()),
            (blank, None) if blank.is_whitespace() => words.push(std::mem::take(&mut word)),
            (other, _) => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_pictures_are_found_however_their_paths_are_quoted() {
        let directory = tempfile::tempdir().expect("made");
        let picture = directory.path().join("my shot.png");
        std::fs::write(&picture, b"x").expect("written");
        let path = picture.display().to_string();
        for line in [
            format!("look at '{path}' please"),
            format!("look at \"{path}\""),
            format!("what's in '{path}'"),
            format!("{} what is it", path.replace(' ', "\\ ")),
            format!("file://{}", path.replace(' ', "%20")),
        ] {
            assert_eq!(pictures(&line), std::slice::from_ref(&picture), "{line}");
        }
        assert!(pictures("don't open /nowhere/x.png or my shot.png").is_empty());
        assert!(pictures(&directory.path().display().to_string()).is_empty());
    }
}
