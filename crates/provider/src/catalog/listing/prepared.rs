//! Providers as they are shown where nothing is configured, compressed once for each catalog and not for each answer.
//!
//! The form is a line with the checksum of all that follows, that of the catalog, that of the entries in the program that
//! made it, and the length of the index; the index, a line for each provider; and their entries.

use std::{borrow::Cow, fmt::Write as _, io, ops::Range};

use flate2::Compression;
use windlass_core::config::Environment;
use windlass_protocol::opencode::config::ProviderConfig;

use super::{
    gzip::{self, Block},
    shown,
};
use crate::catalog::{
    build::{self, Stated, describe},
    table::Table,
};

/// Made from the catalog in the binary by a test of this module; see its message.
const BUILT_IN: &[u8] = include_bytes!("prepared.bin");

const MAGIC: &str = "windlass-listing-1";

/// The entries of a catalog.
pub struct Prepared {
    bytes: Cow<'static, [u8]>,
    /// By id.
    places: Vec<Place>,
}

/// The place of an entry.
struct Place {
    id: String,
    range: Range<usize>,
    n_bytes: usize,
    checksum: u32,
    newest: String,
    templates: String,
}

/// A provider's entry.
pub struct Entry<'a> {
    pub block: Block<'a>,
    /// The newest of its models.
    pub newest: Option<&'a str>,
    /// Addresses with variables, which are not set in the entry.
    pub templates: Vec<&'a str>,
}

impl Prepared {
    /// Returns the entries of a catalog, none for a file of the user's; `kept` reads those that were made of a fetched one
    /// before, and `keep` keeps them.
    pub fn of(
        table: &Table,
        kept: impl FnOnce() -> Option<Vec<u8>>,
        keep: impl FnOnce(&[u8]),
    ) -> io::Result<Prepared> {
        match table {
            Table::Packed(Cow::Borrowed(_)) => {
                Prepared::read(Cow::Borrowed(BUILT_IN), None).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidData, "the entries in the binary cannot be read")
                })
            }
            Table::Packed(Cow::Owned(_)) => {
                let known = kept().and_then(|bytes| Prepared::read(Cow::Owned(bytes), Some(table)));
                known.map_or_else(|| Prepared::make(table).inspect(|made| keep(&made.bytes)), Ok)
            }
            // It is read anew for each configuration, so that nothing is gained.
            Table::Plain(_) => Ok(Prepared { bytes: Cow::Borrowed(&[]), places: Vec::new() }),
        }
    }

    /// Makes the entries of a catalog. Takes a tenth of a second: there are thousands of models.
    pub fn make(table: &Table) -> io::Result<Prepared> {
        let (environment, nothing) = (Environment::default(), ProviderConfig::default());
        let stated = Stated { provider: &nothing, wire: None, environment: &environment };
        let (mut index, mut blocks) = (String::new(), Vec::new());
        for listed in &table.providers() {
            let id = listed.id.as_str();
            let known = build::Known { id, listed: Some(listed), table, options: None };
            let described = describe::describe(&known, &stated);
            let templates: Vec<String> = described.templates.iter().cloned().collect();
            let has_blank = templates.iter().any(|template| template.contains(char::is_whitespace));
            let templates = templates.join(" ");
            let provider = shown::provider(id, described);
            let json = serde_json::to_vec(&provider)?;
            let block = gzip::pack(&json, Compression::best())?;
            let newest = shown::newest(&provider).unwrap_or_default();
            // It would be another line of the index, or another address.
            if has_blank || [id, newest, &templates].iter().any(|text| text.contains(char::is_control)) {
                continue;
            }
            let (at, len, n_bytes, checksum) =
                (blocks.len(), block.len(), json.len(), crc32fast::hash(&json));
            // Writing to a string cannot fail.
            let _ = writeln!(index, "{id}\t{at}\t{len}\t{n_bytes}\t{checksum:08x}\t{newest}\t{templates}");
            blocks.extend(block);
        }
        let [catalog, maker] = stamps(table);
        let mut body = format!(" {catalog:08x} {maker:08x} {}\n{index}", index.len()).into_bytes();
        body.extend(blocks);
        let mut bytes = format!("{MAGIC} {:08x}", crc32fast::hash(&body)).into_bytes();
        bytes.extend(body);
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "the entries of the catalog cannot be read");
        Prepared::read(Cow::Owned(bytes), Some(table)).ok_or_else(damaged)
    }

    /// Reads entries; `None` if they are damaged or not those that this program makes of the catalog.
    fn read(bytes: Cow<'static, [u8]>, table: Option<&Table>) -> Option<Prepared> {
        let end = bytes.iter().take(100).position(|byte| *byte == b'\n')?;
        let mut words = str::from_utf8(&bytes[..end]).ok()?.split(' ');
        let (magic, checksum, catalog, maker, len) =
            (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        let read = |word| u32::from_str_radix(word, 16).ok();
        let body = bytes.get(MAGIC.len() + 1 + checksum.len()..)?;
        // Those in the binary are as whole as the binary.
        let is_of = |table: &Table| {
            stamps(table).map(Some) == [read(catalog), read(maker)]
                && read(checksum) == Some(crc32fast::hash(body))
        };
        if magic != MAGIC || !table.is_none_or(is_of) {
            return None;
        }
        let blocks = end.checked_add(1)?.checked_add(len.parse().ok()?)?;
        let index = str::from_utf8(bytes.get(end + 1..blocks)?).ok()?;
        let places: Option<Vec<Place>> = index.lines().map(|line| place(line, blocks)).collect();
        let places = places?;
        let is_whole = places.iter().all(|place| bytes.get(place.range.clone()).is_some());
        is_whole.then_some(Prepared { bytes, places })
    }

    /// Returns a provider's entry.
    pub fn find(&self, id: &str) -> Option<Entry<'_>> {
        let at = self.places.binary_search_by(|place| place.id.as_str().cmp(id)).ok()?;
        let Place { range, n_bytes, checksum, newest, templates, .. } = self.places.get(at)?;
        let packed = self.bytes.get(range.clone())?;
        let block = Block { packed, n_bytes: *n_bytes, checksum: *checksum };
        Some(Entry {
            block,
            newest: Some(newest.as_str()).filter(|newest| !newest.is_empty()),
            templates: templates.split_whitespace().collect(),
        })
    }
}

/// Returns the checksums of a catalog that was fetched and of the program: its version and the entries in it, by which
/// programs are told apart that show providers differently.
fn stamps(table: &Table) -> [u32; 2] {
    match table {
        Table::Packed(Cow::Owned(bytes)) => {
            let mut program = crc32fast::Hasher::new();
            program.update(env!("CARGO_PKG_VERSION").as_bytes());
            program.update(BUILT_IN);
            [crc32fast::hash(bytes), program.finalize()]
        }
        Table::Packed(Cow::Borrowed(_)) | Table::Plain(_) => [0, 0],
    }
}

fn place(line: &str, blocks: usize) -> Option<Place> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (id, at, len, n_bytes, checksum, newest) = (next()?, next()?, next()?, next()?, next()?, next()?);
    let start = blocks.checked_add(at.parse().ok()?)?;
    Some(Place {
        id: id.to_owned(),
        range: start..start.checked_add(len.parse().ok()?)?,
        n_bytes: n_bytes.parse().ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
        newest: newest.to_owned(),
        templates: next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests;
