//! A command's template: fills in arguments and finds shell commands and mentions. Pure (facts: OpenCode §6.1,
//! §6.9).

/// The placeholder for all that was typed.
const ALL: &str = "$ARGUMENTS";

/// Shell syntax in which even a quoted word may be evaluated.
const NESTED: [&str; 9] = ["$(", "${", "$'", "((", "[[", "<<", "<(", ">(", "#"];

/// A piece of a template with its arguments filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// A shell command, `` !`cmd` ``, to be replaced by its output.
    Shell(String),
    /// A command of the template into which the typed words cannot be put without being evaluated by the shell.
    Unfillable(String),
}

/// Fills in the arguments as [`expand`] does, but without shell commands: text that looks like one stays text.
pub fn expand_words(text: &str, arguments: &str) -> Vec<Piece> {
    let highest = placeholders(text).max();
    if highest.is_some() || text.contains(ALL) {
        vec![Piece::Text(fill(text, arguments, &words(arguments), highest))]
    } else {
        append_words(text, arguments)
    }
}

/// Appends the typed words to a text that has no placeholders, such as a manual that explains them.
pub fn append_words(text: &str, arguments: &str) -> Vec<Piece> {
    let is_alone = arguments.trim().is_empty();
    vec![Piece::Text(if is_alone { text.to_owned() } else { format!("{text}\n\n{arguments}") })]
}

/// Fills in the arguments.
///
/// Shell commands are those of the template: typed words are put into them, but never become commands.
pub fn expand(template: &str, arguments: &str) -> Vec<Piece> {
    let words = words(arguments);
    let highest = placeholders(template).max();
    let takes_arguments = highest.is_some() || template.contains(ALL);
    let fill = |text: &str| fill(text, arguments, &words, highest);
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, command, after)) = next_shell(rest) {
        push_text(&mut pieces, fill(before));
        pieces.push(match fill_shell(command, arguments, &words, highest) {
            Some(command) => Piece::Shell(command),
            None => Piece::Unfillable(command.trim().to_owned()),
        });
        rest = after;
    }
    push_text(&mut pieces, fill(rest));
    if !takes_arguments && !arguments.trim().is_empty() {
        let gap = if pieces.is_empty() { "" } else { "\n\n" };
        push_text(&mut pieces, format!("{gap}{arguments}"));
    }
    pieces
}

/// Returns the arguments to type behind the name of a command with this template.
pub fn hint(template: &str) -> Option<String> {
    match placeholders(template).max() {
        Some(highest) => {
            let names: Vec<String> = (1..=highest.min(9)).map(|place| format!("<{place}>")).collect();
            Some(names.join(" "))
        }
        // An empty template consists of the typed words only.
        None if template.trim().is_empty() => Some("message".to_owned()),
        None => template.contains(ALL).then(|| "arguments".to_owned()),
    }
}

/// Returns the files or agents that a text mentions by `@name`, in order, each once.
pub fn mentions(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut before = None;
    for (start, char) in text.char_indices() {
        let is_free = before.is_none_or(|it: char| !it.is_alphanumeric() && it != '_' && it != '`');
        before = Some(char);
        if char != '@' || !is_free {
            continue;
        }
        let rest = &text[start + 1..];
        let end = rest.find(|it: char| it.is_whitespace() || matches!(it, ',' | '`')).unwrap_or(rest.len());
        // A full stop at the end belongs to the sentence.
        let name = rest[..end].trim_end_matches('.');
        if !name.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn push_text(pieces: &mut Vec<Piece>, text: String) {
    match pieces.last_mut() {
        Some(Piece::Text(last)) => last.push_str(&text),
        Some(Piece::Shell(_) | Piece::Unfillable(_)) | None if !text.is_empty() => {
            pieces.push(Piece::Text(text));
        }
        Some(Piece::Shell(_) | Piece::Unfillable(_)) | None => {}
    }
}

/// Splits a text into the part before the next shell command, the command, and the part behind it.
fn next_shell(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find("!`")?;
    let (command, after) = text[start + 2..].split_once('`')?;
    if command.trim().is_empty() {
        // Two backticks enclose no command; the text behind them may contain one.
        let skipped = text.len() - after.len();
        let (before, command, after) = next_shell(after)?;
        Some((&text[..skipped + before.len()], command, after))
    } else {
        Some((&text[..start], command, after))
    }
}

/// A word of the arguments without its quotes, and the position of its end.
struct Word<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

/// Returns the words of arguments, without their quotes.
pub fn split_words(arguments: &str) -> Vec<String> {
    words(arguments).into_iter().map(|word| word.text.to_owned()).collect()
}

/// Splits arguments into words. Spaces separate words; quotes keep spaces together.
fn words(arguments: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = 0;
    while let Some(skipped) = arguments[rest..].find(|it: char| !it.is_whitespace()) {
        let start = rest + skipped;
        let tail = &arguments[start..];
        let quoted = tail.chars().next().filter(|it| matches!(it, '"' | '\''));
        let closed = quoted.and_then(|quote| tail[1..].find(quote));
        let (text, end) = match closed {
            Some(length) => (&tail[1..=length], start + length + 2),
            None => {
                // A quote that is never closed is an ordinary character.
                let length = tail
                    .char_indices()
                    .skip(1)
                    .find(|(at, it)| it.is_whitespace() || opens_quote(&tail[..*at], &tail[*at..]))
                    .map_or(tail.len(), |(at, _)| at);
                (&tail[..length], start + length)
            }
        };
        words.push(Word { text, start, end });
        rest = end;
    }
    words
}

/// Returns true if a quoted section begins here. In the middle of a word, an apostrophe behind a letter begins
/// none.
fn opens_quote(before: &str, text: &str) -> bool {
    let quote = text.chars().next().filter(|it| match it {
        '"' => true,
        '\'' => !before.ends_with(char::is_alphanumeric),
        _ => false,
    });
    quote.is_some_and(|quote| text[1..].contains(quote))
}

/// Returns the numbers of `$1`, `$2` and so on.
fn placeholders(template: &str) -> impl Iterator<Item = usize> + '_ {
    template.match_indices('$').filter_map(|(at, _)| place(&template[at + 1..])).map(|(place, _)| place)
}

/// Parses a placeholder's number and counts its digits.
fn place(text: &str) -> Option<(usize, usize)> {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let place = text[..n_digits].parse().ok().filter(|place| *place > 0)?;
    Some((place, n_digits))
}

fn fill(text: &str, arguments: &str, words: &[Word<'_>], highest: Option<usize>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        if let Some((place, n_digits)) = place(after) {
            if highest == Some(place) {
                push_rest(&mut filled, arguments, words.get(place - 1..).unwrap_or_default());
            } else {
                filled.push_str(words.get(place - 1).map_or("", |word| word.text));
            }
            rest = &after[n_digits..];
        } else if let Some(after) = after.strip_prefix(&ALL[1..]) {
            filled.push_str(arguments);
            rest = after;
        } else {
            filled.push('$');
            rest = after;
        }
    }
    filled.push_str(rest);
    filled
}

/// Puts the typed words into a shell command, quoted as each place needs; `None` if that cannot be done safely.
fn fill_shell(command: &str, arguments: &str, words: &[Word<'_>], highest: Option<usize>) -> Option<String> {
    let is_nested = NESTED.iter().any(|it| command.contains(it));
    let mut filled = String::with_capacity(command.len());
    let mut quote = None;
    let mut rest = command;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        if letter == '$'
            && let Some((typed, after)) = typed(after, words, highest)
        {
            for (index, word) in typed.iter().enumerate() {
                filled.push_str(if index == 0 { "" } else { " " });
                if is_harmless(word.text) {
                    filled.push_str(word.text);
                } else if is_nested || arguments.contains('\0') {
                    return None;
                } else {
                    push_quoted(&mut filled, word.text, quote);
                }
            }
            rest = after;
            continue;
        }
        filled.push(letter);
        rest = after;
        match (letter, quote) {
            ('\\', None | Some('"')) => {
                if let Some(escaped) = rest.chars().next() {
                    filled.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                }
            }
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    Some(filled)
}

/// Returns the words for a placeholder, and the text behind it.
fn typed<'a, 'b>(
    text: &'b str,
    words: &'a [Word<'a>],
    highest: Option<usize>,
) -> Option<(&'a [Word<'a>], &'b str)> {
    if let Some((place, n_digits)) = place(text) {
        let words = words.get(place - 1..).unwrap_or_default();
        let n_taken = if highest == Some(place) { words.len() } else { words.len().min(1) };
        return Some((&words[..n_taken], &text[n_digits..]));
    }
    text.strip_prefix(&ALL[1..]).map(|after| (words, after))
}

fn is_harmless(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte))
}

/// Appends a word in the form for quotes of this kind, or with quotes of its own if there are none.
fn push_quoted(filled: &mut String, word: &str, quote: Option<char>) {
    match quote {
        Some('"') => {
            for letter in word.chars() {
                if matches!(letter, '"' | '\\' | '$' | '`') {
                    filled.push('\\');
                }
                filled.push(letter);
            }
        }
        Some(_) => filled.push_str(&word.replace('\'', r"'\''")),
        None => {
            filled.push('\'');
            filled.push_str(&word.replace('\'', r"'\''"));
            filled.push('\'');
        }
    }
}

/// Fills the last placeholder with all remaining words: a lone word without its quotes, several as they were
/// typed.
fn push_rest(filled: &mut String, arguments: &str, words: &[Word<'_>]) {
    filled.push_str(match words {
        [] => "",
        [word] => word.text,
        [first, .., last] => &arguments[first.start..last.end],
    });
}

#[cfg(test)]
mod tests;
