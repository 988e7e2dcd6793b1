//! The catalog of providers and their models: packed in the binary, fetched, or a file of the user's.
//!
//! A packed catalog is a line with its date and the length of the index, the index with one line for each
//! provider, and each provider's models as compressed JSON. Only the models of a provider that is asked for are
//! unpacked.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Read, Write as _},
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use windlass_protocol::opencode::config::{Modalities, ModelConfig, ModelCost, ModelLimit, ModelProvider};

/// `make catalog` rewrites it.
const PACKED: &[u8] = include_bytes!("table.bin");

const MAGIC: &str = "windlass-catalog-1";

/// Maximum bytes of one provider's models.
const MAX_MODELS: u64 = 8 << 20;

/// A catalog.
pub(super) enum Table {
    Packed(Cow<'static, [u8]>),
    /// A file in the form of `api.json`, provider by provider.
    Plain(BTreeMap<String, Box<RawValue>>),
}

/// A provider of the catalog.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Listed {
    pub id: String,
    pub name: String,
    pub npm: Option<String>,
    pub api: Option<String>,
    pub env: Vec<String>,
    /// Place of the models in a packed catalog.
    #[serde(skip)]
    range: (usize, usize),
}

/// A model of the catalog.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    name: Option<String>,
    family: Option<String>,
    attachment: Option<bool>,
    reasoning: Option<bool>,
    pub reasoning_options: Option<Vec<ReasoningOption>>,
    temperature: Option<bool>,
    tool_call: Option<bool>,
    interleaved: Option<Value>,
    modalities: Option<Modalities>,
    limit: Option<ModelLimit>,
    cost: Option<ModelCost>,
    status: Option<String>,
    release_date: Option<String>,
    provider: Option<EntryProvider>,
    experimental: Option<Experimental>,
}

/// A way to set how long a model thinks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ReasoningOption {
    /// `effort`, `toggle` or `budget_tokens`.
    #[serde(rename = "type")]
    pub kind: String,
    pub values: Vec<Option<String>>,
    pub max: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct EntryProvider {
    npm: Option<String>,
    api: Option<String>,
    shape: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Experimental {
    modes: BTreeMap<String, Mode>,
}

/// Another way to use a model, such as a faster one at another price.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Mode {
    cost: Option<ModelCost>,
    provider: ModeProvider,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ModeProvider {
    body: serde_json::Map<String, Value>,
    headers: BTreeMap<String, String>,
}

impl Entry {
    /// Returns the model in the form of a configuration.
    pub fn config(&self) -> ModelConfig {
        let provider = self.provider.clone().map(|own| ModelProvider {
            npm: own.npm.or_else(|| match own.shape.as_deref() {
                Some("responses") => Some("@ai-sdk/openai".to_owned()),
                Some("completions") => Some("@ai-sdk/openai-compatible".to_owned()),
                Some(_) | None => None,
            }),
            api: own.api,
        });
        ModelConfig {
            name: self.name.clone(),
            family: self.family.clone(),
            attachment: self.attachment,
            reasoning: self.reasoning,
            temperature: self.temperature,
            tool_call: self.tool_call,
            interleaved: self.interleaved.clone(),
            modalities: self.modalities.clone(),
            limit: self.limit,
            cost: self.cost.clone(),
            status: self.status.clone(),
            release_date: self.release_date.clone(),
            provider,
            ..ModelConfig::default()
        }
    }

    /// Returns the model's other modes as models of their own, with the suffixes of their ids.
    pub fn modes(&self) -> Vec<(String, ModelConfig)> {
        let modes = self.experimental.iter().flat_map(|experimental| &experimental.modes);
        let modes = modes.map(|(mode, other)| {
            let plain = self.config();
            let config = ModelConfig {
                name: plain.name.as_ref().map(|name| format!("{name} ({mode})")),
                cost: other.cost.clone().or(plain.cost.clone()),
                options: other.provider.body.clone(),
                headers: other.provider.headers.clone(),
                ..plain
            };
            (mode.clone(), config)
        });
        modes.collect()
    }
}

/// Models by id, each as JSON.
type Models<'a> = BTreeMap<String, &'a RawValue>;

impl Table {
    /// Returns the catalog in the binary.
    pub fn packed() -> Table {
        Table::Packed(Cow::Borrowed(PACKED))
    }

    /// Reads a packed catalog; `None` if it is not one.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Table> {
        let (_, _, blocks) = head(&bytes)?;
        let n_bytes = blocks.len();
        let table = Table::Packed(Cow::Owned(bytes));
        let providers = table.providers();
        let is_whole =
            providers.iter().all(|Listed { range: (at, len), .. }| at.saturating_add(*len) <= n_bytes);
        (is_whole && !providers.is_empty()).then_some(table)
    }

    /// Reads a catalog in the form of `api.json`.
    pub fn from_json(text: &str) -> Result<Table, serde_json::Error> {
        serde_json::from_str(text).map(Table::Plain)
    }

    /// Returns the day of a packed catalog.
    pub fn date(&self) -> Option<&str> {
        match self {
            Table::Packed(bytes) => head(bytes).map(|(date, ..)| date),
            Table::Plain(_) => None,
        }
    }

    /// Returns the providers by id.
    pub fn providers(&self) -> Vec<Listed> {
        match self {
            Table::Packed(bytes) => {
                let Some((_, index, _)) = head(bytes) else { return Vec::new() };
                index.lines().filter_map(listed).collect()
            }
            Table::Plain(providers) => {
                let texts = providers.iter().map(|(id, text)| (id, text.get()));
                let read = |(id, text): (&String, &str)| {
                    let listed: Listed = serde_json::from_str(text).ok()?;
                    let name = if listed.name.is_empty() { id.clone() } else { listed.name };
                    Some(Listed { id: id.clone(), name, ..listed })
                };
                texts.filter_map(read).collect()
            }
        }
    }

    /// Returns the models of a provider. A model that cannot be read is left out.
    pub fn models(&self, listed: &Listed) -> Vec<(String, Entry)> {
        #[derive(Deserialize)]
        struct Provider<'a> {
            #[serde(default, borrow)]
            models: Models<'a>,
        }
        // As text: some hundred models as values would take a megabyte, for a moment each time.
        let entries = |models: Models<'_>| {
            let read = |(id, text): (String, &RawValue)| Some((id, serde_json::from_str(text.get()).ok()?));
            models.into_iter().filter_map(read).collect()
        };
        match self {
            Table::Packed(_) => {
                let json = self.packed_models(listed).unwrap_or_default();
                serde_json::from_slice(&json).map(entries).unwrap_or_default()
            }
            Table::Plain(providers) => {
                let text = providers.get(&listed.id).map_or("{}", |text| text.get());
                serde_json::from_str(text)
                    .map(|provider: Provider<'_>| entries(provider.models))
                    .unwrap_or_default()
            }
        }
    }

    fn packed_models(&self, listed: &Listed) -> Option<Vec<u8>> {
        let Table::Packed(bytes) = self else { return None };
        let (_, _, blocks) = head(bytes)?;
        let (at, len) = listed.range;
        let block = blocks.get(at..at.checked_add(len)?)?;
        let mut json = Vec::new();
        DeflateDecoder::new(block).take(MAX_MODELS).read_to_end(&mut json).ok()?;
        Some(json)
    }
}

/// Returns the date, the index and the blocks of a packed catalog.
fn head(bytes: &[u8]) -> Option<(&str, &str, &[u8])> {
    let end = bytes.iter().take(100).position(|byte| *byte == b'\n')?;
    let mut words = str::from_utf8(&bytes[..end]).ok()?.split(' ');
    let (magic, date, len) = (words.next()?, words.next()?, words.next()?);
    if magic != MAGIC {
        return None;
    }
    let blocks = end + 1 + len.parse::<usize>().ok()?;
    let index = str::from_utf8(bytes.get(end + 1..blocks)?).ok()?;
    Some((date, index, &bytes[blocks..]))
}

fn listed(line: &str) -> Option<Listed> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (id, name, npm, api, env) = (next()?, next()?, next()?, next()?, next()?);
    let range = (next()?.parse().ok()?, next()?.parse().ok()?);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(Listed {
        id: id.to_owned(),
        name: name.to_owned(),
        npm: some(npm),
        api: some(api),
        env: env.split_whitespace().map(str::to_owned).collect(),
        range,
    })
}

/// Packs a catalog in the form of `api.json`, provider by provider.
pub(super) fn pack(json: &str, date: &str) -> io::Result<Vec<u8>> {
    /// The fields of a model that are read.
    const FIELDS: [&str; 14] = [
        "name",
        "family",
        "attachment",
        "reasoning",
        "reasoning_options",
        "temperature",
        "tool_call",
        "interleaved",
        "modalities",
        "limit",
        "cost",
        "status",
        "release_date",
        "provider",
    ];
    #[derive(Serialize)]
    struct Kept<'a>(#[serde(serialize_with = "serialize_kept")] &'a Value);
    fn serialize_kept<S: serde::Serializer>(value: &&Value, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = value.as_object().into_iter().flatten();
        serializer
            .collect_map(fields.filter(|(key, _)| FIELDS.contains(&key.as_str()) || *key == "experimental"))
    }
    #[derive(Deserialize)]
    struct Models {
        #[serde(default)]
        models: BTreeMap<String, Value>,
    }
    let table = Table::from_json(json)?;
    let Table::Plain(providers) = &table else { return Ok(Vec::new()) };
    let (mut index, mut blocks) = (String::new(), Vec::new());
    for listed in table.providers() {
        let Some(text) = providers.get(&listed.id) else { continue };
        let Models { models } = serde_json::from_str(text.get())?;
        let kept: BTreeMap<&str, Kept<'_>> =
            models.iter().map(|(id, model)| (id.as_str(), Kept(model))).collect();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&serde_json::to_vec(&kept)?)?;
        let block = encoder.finish()?;
        let plain = |text: &str| text.replace(['\t', '\n'], " ");
        let Listed { id, name, npm, api, env, .. } = &listed;
        let texts = [id, name, npm.as_deref().unwrap_or_default(), api.as_deref().unwrap_or_default()];
        let [id, name, npm, api] = texts.map(plain);
        let env = env.join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(index, "{id}\t{name}\t{npm}\t{api}\t{env}\t{}\t{}", blocks.len(), block.len());
        blocks.extend(block);
    }
    let mut packed = format!("{MAGIC} {date} {}\n{index}", index.len()).into_bytes();
    packed.extend(blocks);
    Ok(packed)
}

#[cfg(test)]
mod tests;
