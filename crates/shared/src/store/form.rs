//! The form of changes in the shared store: JSON with large strings apart, paths of the project made relative, compressed,
//! encrypted where the user has a key.
//!
//! Checkouts of one project lie elsewhere on other machines. In everything but the texts of people and models, the
//! project's directory is written as a mark, and read as the directory that it has here.

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Write as _},
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde_json::{Map, Value};
use windlass_base::path::in_other_directory;
use windlass_core::storage::Write;

use super::seal::Keys;

/// Bytes from which on a string is kept by itself, once however often it is written.
const LARGE: usize = 16 * 1024;
/// Bytes of one batch of changes, and of one string, that are read at most.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes that are worth compressing.
const COMPRESSED_FROM: usize = 256;
/// The mark of the project's directory; the character in it is doubled where a text has it.
const MARK: char = '\u{E000}';
const DOUBLED: &str = "\u{E000}\u{E000}";
const PROJECT: &str = "\u{E000}project\u{E000}";
/// The key of an object that stands for a large string.
const BLOB: &str = "\u{E000}blob";

const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// The hash of a large string.
pub type Hash = Vec<u8>;

/// Changes as they are stored.
pub struct Encoded {
    pub data: Vec<u8>,
    pub blobs: BTreeMap<Hash, Vec<u8>>,
}

/// Why stored changes cannot be read, for people.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Encodes changes of a session for a place in the store. Something that is no text, such as some paths, is
/// left out.
pub fn encode(
    writes: &[Write],
    directory: &str,
    keys: &Keys,
    session: &str,
    place: &str,
) -> Result<Encoded, Unreadable> {
    let mut blobs = BTreeMap::new();
    let mut values = Vec::with_capacity(writes.len());
    for write in writes {
        match serde_json::to_value(write) {
            Ok(mut value) => {
                outwards(&mut value, directory, false, keys, &mut blobs);
                values.push(value);
            }
            Err(error) => tracing::warn!(%error, "a change is not shared"),
        }
    }
    let data = pack(&Value::Array(values).to_string().into_bytes(), keys, place)?;
    let seal = |(hash, text): (Hash, String)| {
        let packed = pack(text.as_bytes(), keys, &blob_place(session, &hash))?;
        Ok((hash, packed))
    };
    Ok(Encoded { data, blobs: blobs.into_iter().map(seal).collect::<Result<_, Unreadable>>()? })
}

/// Decodes changes, with the project in a directory of this machine.
pub fn decode(
    data: &[u8],
    directory: &str,
    keys: &Keys,
    session: &str,
    place: &str,
    blobs: &HashMap<Hash, Vec<u8>>,
) -> Result<Vec<Write>, Unreadable> {
    let mut values: Vec<Value> =
        serde_json::from_slice(&unpack(data, keys, place)?).map_err(|error| Unreadable(error.to_string()))?;
    let find = |hash: &Hash| {
        let packed = blobs.get(hash).ok_or_else(|| Unreadable("a large text is missing".to_owned()))?;
        let text = unpack(packed, keys, &blob_place(session, hash))?;
        String::from_utf8(text).map_err(|error| Unreadable(error.to_string()))
    };
    for value in &mut values {
        inwards(value, directory, false, &find)?;
    }
    let decode = |value| serde_json::from_value(value).map_err(|error| Unreadable(error.to_string()));
    values.into_iter().map(decode).collect()
}

/// Encodes a text by itself.
pub fn pack(bytes: &[u8], keys: &Keys, place: &str) -> Result<Vec<u8>, Unreadable> {
    let mut flags = 0;
    let mut body = bytes.to_vec();
    if bytes.len() >= COMPRESSED_FROM {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        body = packed.map_err(|error| Unreadable(error.to_string()))?;
        flags |= COMPRESSED;
    }
    if keys.encrypts() {
        body = keys.close(place, body).map_err(|error| Unreadable(error.to_string()))?;
        flags |= ENCRYPTED;
    }
    body.insert(0, flags);
    Ok(body)
}

/// Decodes a text of [`pack`].
pub fn unpack(data: &[u8], keys: &Keys, place: &str) -> Result<Vec<u8>, Unreadable> {
    let (flags, body) = data.split_first().ok_or_else(|| Unreadable("it is empty".to_owned()))?;
    if flags & !(COMPRESSED | ENCRYPTED) != 0 {
        return Err(Unreadable("its form is not known here".to_owned()));
    }
    let body = if flags & ENCRYPTED != 0 {
        keys.open(place, body).map_err(Unreadable)?
    } else if keys.encrypts() {
        // With the right to write the store anybody could put anything in the place of an encrypted text.
        return Err(Unreadable("it is not encrypted, and `windlass.shared.key` is set".to_owned()));
    } else {
        body.to_vec()
    };
    if flags & COMPRESSED == 0 {
        return Ok(body);
    }
    let mut text = Vec::new();
    DeflateDecoder::new(body.as_slice())
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| Unreadable(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn blob_place(session: &str, hash: &[u8]) -> String {
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("blob {session} {hash}")
}

fn outwards(
    value: &mut Value,
    directory: &str,
    is_text: bool,
    keys: &Keys,
    blobs: &mut BTreeMap<Hash, String>,
) {
    match value {
        Value::String(text) => {
            if !is_text && (text.contains(directory) || text.contains(MARK)) {
                *text = without_directory(text, directory);
            }
            if text.len() >= LARGE {
                let hash = keys.name_of(text);
                let name = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                blobs.insert(hash, std::mem::take(text));
                *value = Value::Object(Map::from_iter([(BLOB.to_owned(), name.into())]));
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| outwards(item, directory, is_text, keys, blobs));
        }
        Value::Object(fields) => {
            if fields.keys().any(|key| key.contains(MARK)) {
                let doubled = |(key, field): (String, Value)| (key.replace(MARK, DOUBLED), field);
                *fields = std::mem::take(fields).into_iter().map(doubled).collect();
            }
            for (key, field) in fields.iter_mut() {
                outwards(field, directory, is_text || key == "text", keys, blobs);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn inwards(
    value: &mut Value,
    directory: &str,
    is_text: bool,
    find: &dyn Fn(&Hash) -> Result<String, Unreadable>,
) -> Result<(), Unreadable> {
    if let Some(hash) = blob(value) {
        *value = Value::String(find(&hash)?);
    }
    match value {
        Value::String(text) => {
            if !is_text && text.contains(MARK) {
                *text = with_directory(text, directory);
            }
        }
        Value::Array(items) => {
            for item in items {
                inwards(item, directory, is_text, find)?;
            }
        }
        Value::Object(fields) => {
            if fields.keys().any(|key| key.contains(MARK)) {
                let single = |(key, field): (String, Value)| (key.replace(DOUBLED, "\u{E000}"), field);
                *fields = std::mem::take(fields).into_iter().map(single).collect();
            }
            for (key, field) in fields.iter_mut() {
                inwards(field, directory, is_text || key == "text", find)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn blob(value: &Value) -> Option<Hash> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    let name = fields.get(BLOB)?.as_str()?;
    let digit = |at: usize| u8::from_str_radix(name.get(at..at + 2)?, 16).ok();
    (0..name.len()).step_by(2).map(digit).collect()
}

/// Writes the mark wherever a text names the directory, or something in it.
fn without_directory(text: &str, directory: &str) -> String {
    in_other_directory(&text.replace(MARK, DOUBLED), directory, PROJECT)
}

fn with_directory(text: &str, directory: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(behind) = rest.strip_prefix(PROJECT) {
            out.push_str(directory);
            rest = behind;
        } else {
            out.push(MARK);
            rest = rest.get(MARK.len_utf8()..).unwrap_or_default();
            rest = rest.strip_prefix(MARK).unwrap_or(rest);
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
