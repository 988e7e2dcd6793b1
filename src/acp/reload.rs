//! Tells a client of the changes for its sessions when the files of their directory were read again.

use std::sync::Arc;

use windlass_core::config::Warning;
use windlass_protocol_acp::{
    decode::ClientCapabilities,
    schema::{ConfigOptionUpdate, CurrentModeUpdate, Notice, NoticeSeverity, SessionUpdate},
};

use super::{client_session::ClientSession, commands, encoder::Encoder, lines::Lines, options};

/// Mistakes that are told one by one.
const MAX_TOLD: usize = 20;

/// Encodes the differences for all sessions of a client.
pub fn show(encoder: &mut Encoder, out: &mut Lines<'_>) {
    for (id, client_session) in &mut encoder.client_sessions {
        for update in updates(client_session, &encoder.client) {
            out.update(id, update);
        }
    }
}

/// Encodes the commands of sessions with servers that offer other prompts than they did.
pub fn show_prompts(encoder: &mut Encoder, out: &mut Lines<'_>) {
    for (id, client_session) in &mut encoder.client_sessions {
        let prompts = client_session.prompts.choices();
        if prompts != client_session.shown_prompts {
            client_session.shown_prompts = prompts;
            let commands = commands::update(&client_session.shown, client_session);
            out.update(id, SessionUpdate::AvailableCommandsUpdate(commands));
        }
    }
}

/// Returns the updates about a session's files that the client does not have yet.
fn updates(client_session: &mut ClientSession, client: &ClientCapabilities) -> Vec<SessionUpdate> {
    let loaded = client_session.workspace.loaded();
    let before = std::mem::replace(&mut client_session.shown, loaded.clone());
    if Arc::ptr_eq(&before, &loaded) {
        return Vec::new();
    }
    let mut updates = Vec::new();
    let agent = options::current_agent(&loaded, &client_session.chosen);
    if agent != options::current_agent(&before, &client_session.chosen) {
        updates.push(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(agent.to_owned())));
    }
    let config_options = options::config_options(&loaded, &client_session.chosen, client);
    if config_options != options::config_options(&before, &client_session.chosen, client) {
        updates.push(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(config_options)));
    }
    let commands = commands::update(&loaded, client_session);
    if commands != commands::update(&before, client_session) {
        updates.push(SessionUpdate::AvailableCommandsUpdate(commands));
    }
    if client.notices {
        let new = loaded.warnings.iter().filter(|it| !is_among(it, &before.warnings));
        updates.extend(notices(new).into_iter().map(SessionUpdate::Notice));
        updates.extend(mended(&before.warnings, &loaded.warnings).map(SessionUpdate::Notice));
    } else {
        let shown: Vec<&Warning> = before
            .warnings
            .iter()
            .enumerate()
            .filter(|(idx, _)| !client_session.pending_warnings.contains(idx))
            .map(|(_, it)| it)
            .collect();
        let now = loaded.warnings.iter().enumerate();
        client_session.pending_warnings =
            now.filter(|(_, it)| !is_among(it, shown.iter().copied())).map(|(idx, _)| idx).collect();
    }
    updates
}

/// Returns true if the same warning was sent before, even for another line: an edit of the file moves the other
/// mistakes in it.
fn is_among<'a>(warning: &Warning, told: impl IntoIterator<Item = &'a Warning>) -> bool {
    told.into_iter().any(|it| (&it.source, &it.message) == (&warning.source, &warning.message))
}

/// Returns a notice that something is no longer wrong, with the remaining warnings.
fn mended(before: &[Warning], now: &[Warning]) -> Option<Notice> {
    let is_mended = before.iter().any(|it| !is_among(it, now));
    let notice = |title: &str| Notice::new(NoticeSeverity::Info, title);
    match (is_mended, now) {
        (false, _) => None,
        (true, []) => Some(notice("The configuration has no more problems.")),
        (true, left) => {
            let text = format!("Still ignored:\n{}", readable(left.iter()).join("\n"));
            Some(notice("Some problems of the configuration are fixed.").description(text))
        }
    }
}

/// Returns a notice for each ignored part of the configuration.
pub fn notices<'a>(warnings: impl Iterator<Item = &'a Warning>) -> Vec<Notice> {
    let notice = |text: String| {
        Notice::new(NoticeSeverity::Warning, "Part of the configuration is ignored.").description(text)
    };
    readable(warnings).into_iter().map(notice).collect()
}

/// Returns the first of the warnings, and how many more there are.
pub fn readable<'a>(mut warnings: impl Iterator<Item = &'a Warning>) -> Vec<String> {
    let mut texts: Vec<String> = warnings.by_ref().take(MAX_TOLD).map(ToString::to_string).collect();
    let n_more = warnings.count();
    if n_more > 0 {
        texts.push(format!("and {n_more} more mistakes; `windlass config check` names them all"));
    }
    texts
}
