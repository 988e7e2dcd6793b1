//! The whole catalog with the configuration over it, for programs that let a person choose.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use flate2::{Compression, read::GzDecoder};
use windlass_core::config::Config;
use windlass_protocol::opencode::{
    config::ProviderConfig,
    provider::{Provider, ProviderSource, UsableProviders},
};

use super::{
    Catalog,
    build::{self, Stated, describe},
    in_order, source,
    table::{Listed, Table},
};

mod gzip;
pub(super) mod prepared;
mod shown;

/// Returns the usable providers.
pub fn usable(config: &Config, catalog: &Catalog) -> UsableProviders {
    let table = load(config);
    let listing = Listing { config, catalog, listed: table.providers(), table: &table };
    let providers: Vec<Provider> = listing.usable().into_iter().map(|id| listing.provider(id)).collect();
    let best = |it: &Provider| Some((it.id.clone(), listing.best(&it.id, shown::newest(it))?));
    UsableProviders { default: providers.iter().filter_map(best).collect(), providers }
}

/// Every known provider with its models, the usable ones first: OpenCode's `AllProviders` as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedListing {
    /// As a gzip file.
    pub packed: Vec<u8>,
    /// CRC-32 of the JSON.
    pub checksum: u32,
    /// Bytes of the JSON.
    pub n_bytes: u64,
}

impl EncodedListing {
    /// Returns the JSON of a gzip file.
    pub fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut plain)?;
        Ok(plain)
    }
}

/// Returns every known provider. Those of which the configuration says nothing are as they were prepared, which spares
/// thousands of models.
pub fn encode(config: &Config, catalog: &Catalog) -> io::Result<EncodedListing> {
    let table = load(config);
    let prepared = source::prepared(&config.environment, &config.paths, &table)?;
    let listing = Listing { config, catalog, listed: table.providers(), table: &table };
    let mut default = BTreeMap::new();
    let mut gzip = gzip::Gzip::new();
    gzip.text(br#"{"all":["#);
    for (idx, id) in listing.all().into_iter().enumerate() {
        if idx > 0 {
            gzip.text(b",");
        }
        let as_prepared = prepared.find(id).filter(|entry| listing.says_nothing_of(id, &entry.templates));
        let newest = if let Some(entry) = as_prepared {
            gzip.block(entry.block);
            entry.newest.map(str::to_owned)
        } else {
            let provider = listing.provider(id);
            let json = serde_json::to_vec(&provider)?;
            let packed = gzip::pack(&json, Compression::fast())?;
            let checksum = crc32fast::hash(&json);
            gzip.block(gzip::Block { packed: &packed, n_bytes: json.len(), checksum });
            shown::newest(&provider).map(str::to_owned)
        };
        if let Some(best) = listing.best(id, newest.as_deref()) {
            default.insert(id, best);
        }
    }
    gzip.text(br#"],"default":"#);
    gzip.text(&serde_json::to_vec(&default)?);
    gzip.text(br#","connected":"#);
    gzip.text(&serde_json::to_vec(&listing.usable())?);
    gzip.text(b"}");
    let (packed, checksum, n_bytes) = gzip.finish();
    Ok(EncodedListing { packed, checksum, n_bytes })
}

/// Reads the catalog that holds. Problems of it were told when the models were resolved.
fn load(config: &Config) -> Table {
    source::load(&config.environment, &config.paths, &mut Vec::new())
}

/// The parts that a listing is made of.
struct Listing<'a> {
    config: &'a Config,
    catalog: &'a Catalog,
    table: &'a Table,
    listed: Vec<Listed>,
}

impl Listing<'_> {
    fn usable(&self) -> Vec<&str> {
        self.catalog.providers.iter().map(|provider| provider.id.as_str()).collect()
    }

    fn is_usable(&self, id: &str) -> bool {
        self.catalog.provider(id).is_some()
    }

    /// Returns the ids of the usable providers and of the others that are not switched off.
    fn all(&self) -> Vec<&str> {
        let Config { disabled_providers: disabled, enabled_providers: enabled, .. } = self.config;
        let is_switched_off = |id: &str| {
            disabled.iter().any(|it| it == id)
                || enabled.as_ref().is_some_and(|enabled| !enabled.iter().any(|it| it == id))
        };
        let mut ids = self.usable();
        let others = in_order(self.config, &self.listed).into_iter();
        ids.extend(others.filter(|id| !self.is_usable(id) && !is_switched_off(id)));
        ids
    }

    fn known<'b>(&'b self, id: &'b str) -> build::Known<'b> {
        let found = self.listed.binary_search_by(|listed| listed.id.as_str().cmp(id));
        let listed = found.ok().and_then(|at| self.listed.get(at));
        build::Known { id, listed, table: self.table, options: None }
    }

    /// Returns true if a provider is shown as if there were no configuration, no environment and no key.
    fn says_nothing_of(&self, id: &str, templates: &[&str]) -> bool {
        let Config { providers, settings, environment, .. } = self.config;
        let is_configured = providers.contains_key(id) || settings.windlass.wire.contains_key(id);
        // Both variables put models into OpenAI's list or take them out.
        let has_other_models = id == "openai"
            && ["OPENAI_BASE_URL", "OPENAI_MODEL"].iter().any(|it| environment.get(it).is_some());
        let shows_more = environment.is_on("OPENCODE_ENABLE_EXPERIMENTAL_MODELS");
        let unconfigured = ProviderConfig::default();
        let has_no_variable = || {
            let stated = Stated::of(self.config, id, &unconfigured);
            templates.is_empty() || describe::is_without_variables(&self.known(id), &stated, templates)
        };
        !self.is_usable(id) && !is_configured && !has_other_models && !shows_more && has_no_variable()
    }

    fn provider(&self, id: &str) -> Provider {
        if id == self.catalog.demo().provider_id {
            return shown::demo(self.catalog.demo());
        }
        let unconfigured = ProviderConfig::default();
        let stated = Stated::of(self.config, id, &unconfigured);
        let shown = shown::provider(id, describe::describe(&self.known(id), &stated));
        let has_variable = || shown.env.iter().any(|name| self.config.environment.get(name).is_some());
        let source = if self.config.providers.contains_key(id) {
            ProviderSource::Config
        } else if !self.is_usable(id) {
            ProviderSource::Custom
        } else if has_variable() {
            ProviderSource::Env
        } else {
            ProviderSource::Api
        };
        Provider { source, ..shown }
    }

    /// Returns the best model of a provider: the one that would be used, else the newest.
    fn best(&self, id: &str, newest: Option<&str>) -> Option<String> {
        let first = self.catalog.provider(id).and_then(|it| it.models.first()).map(|model| model.id.as_str());
        first.or(newest).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests;
