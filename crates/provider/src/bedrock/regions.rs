//! Ids of models in a region: most models answer only by the id of a group of regions.

/// Prefixes of ids that name their regions already.
const PREFIXES: [&str; 10] =
    ["global.", "us.", "us-gov.", "eu.", "jp.", "apac.", "au.", "ca.", "in.", "arn:"];

/// Returns the id by which a model is asked in a region (facts: OpenCode §7.2).
pub fn regional_id(id: &str, region: &str) -> String {
    let has = |names: &[&str]| names.iter().any(|name| id.contains(name));
    if PREFIXES.iter().any(|prefix| id.starts_with(prefix)) {
        return id.to_owned();
    }
    let nova = ["nova-lite", "nova-micro", "nova-pro", "nova-premier", "nova-2"];
    let is_grouped = |others: &[&str]| has(&["anthropic.claude"]) || has(&nova) || has(others);
    let prefix = match region {
        _ if region.starts_with("us-gov-") => None,
        _ if region.starts_with("us-") => is_grouped(&["deepseek.r1"]).then_some("us"),
        _ if region.starts_with("eu-") => is_grouped(&["llama3", "pixtral"]).then_some("eu"),
        "ap-southeast-2" | "ap-southeast-4" if has(&["anthropic.claude"]) => Some("au"),
        "ap-northeast-1" | "ap-northeast-3" if has(&["anthropic.claude", "nova-2"]) => Some("jp"),
        _ if region.starts_with("ap-") => is_grouped(&[]).then_some("apac"),
        _ => None,
    };
    prefix.map_or_else(|| id.to_owned(), |prefix| format!("{prefix}.{id}"))
}
