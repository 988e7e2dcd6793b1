//! Commands in the background: their number, their end, and the way in which the model hears of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass_base::lock::lock;
use windlass_protocol::opencode::{id::SessionId, model_ref::ModelRef};
use windlass_services::tool::{
    ToolError,
    bash::background::{Job, JobEnd, Kept, NewJob},
};

use crate::{
    PromptInput, PromptPart, Sessions,
    session::{request::SpentBelow, warning_log::WarningLog},
};

/// Commands of one session that may run in the background at a time.
const MAX_RUNNING: usize = 8;
/// Commands of one session that are remembered; the oldest that have ended are forgotten.
const MAX_KNOWN: usize = 32;
/// Bytes of output that the model reads with the end; the tool `job` reads more.
const MAX_TOLD: usize = 8 * 1024;

/// Time that a command which is stopped may take to end before its stop is answered; it is killed by then.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// See the module's comment.
#[derive(Default)]
pub struct Jobs(Mutex<HashMap<SessionId, Known>>);

/// The commands of a session.
#[derive(Default)]
struct Known {
    jobs: Vec<Arc<Job>>,
    n_begun: usize,
}

impl Jobs {
    /// Lists a command under an id of its own; `None` where too many run.
    fn add(&self, session: &SessionId, mut job: Job) -> Option<Arc<Job>> {
        let mut all = lock(&self.0);
        let known = all.entry(session.clone()).or_default();
        let n_running = known.jobs.iter().filter(|job| job.is_running()).count();
        if n_running >= MAX_RUNNING {
            return None;
        }
        if known.jobs.len() >= MAX_KNOWN
            && let Some(oldest) = known.jobs.iter().position(|job| !job.is_running())
        {
            known.jobs.remove(oldest);
        }
        known.n_begun += 1;
        job.id = format!("job_{}", known.n_begun);
        let job = Arc::new(job);
        known.jobs.push(job.clone());
        Some(job)
    }

    fn of(&self, session: &SessionId) -> Vec<Arc<Job>> {
        lock(&self.0).get(session).map(|known| known.jobs.clone()).unwrap_or_default()
    }

    /// Forgets a command that could not be started.
    fn forget(&self, session: &SessionId, id: &str) {
        if let Some(known) = lock(&self.0).get_mut(session) {
            known.jobs.retain(|job| job.id != id);
        }
    }

    /// Stops the commands of a session that ends, and forgets them.
    fn end(&self, session: &SessionId) {
        let known = lock(&self.0).remove(session).unwrap_or_default();
        known.jobs.iter().for_each(|job| job.stop());
    }

    /// Stops the commands of all sessions; false if none runs.
    pub fn end_all(&self) -> bool {
        let all = std::mem::take(&mut *lock(&self.0));
        let mut running =
            all.into_values().flat_map(|known| known.jobs).filter(|job| job.is_running()).peekable();
        let are_there = running.peek().is_some();
        running.for_each(|job| job.stop());
        are_there
    }
}

impl Sessions<'_> {
    /// Returns the commands of a session that run, or ran, in the background, in the order in which they began.
    pub fn jobs(self, id: &SessionId) -> Vec<Arc<Job>> {
        self.engine.0.jobs.of(id)
    }

    /// Stops a command, and waits for its end; false if it had ended, and `None` if the session knows none of that id.
    pub async fn stop_job(self, id: &SessionId, job_id: &str) -> Option<bool> {
        let job = self.jobs(id).into_iter().find(|job| job.id == job_id)?;
        let is_running = job.is_running();
        job.stop();
        job.wait(STOP_LIMIT).await;
        Some(is_running)
    }

    pub(crate) fn close_jobs(self, id: &SessionId) {
        self.engine.0.jobs.end(id);
    }

    /// Runs a command in the background, and tells the session's model of its end: in the turn that runs there, else by a
    /// new one. The model is not told of what was stopped, nor where this turn `is_last` in its session.
    pub(crate) fn keep_running(
        self,
        id: &SessionId,
        new: NewJob,
        warning_log: &WarningLog,
        is_last: bool,
    ) -> Result<Kept, ToolError> {
        let NewJob { job, work } = new;
        let Some(job) = self.engine.0.jobs.add(id, job) else {
            return Err(ToolError::Model(format!(
                "{MAX_RUNNING} commands run in the background already. Stop one of them, or leave `background` out."
            )));
        };
        let (engine, session, log) = (self.engine.clone(), id.clone(), warning_log.clone());
        let job_id = job.id.clone();
        self.engine.0.sessions.tasks.spawn(async move {
            let Some(end) = work.await else { return engine.0.jobs.forget(&session, &job.id) };
            if end.is_stopped {
                return;
            }
            if !is_last && !engine.is_finishing() {
                engine.sessions().tell_end(&session, &job, &end).await;
            }
            log.notify_about(&engine.0.bus, &format!("{session} {}", job.id), &told(&job, &end));
        });
        Ok(Kept { id: job_id, is_end_told: !is_last })
    }

    async fn tell_end(self, id: &SessionId, job: &Job, end: &JobEnd) {
        let stored = self.engine.0.storage.session(id.clone()).await.ok().flatten();
        let model = stored.and_then(|info| info.model).map(|model| ModelRef {
            provider_id: model.provider_id,
            model_id: model.id,
            variant: model.variant,
        });
        job.left_alone().await;
        // Without a wait from here to the prompt: a call that looks meanwhile would tell of the end as well.
        if !job.note_end_known() {
            return;
        }
        let output = job.read_at_end(end, MAX_TOLD).shown();
        let saved =
            end.saved.as_ref().map(|file| format!("\nAll of its output is in {file}.")).unwrap_or_default();
        let text = format!(
            "<shell id=\"{}\" state=\"completed\">\n<command>{}</command>\n<output>\n{}\n</output>\n{}{saved}\n\
             </shell>",
            job.id,
            plain(&job.command),
            plain(&output),
            end.sentence
        );
        let part = PromptPart::Text { text, is_synthetic: true, is_ignored: false };
        let of_task = Some(SpentBelow::default());
        let input = PromptInput { parts: vec![part], model, of_task, ..PromptInput::default() };
        // The user was told of the end; a session that is closed meanwhile needs no answer.
        self.prompt(id, input, Box::new(drop));
    }
}

/// Takes the marks out of a text by which it could end its own frame and speak as the user.
fn plain(text: &str) -> String {
    ["shell", "command", "output"]
        .iter()
        .fold(text.to_owned(), |text, mark| text.replace(&format!("</{mark}>"), &format!("<\\/{mark}>")))
}

/// Returns the sentence for the user.
fn told(job: &Job, end: &JobEnd) -> String {
    let what = job.description.as_deref().unwrap_or(&job.command);
    format!("{what} ({}): {}", job.id, end.sentence)
}
