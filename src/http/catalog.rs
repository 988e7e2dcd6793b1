//! The whole catalog as it is sent: made once for a configuration, compressed, and unpacked for clients that want that.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use axum::body::Bytes;
use windlass_base::{blocking::blocking, lock::lock};
use windlass_engine::{EncodedListing, Loaded};

/// Configurations that have their catalogs kept.
const MAX_KEPT: usize = 8;

/// The catalogs that were made, each as long as its configuration holds.
#[derive(Default)]
pub struct Catalogs(Mutex<Vec<(Weak<Loaded>, Arc<EncodedCatalog>)>>);

/// A catalog as it is sent.
pub struct EncodedCatalog {
    /// As a gzip file.
    pub packed: Bytes,
    pub tag: String,
    /// Made at the first use: it takes megabytes, and most clients take the file.
    plain: OnceLock<Bytes>,
}

impl Catalogs {
    /// Returns the catalog of a configuration, which is made at its first use.
    pub async fn get(&self, loaded: &Arc<Loaded>) -> io::Result<Arc<EncodedCatalog>> {
        let known = {
            let mut kept = lock(&self.0);
            kept.retain(|(owner, _)| owner.strong_count() > 0);
            kept.iter().find(|(owner, _)| owner.as_ptr() == Arc::as_ptr(loaded)).map(|(_, it)| it.clone())
        };
        if let Some(catalog) = known {
            return Ok(catalog);
        }
        let of = loaded.clone();
        let EncodedListing { packed, checksum, n_bytes } = blocking(move || of.encode_providers()).await?;
        let tag = format!("\"{checksum:08x}-{n_bytes:x}\"");
        let mut kept = lock(&self.0);
        // Most configurations have the same catalog, which is kept once.
        let same = kept.iter().find(|(_, it)| it.tag == tag).map(|(_, it)| it.clone());
        let catalog = same.unwrap_or_else(|| {
            Arc::new(EncodedCatalog { packed: packed.into(), tag, plain: OnceLock::new() })
        });
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(loaded), catalog.clone()));
        Ok(catalog)
    }
}

impl EncodedCatalog {
    /// Returns the text.
    pub async fn plain(self: &Arc<Self>) -> io::Result<Bytes> {
        if let Some(plain) = self.plain.get() {
            return Ok(plain.clone());
        }
        let catalog = self.clone();
        let plain = blocking(move || EncodedListing::unpack(&catalog.packed)).await?;
        Ok(self.plain.get_or_init(|| plain.into()).clone())
    }
}
