//! A provider as it is shown, with all its models.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::ModelConfig,
    provider::{
        CacheCost, Media, ModelApi, ModelCapabilities, Provider, ProviderModel, ProviderSource, ShownCost,
        ShownLimit,
    },
};

use crate::{Model, catalog::build::describe};

/// Shows a provider with all that it offers.
pub fn provider(id: &str, described: describe::Described) -> Provider {
    let models = described.models.into_iter().map(|it| (it.id.clone(), model(id, it)));
    Provider {
        models: models.collect(),
        id: id.to_owned(),
        name: described.name,
        source: ProviderSource::Custom,
        env: described.env,
        options: described.options,
    }
}

/// Returns the newest of a provider's models.
pub fn newest(provider: &Provider) -> Option<&str> {
    let newest = provider
        .models
        .values()
        .max_by(|one, other| (&one.release_date, &other.id).cmp(&(&other.release_date, &one.id)));
    newest.map(|model| model.id.as_str())
}

fn model(provider: &str, described: describe::DescribedModel) -> ProviderModel {
    let describe::DescribedModel { id, config, npm, url, variants } = described;
    let ModelConfig { cost, limit, modalities, .. } = &config;
    let cost = cost.clone().unwrap_or_default();
    let limit = limit.unwrap_or_default();
    let modalities = modalities.clone().unwrap_or_default();
    let media = |kinds: &[String]| {
        let has = |kind: &str| kinds.iter().any(|it| it == kind);
        Media {
            text: has("text") || kinds.is_empty(),
            audio: has("audio"),
            image: has("image"),
            video: has("video"),
            pdf: has("pdf"),
        }
    };
    ProviderModel {
        api: ModelApi { id: config.id.clone().unwrap_or_else(|| id.clone()), url, npm },
        provider_id: provider.to_owned(),
        name: config.name.clone().unwrap_or_else(|| id.clone()),
        id,
        family: config.family.clone(),
        capabilities: ModelCapabilities {
            temperature: config.temperature.unwrap_or(false),
            reasoning: config.reasoning.unwrap_or(false),
            attachment: config.attachment.unwrap_or(false),
            toolcall: config.tool_call.unwrap_or(true),
            input: media(&modalities.input),
            output: media(&modalities.output),
            interleaved: config.interleaved.clone().unwrap_or(Value::Bool(false)),
        },
        cost: ShownCost {
            input: cost.input,
            output: cost.output,
            cache: CacheCost { read: cost.cache_read, write: cost.cache_write },
        },
        limit: ShownLimit { context: limit.context, input: limit.input, output: limit.output },
        status: config.status.clone().unwrap_or_else(|| "active".to_owned()),
        options: config.options.clone(),
        headers: BTreeMap::new(),
        release_date: config.release_date.clone().unwrap_or_default(),
        variants: variants.into_iter().map(|(name, options)| (name, Value::Object(options))).collect(),
    }
}

/// Shows the built-in demo.
pub fn demo(demo: &Model) -> Provider {
    let config = ModelConfig { name: Some(demo.name.clone()), limit: Some(demo.limit), ..Default::default() };
    let described = describe::DescribedModel {
        id: demo.id.clone(),
        config,
        npm: String::new(),
        url: String::new(),
        variants: Vec::new(),
    };
    Provider {
        id: demo.provider_id.clone(),
        name: demo.provider_name.clone(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: Map::new(),
        models: [(demo.id.clone(), model(&demo.provider_id, described))].into(),
    }
}
