//! The whole catalog as it is sent: written once for a configuration, and kept with its compressed form.

use std::{
    io::Write,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use axum::body::Bytes;
use flate2::{Compression, write::GzEncoder};
use windlass_base::{blocking::blocking, lock::lock};
use windlass_engine::Loaded;

/// Configurations that have their catalogs kept.
const MAX_KEPT: usize = 8;

/// The catalogs that were written, each as long as its configuration holds.
#[derive(Default)]
pub struct Catalogs(Mutex<Vec<(Weak<Loaded>, Arc<EncodedCatalog>)>>);

/// A catalog as it is sent.
pub struct EncodedCatalog {
    pub plain: Bytes,
    packed: OnceLock<Bytes>,
    pub tag: String,
}

impl EncodedCatalog {
    /// Returns its compressed form, which is made once it is asked for.
    pub async fn packed(self: &Arc<Self>) -> Bytes {
        if let Some(packed) = self.packed.get() {
            return packed.clone();
        }
        let catalog = self.clone();
        blocking(move || catalog.packed.get_or_init(|| pack(&catalog.plain)).clone()).await
    }
}

impl Catalogs {
    /// Returns the catalog of a configuration, which is written at its first use.
    pub async fn get(&self, loaded: &Arc<Loaded>) -> Arc<EncodedCatalog> {
        let known = {
            let mut kept = lock(&self.0);
            kept.retain(|(owner, _)| owner.strong_count() > 0);
            kept.iter().find(|(owner, _)| owner.as_ptr() == Arc::as_ptr(loaded)).map(|(_, it)| it.clone())
        };
        if let Some(written) = known {
            return written;
        }
        let plain = loaded.all_providers().await;
        let written = blocking(move || write(plain)).await;
        let mut kept = lock(&self.0);
        // Most configurations have the same catalog, which is kept once.
        let same = kept.iter().find(|(_, it)| it.tag == written.tag).map(|(_, it)| it.clone());
        let written = same.unwrap_or_else(|| Arc::new(written));
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(loaded), written.clone()));
        written
    }
}

fn write(plain: Vec<u8>) -> EncodedCatalog {
    let tag = format!("\"{:08x}-{:x}\"", crc32fast::hash(&plain), plain.len());
    EncodedCatalog { plain: plain.into(), packed: OnceLock::new(), tag }
}

fn pack(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default().into()
}
