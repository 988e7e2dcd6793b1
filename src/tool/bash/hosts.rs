//! Asks about the hosts that a running command wants to reach and no setting names.

use std::collections::BTreeMap;

use super::call::{Line, described};
use crate::{
    base::proxy::gate::Question,
    config::policy::REACH_HOST,
    permission::Ask,
    tool::{ToolCx, ToolError},
};

/// Answers of one command, each of which holds for all its connections to that host.
#[derive(Default)]
pub struct Hosts {
    /// The question that [`Self::answer`] is about.
    pub open: Option<Question>,
    known: BTreeMap<String, Result<(), Option<String>>>,
}

impl Hosts {
    /// Answers the open question: as before, by the rules, or by asking the user.
    pub async fn answer(&mut self, cx: &ToolCx<'_>, line: &Line) {
        let Some(question) = self.open.take() else { return };
        let pattern = question.pattern;
        let answer = match self.known.get(&pattern) {
            Some(known) => known.clone(),
            None => ask(cx, line, &pattern).await,
        };
        self.known.insert(pattern, answer.clone());
        // The connection may be gone.
        let _ = question.answer.send(answer);
    }
}

async fn ask(cx: &ToolCx<'_>, line: &Line, pattern: &str) -> Result<(), Option<String>> {
    let mut metadata = described(cx.config, &line.command, &line.workdir, None);
    metadata.insert("reason".to_owned(), format!("reach {pattern}, which no setting names").into());
    let ask = Ask {
        permission: REACH_HOST.to_owned(),
        patterns: vec![pattern.to_owned()],
        always: vec![pattern.to_owned()],
        metadata,
    };
    cx.host.ask(ask).await.map_err(|refusal| match refusal {
        ToolError::Denied { feedback } => feedback,
        _other => None,
    })
}
