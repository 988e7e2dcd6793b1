//! The document in the binary.

use std::path::Path;

use windlass_base::packed;

use super::{PACKED, make::document};

#[test]
fn the_document_in_the_binary_is_the_one_of_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/doc/openapi.json.gz");
    packed::check(&document().to_string(), PACKED, &file);
}
