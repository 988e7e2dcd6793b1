//! The order of a provider's models: those first that are good for agents, of the best family, the newest.

use windlass_protocol::opencode::config::ModelConfig;

/// Families of flagships, the most preferred first.
const FAMILIES: [&[&str]; 4] =
    [&["claude-opus", "claude-sonnet"], &["gpt", "gpt-sol"], &["gemini-pro", "gemini-flash"], &["grok"]];

/// Words in ids of models that are cheaper, older, unfinished or made for something else.
const LESSER: [&str; 30] = [
    "nano",
    "mini",
    "lite",
    "haiku",
    "small",
    "tiny",
    "turbo",
    "instant",
    "highspeed",
    "fast",
    "flashx",
    "image",
    "audio",
    "tts",
    "live",
    "realtime",
    "embedding",
    "search",
    "research",
    "preview",
    "exp",
    "free",
    "safeguard",
    "vision",
    "codex",
    "chat",
    "blue",
    "red",
    "omni",
    "luna",
];

/// A model's place; the greatest is the best.
pub(super) type Rank = (bool, bool, u8, bool, String, bool, String);

pub(super) fn of(provider: &str, model_id: &str, config: &ModelConfig) -> Rank {
    let writes_text = config.modalities.as_ref().is_none_or(|modalities| {
        modalities.output.is_empty() || modalities.output.iter().any(|output| output == "text")
    });
    let has_room =
        config.limit.is_none_or(|limit| limit.context == 0 || limit.context > limit.output.min(32_000));
    let is_able = config.tool_call != Some(false) && writes_text && has_room;
    let family = config.family.as_deref().unwrap_or_default();
    let class = match FAMILIES.iter().position(|families| families.contains(&family)) {
        Some(place) => (FAMILIES.len() - place) as u8 + 1,
        None => u8::from(!family.is_empty() && family.starts_with(provider)),
    };
    let is_gemini = family.starts_with("gemini");
    let is_lesser = model_id.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        match word {
            "flash" => !is_gemini,
            // The dear ones of OpenAI take minutes.
            "pro" => family.starts_with("gpt"),
            word => LESSER.contains(&word),
        }
    });
    let released = config.release_date.clone().unwrap_or_default();
    let is_latest = model_id.contains("latest") && released.is_empty();
    // Of two names of one model, the one without a day goes on to the next.
    let last = model_id.rsplit(['-', '@']).next().unwrap_or_default();
    let is_dated = last.len() >= 6 && last.parse::<u32>().is_ok();
    (is_able, !is_lesser, class, is_latest, released, !is_dated, model_id.to_owned())
}
