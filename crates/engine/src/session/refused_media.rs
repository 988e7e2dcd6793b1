//! The pictures and documents that a session's provider refuses: they are left out of later requests.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use windlass_provider::{Media, Prompt, PromptMessage, ProviderError, UserContent};

/// Statuses of a provider that does not understand a request, or a part of it.
const REFUSALS: [u16; 4] = [400, 413, 415, 422];
/// Words of an error that says that these are not supported, at any status.
const WORDS: [&str; 4] = ["image", "images", "multimodal", "vision"];

/// The media that a session's provider refuses. They would end the session for good, since every request sends them
/// again.
#[derive(Debug, Default)]
pub struct RefusedMedia {
    refused: HashSet<u64>,
    /// Those of the newest request that may be at fault: behind the last answer, or all of them where none are there.
    suspects: HashSet<u64>,
    /// The refusal for which the suspects are left out.
    trial: Option<ProviderError>,
}

impl RefusedMedia {
    /// Begins a request. A trial that was cancelled has shown nothing.
    pub fn begin(&mut self) {
        if self.trial.take().is_some() {
            self.spare_suspects();
        }
    }

    /// Puts notes into the places of refused media, and keeps the others in mind.
    pub fn leave_out(&mut self, prompt: &mut Prompt<'_>) {
        let is_answer = |message: &PromptMessage<'_>| matches!(message, PromptMessage::Assistant(_));
        let n_answered = prompt.messages.iter().rposition(is_answer).unwrap_or(0);
        let (mut older, mut newer) = (HashSet::new(), HashSet::new());
        for (at, message) in prompt.messages.iter_mut().enumerate() {
            let sent = if at < n_answered { &mut older } else { &mut newer };
            match message {
                PromptMessage::User(contents) => {
                    for content in contents {
                        let UserContent::Media(media) = content else { continue };
                        let hash = hash(media);
                        if self.refused.contains(&hash) {
                            *content = UserContent::Text(note(media).into());
                        } else {
                            sent.insert(hash);
                        }
                    }
                }
                PromptMessage::ToolResults(results) => {
                    for result in results {
                        let mut notes = String::new();
                        result.media.retain(|media| {
                            let hash = hash(media);
                            if self.refused.contains(&hash) {
                                notes.push_str(&format!("\n\n{}", note(media)));
                                return false;
                            }
                            sent.insert(hash);
                            true
                        });
                        if !notes.is_empty() {
                            result.output.to_mut().push_str(&notes);
                        }
                    }
                }
                PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => {}
            }
        }
        if self.trial.is_none() {
            self.suspects = if newer.is_empty() { older } else { newer };
        }
    }

    /// Returns true if the request is worth another attempt without the suspects.
    pub fn suspect(&mut self, error: &ProviderError) -> bool {
        if !is_refusal(error) || self.suspects.is_empty() || self.trial.is_some() {
            return false;
        }
        tracing::warn!(%error, "asking the provider again without the newest pictures");
        self.refused.extend(&self.suspects);
        self.trial = Some(error.clone());
        true
    }

    /// Ends the trial: the suspects were at fault.
    pub fn confirm(&mut self) {
        self.trial = None;
    }

    /// Ends the trial, which failed as well: returns the first error, for which the suspects were not to blame.
    pub fn acquit(&mut self, error: ProviderError) -> ProviderError {
        let Some(first) = self.trial.take() else { return error };
        self.spare_suspects();
        first
    }

    fn spare_suspects(&mut self) {
        self.refused.retain(|hash| !self.suspects.contains(hash));
    }
}

fn is_refusal(error: &ProviderError) -> bool {
    let ProviderError::Api { message, status, body } = error else { return false };
    let said = format!("{message}\n{}", body.as_deref().unwrap_or_default()).to_lowercase();
    let names_them = || said.split(|it: char| !it.is_alphanumeric()).any(|word| WORDS.contains(&word));
    status.is_some_and(|status| REFUSALS.contains(&status)) || (said.contains("support") && names_them())
}

fn hash(media: &Media<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    media.base64.hash(&mut hasher);
    hasher.finish()
}

fn note(media: &Media<'_>) -> String {
    let name = media.filename.unwrap_or("an attachment");
    format!("[{name} ({}) was left out: the provider refuses requests with it. Inform the user.]", media.mime)
}

#[cfg(test)]
mod tests;
