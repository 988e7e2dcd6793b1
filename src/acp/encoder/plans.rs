//! The plans of a session as the client was shown them: the todo list, and the text that plan mode writes, which is shown
//! until another agent takes over.

use std::path::Path;

use serde_json::Value;
use windlass_engine::{Loaded, tool_look};
use windlass_protocol::opencode::{
    part::{ToolPart, ToolState},
    session::Todo,
    tool::Kind,
    tool_metadata::{Changes, Todos, decode},
};
use windlass_protocol_acp::schema::{
    PlanId, PlanMarkdown, PlanRemoved, PlanUpdate, PlanUpdateContent, SessionUpdate,
};

/// See the module's comment.
#[derive(Default)]
pub struct Plans {
    pub todos: Vec<Todo>,
    /// The agent that the newest prompt is for.
    agent: String,
    /// The plan in Markdown, and the agent that wrote it.
    text: Option<(PlanId, String)>,
}

impl Plans {
    /// Returns the update for a plan that a call has written.
    pub fn written(&mut self, tool: &ToolPart, cwd: &Path, loaded: &Loaded) -> Option<SessionUpdate> {
        let ToolState::Completed { input, metadata, .. } = &tool.state else { return None };
        if tool_look(&tool.tool).kind != Kind::Edit {
            return None;
        }
        let path = cwd.join(input.get("filePath").and_then(Value::as_str)?);
        let changes: Changes<'_> = decode(metadata).filter(|_| loaded.is_plan(&path))?;
        let text = changes.filediff?.after??;
        let id = PlanId::new(path.file_stem()?.to_string_lossy());
        self.text = Some((id.clone(), self.agent.clone()));
        let plan = PlanUpdateContent::Markdown(PlanMarkdown::new(id, text).path(path));
        Some(SessionUpdate::PlanUpdate(PlanUpdate::new(plan)))
    }

    /// Notes the agent of a prompt; returns the update that takes the plan of another one away.
    pub fn note_agent(&mut self, agent: &str) -> Option<SessionUpdate> {
        self.agent.clear();
        self.agent.push_str(agent);
        let (id, _) = self.text.take_if(|(_, planner)| planner != agent)?;
        Some(SessionUpdate::PlanRemoved(PlanRemoved::new(id)))
    }
}

/// Returns the list that a finished call wrote.
pub fn written_todos(tool: &ToolPart) -> Option<Vec<Todo>> {
    let ToolState::Completed { metadata, .. } = &tool.state else { return None };
    let written: Todos<'_> = Some(metadata).filter(|_| tool.tool == "todowrite").and_then(decode)?;
    Some(written.todos.into_owned())
}
