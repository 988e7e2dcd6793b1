//! A stream of events read piece by piece, so that an event of any length takes no memory here.

/// Bytes that are kept of a field's name or of the value of a short field.
const MAX_FIELD: usize = 4096;

/// A piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The next bytes of the event's data.
    Data(&'a [u8]),
    /// The event has ended.
    End(Fields),
}

/// The short fields of an event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    pub event: Option<String>,
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub has_data: bool,
}

/// The place in the stream. Follows
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    within: Within,
    /// The field's name, and behind it the value of a short field.
    name: Vec<u8>,
    value: Vec<u8>,
    fields: Fields,
    /// A LF directly behind a CR belongs to the same line end.
    after_cr: bool,
    is_past_start: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Name,
    /// Behind the colon, where one space is left out.
    Colon,
    Data,
    Short,
}

impl Scanner {
    /// Returns true behind an event and before the next one's data.
    pub(super) fn is_between(&self) -> bool {
        !self.fields.has_data
    }

    /// Reads on, and hands over the pieces.
    pub(super) fn push<'a>(&mut self, mut bytes: &'a [u8], mut take: impl FnMut(Piece<'a>)) {
        if !self.is_past_start && !bytes.is_empty() {
            self.is_past_start = true;
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            if matches!(first, b'\n' | b'\r') {
                self.after_cr = first == b'\r';
                bytes = &bytes[1..];
                self.end_line(&mut take);
                continue;
            }
            match self.within {
                Within::Name if first == b':' => {
                    self.within = Within::Colon;
                    bytes = &bytes[1..];
                }
                Within::Name => {
                    if self.name.len() < MAX_FIELD {
                        self.name.push(first);
                    }
                    bytes = &bytes[1..];
                }
                Within::Colon => {
                    self.begin_value(&mut take);
                    bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                }
                Within::Data | Within::Short => {
                    let end = memchr::memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
                    let (piece, rest) = bytes.split_at(end);
                    if self.within == Within::Data {
                        take(Piece::Data(piece));
                    } else {
                        let room = MAX_FIELD.saturating_sub(self.value.len());
                        self.value.extend_from_slice(&piece[..piece.len().min(room)]);
                    }
                    bytes = rest;
                }
            }
        }
    }

    /// Ends the event that lacks the blank line behind it, at the end of the stream.
    pub(super) fn finish<'a>(&mut self, mut take: impl FnMut(Piece<'a>)) {
        if self.within != Within::Name || !self.name.is_empty() {
            self.end_line(&mut take);
        }
        self.end_line(&mut take);
    }

    fn begin_value<'a>(&mut self, take: &mut impl FnMut(Piece<'a>)) {
        if self.name == b"data" {
            if std::mem::replace(&mut self.fields.has_data, true) {
                take(Piece::Data(b"\n"));
            }
            self.within = Within::Data;
        } else {
            self.within = Within::Short;
        }
    }

    fn end_line<'a>(&mut self, take: &mut impl FnMut(Piece<'a>)) {
        if self.within == Within::Name && self.name.is_empty() {
            let fields = std::mem::take(&mut self.fields);
            if fields != Fields::default() {
                take(Piece::End(fields));
            }
            return;
        }
        if matches!(self.within, Within::Name | Within::Colon) {
            self.begin_value(take);
        }
        let value = String::from_utf8_lossy(&self.value);
        match self.name.as_slice() {
            b"event" => self.fields.event = Some(value.into_owned()),
            b"id" if !value.contains('\0') => self.fields.id = Some(value.into_owned()),
            b"retry" => self.fields.retry = value.parse().ok().or(self.fields.retry),
            // A comment, data, or a field of another kind.
            _ => {}
        }
        self.within = Within::Name;
        self.name.clear();
        self.value.clear();
    }
}

#[cfg(test)]
mod tests {
    //! Events in pieces of any size.

    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let stream = b"\xEF\xBB\xBF: hello\nevent: message\nid: 7\ndata: {\"a\":\r\ndata:1}\n\ndata\n\nretry: 20\rid\r\rdata:  x\r\n\r\ndata: cut";
        let fields = |event: Option<&str>, id: Option<&str>, retry, has_data| Fields {
            event: event.map(str::to_owned),
            id: id.map(str::to_owned),
            retry,
            has_data,
        };
        let expected = vec![
            ("{\"a\":\n1}".to_owned(), fields(Some("message"), Some("7"), None, true)),
            (String::new(), fields(None, None, None, true)),
            (String::new(), fields(None, Some(""), Some(20), false)),
            (" x".to_owned(), fields(None, None, None, true)),
            ("cut".to_owned(), fields(None, None, None, true)),
        ];
        for size in [1, 2, 3, 7, 1000] {
            let (mut scanner, mut found, mut data) = (Scanner::default(), Vec::new(), Vec::new());
            let mut take = |piece: Piece<'_>| match piece {
                Piece::Data(bytes) => data.extend_from_slice(bytes),
                Piece::End(fields) => {
                    found.push((String::from_utf8(std::mem::take(&mut data)).unwrap(), fields));
                }
            };
            for bytes in stream.chunks(size) {
                scanner.push(bytes, &mut take);
            }
            assert!(!scanner.is_between());
            scanner.finish(&mut take);
            assert_eq!(found, expected, "{size}");
            assert!(scanner.is_between());
        }
    }
}
