//! Well-known providers and their models, for a start without a catalog.

use windlass_protocol::opencode::config::{Modalities, ModelConfig, ModelCost, ModelLimit};

/// The built-in providers. The configuration overrides and extends them.
pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "anthropic",
        name: "Anthropic",
        npm: "@ai-sdk/anthropic",
        env: "ANTHROPIC_API_KEY",
        models: &[
            claude("claude-opus-4-5", "Claude Opus 4.5", [5.0, 25.0, 0.5, 6.25]),
            claude("claude-sonnet-4-5", "Claude Sonnet 4.5", [3.0, 15.0, 0.3, 3.75]),
            claude("claude-sonnet-4-20250514", "Claude Sonnet 4", [3.0, 15.0, 0.3, 3.75]),
            claude("claude-haiku-4-5", "Claude Haiku 4.5", [1.0, 5.0, 0.1, 1.25]),
        ],
    },
    Row {
        id: "openai",
        name: "OpenAI",
        npm: "@ai-sdk/openai",
        env: "OPENAI_API_KEY",
        models: &[
            gpt_5("gpt-5.2", "GPT-5.2", [1.75, 14.0, 0.175, 0.0]),
            gpt_5("gpt-5.1", "GPT-5.1", [1.25, 10.0, 0.125, 0.0]),
            gpt_5("gpt-5", "GPT-5", [1.25, 10.0, 0.125, 0.0]),
            gpt_5("gpt-5-mini", "GPT-5 mini", [0.25, 2.0, 0.025, 0.0]),
            gpt_5("gpt-5-nano", "GPT-5 nano", [0.05, 0.4, 0.005, 0.0]),
            RowModel {
                id: "gpt-4.1",
                name: "GPT-4.1",
                context: 1_047_576,
                max_input: None,
                output: 32_768,
                cost: [2.0, 8.0, 0.5, 0.0],
                takes_pdf: false,
                takes_temperature: true,
            },
            gpt_4o("gpt-4o", "GPT-4o", [2.5, 10.0, 1.25, 0.0]),
            gpt_4o("gpt-4o-mini", "GPT-4o mini", [0.15, 0.6, 0.075, 0.0]),
        ],
    },
];

/// A built-in provider.
pub(super) struct Row {
    pub id: &'static str,
    pub name: &'static str,
    pub npm: &'static str,
    pub env: &'static str,
    pub models: &'static [RowModel],
}

pub(super) struct RowModel {
    pub id: &'static str,
    pub name: &'static str,
    pub context: u64,
    pub max_input: Option<u64>,
    pub output: u64,
    /// The price in US dollars per million tokens: input, output, cache read, cache write.
    pub cost: [f64; 4],
    pub takes_pdf: bool,
    pub takes_temperature: bool,
}

impl RowModel {
    pub fn config(&self) -> ModelConfig {
        let [input, output, cache_read, cache_write] = self.cost;
        let kinds = ["text", "image"].into_iter().chain(self.takes_pdf.then_some("pdf"));
        ModelConfig {
            name: Some(self.name.to_owned()),
            temperature: Some(self.takes_temperature),
            limit: Some(ModelLimit { context: self.context, input: self.max_input, output: self.output }),
            cost: Some(ModelCost { input, output, cache_read, cache_write, ..ModelCost::default() }),
            modalities: Some(Modalities {
                input: kinds.map(str::to_owned).collect(),
                output: vec!["text".to_owned()],
            }),
            ..ModelConfig::default()
        }
    }
}

const fn claude(id: &'static str, name: &'static str, cost: [f64; 4]) -> RowModel {
    let (context, output) = (200_000, 64_000);
    RowModel { id, name, context, max_input: None, output, cost, takes_pdf: true, takes_temperature: true }
}

const fn gpt_5(id: &'static str, name: &'static str, cost: [f64; 4]) -> RowModel {
    let (context, max_input, output) = (400_000, Some(272_000), 128_000);
    RowModel { id, name, context, max_input, output, cost, takes_pdf: false, takes_temperature: false }
}

const fn gpt_4o(id: &'static str, name: &'static str, cost: [f64; 4]) -> RowModel {
    let (context, output) = (128_000, 16_384);
    RowModel { id, name, context, max_input: None, output, cost, takes_pdf: false, takes_temperature: true }
}
