//! The agents behind `windlass.agents.urls`: a list, and a file for each agent that is not in it.

use std::path::{Path, PathBuf};

use reqwest::Url;
use windlass_base::reason::Reason;
use windlass_core::config::{
    Config,
    market::{self, KeptAgent, Listed, Text},
    paths::Paths,
    remote::is_trusted,
};

use super::{
    download::{self, below, limited},
    listed::{Kind, Source},
};
use crate::Remote;

const MAX_FILE_BYTES: usize = 256 * 1024;

/// Agents, as [`Kind`].
pub struct Agents;

impl Remote<'_> {
    /// Asks every URL of a directory's configuration now, except those that were asked `before`. Returns those asked.
    pub(crate) async fn fetch_agents(self, directory: &Path, before: &[String]) -> Vec<String> {
        let Ok(loaded) = self.engine.workspaces().inspect_files(directory).await else { return Vec::new() };
        let mut urls = Agents::urls(&loaded.config).to_vec();
        urls.retain(|url| !before.contains(url));
        self.fetch_listed::<Agents>(&urls, &loaded.config.project_addresses).await;
        urls
    }
}

impl Kind for Agents {
    const KEY: &'static str = "windlass.agents.urls";
    const NOUN: &'static str = "agent";
    const LIST: &'static str = "its list: ";
    const MAX_AT_ONCE: usize = 4;
    type Listed = Listed;
    type Entry = KeptAgent;

    fn urls(config: &Config) -> &[String] {
        &config.settings.windlass.agents.urls
    }

    fn file(paths: &Paths, url: &str) -> PathBuf {
        market::cache_file(paths, url)
    }

    fn list(url: Url) -> Result<Url, Reason> {
        // A prompt that somebody on the way changed would be the user's own words to a model with tools.
        if !is_trusted(url.as_str()) {
            return Err("it is neither https nor this machine".to_owned());
        }
        if url.path().ends_with(".json") { Ok(url) } else { below(&url, &["index.json"]) }
    }

    fn read(text: &[u8]) -> Result<(Vec<Listed>, Vec<String>), Reason> {
        market::read_index(text)
    }

    fn name(listed: &Listed) -> &str {
        &listed.name
    }

    fn entry_name(entry: &KeptAgent) -> &str {
        &entry.name
    }

    async fn fetch(
        source: &Source,
        base: &Url,
        listed: &Listed,
        old: Option<&KeptAgent>,
    ) -> Result<KeptAgent, Reason> {
        let Listed { name, version, text, places } = listed.clone();
        let file = match text {
            Text::Here(definition) => return Ok(KeptAgent { name, version, file: None, definition, places }),
            Text::File(file) => file,
        };
        let is_same = |old: &&KeptAgent| {
            version.is_some() && old.version == version && old.file.as_ref() == Some(&file)
        };
        if let Some(old) = old.filter(is_same) {
            return Ok(old.clone());
        }
        let path: Vec<&str> = file.split('/').collect();
        let bytes = limited(download::get(&source.client, below(base, &path)?, MAX_FILE_BYTES)).await;
        let text = bytes.and_then(download::utf8).map_err(|error| format!("{file}: {error}"))?;
        let read = market::read_file(&text);
        let (definition, places) = read.map_err(|reason| format!("{file}:{reason}"))?;
        Ok(KeptAgent { name, version, file: Some(file), definition, places })
    }
}
