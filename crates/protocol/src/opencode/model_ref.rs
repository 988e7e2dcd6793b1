//! The name of a provider's model.

use serde::{Deserialize, Serialize};

/// A provider's model by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelRef {
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// The variant, such as a reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl ModelRef {
    /// Splits `provider/model` at the first slash (facts: OpenCode §7.2).
    pub fn parse(text: &str) -> Option<Self> {
        let (provider_id, model_id) = text.split_once('/')?;
        let is_complete = !provider_id.is_empty() && !model_id.is_empty();
        is_complete.then(|| Self {
            provider_id: provider_id.to_owned(),
            model_id: model_id.to_owned(),
            variant: None,
        })
    }
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider_id, self.model_id)
    }
}
