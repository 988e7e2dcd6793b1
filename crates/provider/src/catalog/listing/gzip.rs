//! A gzip file made of texts and of parts that are compressed already, none of which is unpacked for it.

use std::io::{self, Write};

use crc32fast::Hasher;
use flate2::{Compression, write::DeflateEncoder};

/// No name, no time, an unknown system (RFC 1952 §2.3).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Maximum bytes of a stored block (RFC 1951 §3.2.4).
const MAX_STORED: usize = 0xffff;

/// A compressed part that ends at a byte and that refers to nothing before itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    pub packed: &'a [u8],
    /// Bytes of the text.
    pub n_bytes: usize,
    /// CRC-32 of the text.
    pub checksum: u32,
}

/// Compresses a text to the bytes of a [`Block`].
pub fn pack(text: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), level);
    encoder.write_all(text)?;
    // Ends at a byte, but is not the last block of a file.
    encoder.flush()?;
    Ok(std::mem::take(encoder.get_mut()))
}

/// The file as far as it is written.
pub struct Gzip {
    bytes: Vec<u8>,
    hasher: Hasher,
}

impl Gzip {
    pub fn new() -> Gzip {
        Gzip { bytes: HEADER.to_vec(), hasher: Hasher::new() }
    }

    /// Adds a text as it is.
    pub fn text(&mut self, text: &[u8]) {
        self.hasher.update(text);
        for part in text.chunks(MAX_STORED) {
            self.stored(part, false);
        }
    }

    pub fn block(&mut self, block: Block<'_>) {
        self.bytes.extend_from_slice(block.packed);
        self.hasher.combine(&Hasher::new_with_initial_len(block.checksum, block.n_bytes as u64));
    }

    /// Ends the file; returns it with the CRC-32 and the length of its text.
    pub fn finish(mut self) -> (Vec<u8>, u32, u64) {
        self.stored(&[], true);
        let n_bytes = self.hasher.total_len();
        let checksum = self.hasher.finalize();
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        // The format has the lowest 32 bits only.
        self.bytes.extend_from_slice(&(n_bytes as u32).to_le_bytes());
        (self.bytes, checksum, n_bytes)
    }

    fn stored(&mut self, part: &[u8], is_last: bool) {
        let len = part.len() as u16;
        self.bytes.push(u8::from(is_last));
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&(!len).to_le_bytes());
        self.bytes.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
