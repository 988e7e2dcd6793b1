//! Puts stars in the place of secrets, wherever the configuration is shown.

use serde_json::{Map, Value};

/// Shorter texts are not looked for in texts that others wrote: they are words too often.
const MIN_LEN: usize = 8;

/// Values that users write where a key is demanded and none is needed.
const PLACEHOLDERS: [&str; 16] = [
    "none",
    "null",
    "empty",
    "dummy",
    "fake",
    "test",
    "ollama",
    "local",
    "localhost",
    "lmstudio",
    "placeholder",
    "notneeded",
    "notrequired",
    "unused",
    "changeme",
    "anything",
];

/// Replacement of a secret.
pub const STARS: &str = "********";

/// Words of a key that hold a secret.
const SECRET_WORDS: [&str; 12] = [
    "pass",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "authorization",
    "credential",
    "bearer",
    "cookie",
    "jwt",
];

/// Words that make a `key` a secret one.
const KEY_KINDS: [&str; 7] = ["api", "access", "auth", "private", "secret", "license", "signing"];

/// Objects in which all values are secret.
const SECRET_OBJECTS: [&str; 3] = ["headers", "environment", "env"];

/// Words of a URL's parameters that hold a secret, beside those of any key.
const SECRET_PARAMETERS: [&str; 6] = ["key", "auth", "sig", "signature", "code", "sas"];

/// Beginnings and least lengths of the keys of well-known services and of signed tokens (`eyJ`).
const KEY_SHAPES: [(&str, usize); 13] = [
    ("sk-", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AIza", 30),
    ("AKIA", 20),
    // A token of a server with accounts.
    ("wlt_", 40),
    ("hf_", 20),
    ("eyJ", 40),
];

/// Names of files that hold secrets.
const SECRET_FILES: [&str; 15] = [
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "credentials",
    "credentials.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Ends of the names of files that hold secrets.
const SECRET_ENDS: [&str; 9] =
    [".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".tfstate"];

/// Returns a whole configuration as it may be shown: without its secrets, also where they are said a second
/// time.
pub fn masked(raw: &Map<String, Value>) -> Map<String, Value> {
    let whole = Value::Object(raw.clone());
    match without(mask(&[], &whole), &known(&[], &whole)) {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Returns the secrets of a value, the longest first: one secret may begin with another.
pub fn known(path: &[&str], value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    secrets(path, value, &mask(path, value), &mut found);
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found
}

/// Returns a value with the secrets in its texts hidden wherever they are.
pub fn without(value: Value, secrets: &[String]) -> Value {
    match value {
        Value::String(text) => Value::from(secrets.iter().fold(text, |text, secret| hide(&text, secret))),
        Value::Array(list) => list.into_iter().map(|value| without(value, secrets)).collect(),
        Value::Object(object) => {
            let entries = object.into_iter().map(|(key, value)| (key, without(value, secrets)));
            Value::Object(entries.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Hides the secrets of a value, which are known by its path.
pub fn mask(path: &[&str], value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let entry = |(key, value): (&String, &Value)| {
                (key.clone(), mask(&[path, &[key.as_str()]].concat(), value))
            };
            Value::Object(object.iter().map(entry).collect())
        }
        Value::Array(list)
            if is_secret(path) || matches!(path.last(), Some(&("headers" | "environment"))) =>
        {
            Value::Array(list.iter().map(starred).collect())
        }
        Value::Array(list) if list.iter().any(Value::is_string) => {
            let mut masks_next = false;
            let element = |value: &Value| {
                let is_value_of_option = std::mem::take(&mut masks_next);
                let Value::String(word) = value else { return mask(path, value) };
                masks_next = is_option_of_secret(word);
                let begins_another = word.starts_with('-') && word.len() > 1;
                if is_value_of_option && !begins_another {
                    starred(value)
                } else {
                    Value::from(argument(word))
                }
            };
            Value::Array(list.iter().map(element).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| mask(path, value)).collect()),
        // A rule may be about a path with such a name.
        Value::String(word) if matches!(word.as_str(), "allow" | "ask" | "deny") => value.clone(),
        Value::String(_) if is_secret(path) || is_secret_object(path) => starred(value),
        Value::Number(_) if is_secret(path) && !path.last().is_some_and(|key| counts(key)) => {
            Value::from(STARS)
        }
        // A program and its arguments as one text, where a list was meant.
        Value::String(line) if path.last() == Some(&"command") => Value::from(command_line(line)),
        Value::String(value) => Value::from(text(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Puts stars in a value's place where a secret is expected, unless it cannot be one.
fn starred(value: &Value) -> Value {
    match value {
        Value::String(text) if is_placeholder(text) => value.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::from(STARS),
        Value::Array(_) | Value::Object(_) => Value::from(STARS),
    }
}

/// Returns true for a value in the place of a key where none is needed, such as `none`, `ollama` or `x`.
pub fn is_placeholder(value: &str) -> bool {
    let letters: String = value.chars().filter(|letter| letter.is_alphanumeric()).collect();
    let is_one_letter = letters.chars().all(|letter| letters.starts_with(letter));
    is_one_letter || PLACEHOLDERS.iter().any(|placeholder| letters.eq_ignore_ascii_case(placeholder))
}

/// Puts stars in the place of a known secret wherever a text has it as a whole token.
///
/// A text that is JSON stays JSON: the characters around a token are left as they are.
pub fn hide(text: &str, secret: &str) -> String {
    if secret.chars().count() < MIN_LEN || is_placeholder(secret) {
        return text.to_owned();
    }
    let is_of_token = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let begins_as_token = secret.starts_with(is_of_token);
    let ends_as_token = secret.ends_with(is_of_token);
    let mut hidden = String::with_capacity(text.len());
    let mut rest_start = 0;
    for (start, found) in text.match_indices(secret) {
        let (before, after) = (&text[..start], &text[start + found.len()..]);
        let is_inside =
            begins_as_token && ends_in_token(before) || ends_as_token && after.starts_with(is_of_token);
        if !is_inside {
            hidden.push_str(&text[rest_start..start]);
            hidden.push_str(STARS);
            rest_start = start + found.len();
        }
    }
    hidden.push_str(&text[rest_start..]);
    hidden
}

/// Returns a message about the value at `path`, without the secrets of `value` that the message quotes.
pub fn mask_message(path: &[&str], value: &Value, message: &str) -> String {
    // As JSON and as Rust write it.
    let escaped = |secret: &String| {
        [Value::from(secret.as_str()).to_string(), format!("{secret:?}")]
            .map(|text| text[1..text.len() - 1].to_owned())
    };
    let found = known(path, value);
    let hidden = found.iter().flat_map(escaped).fold(message.to_owned(), |message, secret| {
        // Between quotes a text is whole, however short it is.
        let unquoted = ["\"", "`"].iter().fold(message, |message, quote| {
            message.replace(&format!("{quote}{secret}{quote}"), &format!("{quote}{STARS}{quote}"))
        });
        hide(&unquoted, &secret)
    });
    text(&hidden)
}

/// Hides secrets in any text: users, passwords and parameters of URLs, and words that look like a key.
pub fn text(text: &str) -> String {
    let masked = urls(text);
    if KEY_SHAPES.iter().any(|(start, _)| masked.contains(start)) { key_shapes(&masked) } else { masked }
}

/// Returns true if a text holds a private key, or a word that has the form of one of the keys of services.
pub fn holds_key(text: &str) -> bool {
    let is_private = |line: &str| line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY");
    // A class of a style sheet may begin like a key.
    let is_key = |word: &str| {
        let has_shape = |(start, len): &(&str, usize)| word.starts_with(start) && word.len() >= *len;
        KEY_SHAPES.iter().any(has_shape) && word.bytes().any(|byte| byte.is_ascii_digit())
    };
    text.lines().any(|line| is_private(line.trim())) || text.split(|it| !is_of_key(it)).any(is_key)
}

/// Returns true for the name of a file that usually holds secrets: it is not to leave its machine unasked.
pub fn is_secret_file(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_example =
        ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(&format!(".{end}")));
    let has_end = SECRET_ENDS.iter().any(|end| name.ends_with(end));
    (SECRET_FILES.contains(&name.as_str()) || name.starts_with(".env.") || has_end) && !is_example
}

/// Collects the parts of `value` that differ in `shown`, as messages quote them.
fn secrets(path: &[&str], value: &Value, shown: &Value, found: &mut Vec<String>) {
    match (value, shown) {
        (Value::Object(value), Value::Object(shown)) => {
            for ((key, value), shown) in value.iter().zip(shown.values()) {
                secrets(&[path, &[key.as_str()]].concat(), value, shown, found);
            }
        }
        (Value::Array(value), Value::Array(shown)) => {
            value.iter().zip(shown).for_each(|(value, shown)| secrets(path, value, shown, found));
        }
        (Value::String(text), shown) if shown.as_str() != Some(text) => {
            found.push(text.clone());
        }
        (Value::Number(number), Value::String(_)) => found.push(number.to_string()),
        _ => {}
    }
}

/// Returns true if a text ends in the middle of a token: behind an escape such as `\n` a token begins.
fn ends_in_token(text: &str) -> bool {
    let mut letters = text.chars().rev();
    let Some(last) = letters.next() else { return false };
    let is_escape =
        matches!(last, 'n' | 't' | 'r') && letters.take_while(|letter| *letter == '\\').count() % 2 == 1;
    (last.is_alphanumeric() || matches!(last, '-' | '_')) && !is_escape
}

fn is_secret(path: &[&str]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    // The key of the fleet has no other word before it.
    if let ["windlass", "shared", "key"] = path {
        return true;
    }
    is_secret_name(last) || above.iter().any(|key| is_secret_object(&[*key]))
}

/// Returns true if all values of the object at this path are secrets.
fn is_secret_object(path: &[&str]) -> bool {
    path.last().is_some_and(|key| SECRET_OBJECTS.iter().any(|name| key.eq_ignore_ascii_case(name)))
}

/// Returns true if a name has the words of a secret's: in the plural too, numbered, or as one word.
fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let is_secret = |word: &str| {
        let is_key = |word: &str| KEY_KINDS.iter().any(|kind| word.strip_prefix(kind) == Some("key"));
        SECRET_WORDS.contains(&word) || is_key(word)
    };
    let plain = |word: &'_ String| word.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
    let is_secret_word = |word: &String| {
        let word = plain(word);
        is_secret(&word) || word != "tokens" && word.strip_suffix('s').is_some_and(is_secret)
    };
    let is_kind_of_key = |pair: &[String]| {
        KEY_KINDS.contains(&pair[0].as_str()) && matches!(plain(&pair[1]).as_str(), "key" | "keys")
    };
    words.iter().any(is_secret_word) || words.windows(2).any(is_kind_of_key) || words == ["tokens"]
}

/// Returns true if a number under this key is an amount, such as `max_tokens`.
fn counts(key: &str) -> bool {
    words(key).iter().any(|word| word == "tokens")
}

/// Returns the words of a key in lower case: `clientSecret` and `CLIENT_SECRET` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = letter.is_uppercase() && was_lower;
        if (begins || !letter.is_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words
}

/// Returns true if the argument behind this one is a secret, as in `--token X`.
fn is_option_of_secret(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && is_secret_name(word)
}

/// Hides the secret in one argument of a program: `--api-key=X`, `API_KEY=X`, `Authorization: Bearer X`.
fn argument(word: &str) -> String {
    let named = |separator: char| {
        let (name, value) = word.split_once(separator)?;
        let is_name =
            name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        (is_name && !is_placeholder(value) && is_secret_name(name)).then_some((name, value))
    };
    if let Some((name, _)) = named('=') {
        return format!("{name}={STARS}");
    }
    if let Some((name, value)) = named(':') {
        let space = if value.starts_with(' ') { " " } else { "" };
        return format!("{name}:{space}{STARS}");
    }
    text(word)
}

/// Hides the secrets of a command line, which is one text, or of a URL.
pub fn command_line(line: &str) -> String {
    let words: Vec<Value> = line.split(' ').map(Value::from).collect();
    let masked = mask(&[], &Value::Array(words));
    let words = masked.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(" ")
}

/// Masks the secrets that the URLs in a text carry.
fn urls(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, tail) = rest.split_at(at + 3);
        masked.push_str(before);
        // None of these may be in a URL, and a backslash escapes a quote of JSON.
        let is_end = |letter: char| {
            letter.is_whitespace()
                || matches!(letter, '"' | '\'' | '`' | '<' | '>' | '\\' | '{' | '}' | '|' | '^')
        };
        let (url, after) = tail.split_at(tail.find(is_end).unwrap_or(tail.len()));
        let authority_len = url.find(['/', '?', '#']).unwrap_or(url.len());
        let (authority, place) = url.split_at(authority_len);
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                // `ssh://git@host` contains no secret.
                let is_web = before.ends_with("http://") || before.ends_with("https://");
                let shown = match user.split_once(':') {
                    Some((name, _)) if !name.is_empty() => format!("{name}:{STARS}"),
                    None if !is_web => user.to_owned(),
                    Some(_) | None => STARS.to_owned(),
                };
                masked.push_str(&format!("{shown}@{host}"));
            }
            None => masked.push_str(authority),
        }
        let path_len = place.find(['?', '#']).unwrap_or(place.len());
        let (path, parameters) = place.split_at(path_len);
        masked.push_str(path);
        for parameter in parameters.split_inclusive(['?', '#', '&']) {
            let (pair, end) = match parameter.strip_suffix(['?', '#', '&']) {
                Some(pair) => (pair, &parameter[pair.len()..]),
                None => (parameter, ""),
            };
            match pair.split_once('=') {
                Some((name, value)) if !is_placeholder(value) && is_secret_parameter(name) => {
                    masked.push_str(&format!("{name}={STARS}{end}"));
                }
                Some(_) | None => masked.push_str(parameter),
            }
        }
        rest = after;
    }
    masked.push_str(rest);
    masked
}

fn is_secret_parameter(name: &str) -> bool {
    is_secret_name(name) || words(name).iter().any(|word| SECRET_PARAMETERS.contains(&word.as_str()))
}

/// Masks words that have the shape of a well-known service's key.
fn key_shapes(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word_len = rest.find(|letter| !is_of_key(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_len);
        let is_key = KEY_SHAPES.iter().any(|(start, len)| word.starts_with(start) && word.len() >= *len);
        masked.push_str(if is_key { STARS } else { word });
        let others = after.find(is_of_key).unwrap_or(after.len());
        masked.push_str(&after[..others]);
        rest = &after[others..];
    }
    masked
}

fn is_of_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

#[cfg(test)]
mod tests;
