//! The one form of a resource's URI, however it is escaped.

/// Times that a URI with escapes that are escaped themselves is decoded.
const MAX_ROUNDS: usize = 64;

/// The ports that need not be named.
const PORTS: [(&str, &str); 5] =
    [("http", "80"), ("https", "443"), ("ws", "80"), ("wss", "443"), ("ftp", "21")];

/// Returns the canonical form of a URI: decoded, without dot segments, runs of slashes and a port that need not be
/// named, and with its scheme and host in small letters. Then the same without its query and fragment, as they are
/// written and as they are decoded: a server may read them either way.
pub(super) fn forms(uri: &str) -> [String; 3] {
    let bare = |uri: &str| uri.split(['?', '#']).next().unwrap_or_default().to_owned();
    let written = canonical(uri);
    let without = canonical(&bare(uri));
    let decoded = bare(&written);
    [written, without, decoded]
}

/// Returns a URI without the parameters of its path's segments: `/a;b=c/d` is `/a/d`.
pub(super) fn without_parameters(uri: &str) -> String {
    let (path, rest) = uri.split_at(uri.find(['?', '#']).unwrap_or(uri.len()));
    let bare = |segment: &str| segment.split(';').next().unwrap_or_default().to_owned();
    format!("{}{rest}", path.split('/').map(bare).collect::<Vec<_>>().join("/"))
}

fn canonical(uri: &str) -> String {
    let decoded = decoded(uri).replace('\\', "/");
    // Servers that parse URLs drop them.
    let plain: String = decoded.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r' | '\0')).collect();
    let plain = plain.trim_matches(' ');
    let Some((scheme, rest)) = plain.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return path(plain);
    };
    let scheme = scheme.to_ascii_lowercase();
    match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            format!("{scheme}://{}{}", self::authority(&scheme, authority), path(rest))
        }
        None => format!("{scheme}:{}", path(rest)),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Writes the host in small letters, without its last dot and a port that need not be named.
fn authority(scheme: &str, authority: &str) -> String {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (format!("{user}@"), host),
        None => (String::new(), authority),
    };
    let host = host.to_lowercase();
    let (name, port) =
        match host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|it| it.is_ascii_digit())) {
            Some((name, port)) => (name, port.trim_start_matches('0')),
            None => (host.as_str(), ""),
        };
    let name = name.strip_suffix('.').unwrap_or(name);
    let port =
        if port.is_empty() || PORTS.contains(&(scheme, port)) { String::new() } else { format!(":{port}") };
    format!("{user}{name}{port}")
}

/// Removes dot segments and empty segments from a path; the text behind it stays.
fn path(text: &str) -> String {
    let (path, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let is_rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for segment in &segments {
        match *segment {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => _ = kept.pop(),
            ".." if is_rooted => {}
            segment => kept.push(segment),
        }
    }
    let is_directory = matches!(segments.last(), Some(&("" | "." | ".."))) && !kept.is_empty();
    let (root, end) =
        (if is_rooted { "/" } else { "" }, if is_directory && path.len() > 1 { "/" } else { "" });
    format!("{root}{}{end}{rest}", kept.join("/"))
}

/// Decodes escapes until none is left.
fn decoded(uri: &str) -> String {
    let mut text = uri.to_owned();
    for _ in 0..MAX_ROUNDS {
        let Some(next) = decoded_once(&text) else { return text };
        text = next;
    }
    text
}

/// Decodes the escapes; `None` where there is none.
fn decoded_once(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut done = Vec::with_capacity(bytes.len());
    let mut place = 0;
    let mut has_any = false;
    while let Some(byte) = bytes.get(place) {
        let digit = |offset: usize| bytes.get(place + offset).and_then(|it| char::from(*it).to_digit(16));
        match (byte, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                done.push(u8::try_from(high * 16 + low).unwrap_or_default());
                place += 3;
                has_any = true;
            }
            _ => {
                done.push(*byte);
                place += 1;
            }
        }
    }
    has_any.then(|| String::from_utf8_lossy(&done).into_owned())
}
