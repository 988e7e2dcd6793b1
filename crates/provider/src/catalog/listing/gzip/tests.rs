//! Files of texts and blocks are those that any reader of gzip takes.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

#[test]
fn texts_and_blocks_of_any_length_come_back_in_order() {
    let parts: Vec<Vec<u8>> = [0_u64, 1, 7, 255, 65_535, 65_536, 200_000]
        .into_iter()
        .map(|n_bytes| (0..n_bytes).map(|idx| (idx * idx / 7) as u8).collect())
        .collect();
    let (mut gzip, mut expected) = (Gzip::new(), Vec::new());
    for part in &parts {
        gzip.text(part);
        let packed = pack(part, Compression::fast()).unwrap();
        gzip.block(Block { packed: &packed, n_bytes: part.len(), checksum: crc32fast::hash(part) });
        expected.extend_from_slice(part);
        expected.extend_from_slice(part);
    }
    let (file, checksum, n_bytes) = gzip.finish();
    assert_eq!((checksum, n_bytes), (crc32fast::hash(&expected), expected.len() as u64));
    let mut text = Vec::new();
    // It checks the checksum and the length.
    GzDecoder::new(file.as_slice()).read_to_end(&mut text).unwrap();
    assert!(text == expected);
}
