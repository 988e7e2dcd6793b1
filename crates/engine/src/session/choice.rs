//! The agent and the model that the user chooses for a session.

use windlass_base::lock::lock;
use windlass_protocol::opencode::{id::SessionId, model_ref::ModelRef, session::SessionModel};
use windlass_provider::demo;

use super::{inbox::MAX_COMMANDS, request::Command};
use crate::{EngineError, EngineErrorKind, Sessions, workspace::state_file};

impl Sessions<'_> {
    /// Chooses the agent or model for later prompts of an open session, and for its subagents from now on. The choice
    /// is stored when this returns; prompts that are sent after that are answered by it.
    pub async fn select(
        self,
        id: &SessionId,
        agent: Option<String>,
        model: Option<ModelRef>,
    ) -> Result<(), EngineError> {
        self.engine.fleet().claim(id, None).await?;
        // The place is taken before anything is stored: a session that takes no more has chosen nothing.
        let place = match lock(&self.engine.0.sessions.open).get_mut(id) {
            Some(open) => self.engine.inbox(id, open).try_reserve_owned(),
            None => return Err(EngineError::session_not_found(id)),
        };
        let place = place.map_err(|_| {
            let message = format!("{MAX_COMMANDS} changes are waiting for this session already");
            EngineError::new(EngineErrorKind::InvalidInput, message)
        })?;
        let stored = model.clone().map(|model| SessionModel {
            id: model.model_id,
            provider_id: model.provider_id,
            variant: model.variant,
        });
        self.engine.0.storage.choose(id.clone(), agent.clone(), stored).await?;
        self.remember(model.clone());
        // A task that has ended meanwhile is followed by one that reads the choice from the store.
        place.send(Command::Select { agent, model });
        Ok(())
    }

    /// Remembers the model for sessions that are made later.
    fn remember(self, model: Option<ModelRef>) {
        // The demo is chosen for one session, never as the model from then on.
        let Some(model) = model.filter(|model| *model != demo::reference()) else { return };
        let paths = self.engine.0.paths.clone();
        self.engine.0.background_tasks.block(move || {
            if let Err(error) = state_file::remember_model(&paths, &model) {
                tracing::warn!(%error, "the last used model was not stored");
            }
        });
    }
}
