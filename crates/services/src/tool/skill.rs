//! Loads a skill for the model.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::{library::skills, permission::Ask};
use windlass_protocol::opencode::tool_metadata::{LoadedSkill, encode};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments, blocking, path::display};

/// The skill to load.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The skill's name, as in the list of skills.
    pub name: String,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("skill", input)?;
    let Some(skill) = skills::find(cx.skills, args.name.trim()) else {
        let offered = skills::offered(cx.skills, &cx.host.policy());
        let names: Vec<&str> = offered.iter().map(|skill| skill.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(ToolError::Model(format!(
            "Skill \"{}\" not found. Available skills: {names}",
            args.name
        )));
    };
    let patterns = vec![skill.name.clone()];
    // As a pattern, such a name would match other skills as well.
    let is_pattern = skill.name.contains(['*', '?']);
    let always = if is_pattern { Vec::new() } else { patterns.clone() };
    let ask = Ask { permission: "skill".to_owned(), always, patterns, metadata: Map::new() };
    cx.host.ask(ask).await?;

    let (loading, project_files) = (skill.clone(), cx.config.project_files.clone());
    let content = blocking(move || loading.load(&project_files).map_err(ToolError::Model)).await?;
    let mut output =
        format!("<skill_content name=\"{}\">\n# Skill: {}\n\n{}\n", skill.name, skill.name, content.body);
    let directory = skill.directory().map(display);
    if let Some(directory) = &directory {
        output.push_str(&format!(
            "\nBase directory for this skill: {directory}\nRelative paths in this skill start from it. The files \
             listed here may not be all of them.\n\n<skill_files>\n"
        ));
        for file in &content.files {
            output.push_str(&format!("<file>{}</file>\n", display(file)));
        }
        output.push_str("</skill_files>\n");
    }
    output.push_str("</skill_content>");
    Ok(ToolOutput {
        title: format!("Loaded skill: {}", skill.name),
        output,
        metadata: encode(&LoadedSkill { name: &skill.name, dir: directory.as_deref() }),
        attachments: Vec::new(),
    })
}
