//! Fetches the skills behind `skills.urls` in the background, a version of each once, and has what is new read.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use reqwest::Url;
use tokio::time::timeout;

use super::download::{self, First, below, limited};
use crate::{
    base::{hash::fnv, lock::lock},
    config::paths::Paths,
    engine::{Engine, Loaded},
    library::skills::urls::{self, Kept, KeptSkill, Listed},
    provider::http,
};

/// Time limit for all files of one URL; the rest is fetched the next time.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
const MAX_AT_ONCE: usize = 4;
const MAX_INDEX_BYTES: usize = 1024 * 1024;
const MAX_FILE_BYTES: usize = 5 * 1024 * 1024;
const MAX_SKILL_BYTES: usize = 20 * 1024 * 1024;

impl Engine {
    /// Has skills fetched that are not known or no longer new; never waits. What is new holds from the next turn on.
    pub(crate) fn refresh_skills(&self, loaded: &Loaded) {
        for url in &loaded.config.skills.urls {
            let (engine, own) = (self.clone(), url.clone());
            self.0.skill_urls.begin(url, |first| async move { engine.refresh_url(&own, first).await });
        }
    }

    /// Waits until every URL was answered once, now or in an earlier process; not long.
    pub async fn skills_settled(&self) {
        self.0.skill_urls.settled().await;
    }

    async fn refresh_url(&self, url: &str, first: First) {
        let (paths, known) = (self.0.paths.clone(), url.to_owned());
        let before = tokio::task::spawn_blocking(move || urls::kept(&paths, &known)).await.ok().flatten();
        let first = before.is_none().then_some(first);
        let now = fetch(&self.0.http, &self.0.paths, url, before.as_ref()).await;
        for problem in &now.problems {
            tracing::warn!("skills.urls: {url}: {problem}");
        }
        if before.as_ref() != Some(&now) {
            let (paths, kept) = (self.0.paths.clone(), now);
            let held = before.map(|before| before.skills).unwrap_or_default();
            match tokio::task::spawn_blocking(move || urls::keep(&paths, &kept, &held)).await {
                Ok(Ok(())) => self.read_skills_again(url).await,
                Ok(Err(error)) => tracing::warn!("the skills of {url} cannot be kept: {error}"),
                Err(error) => tracing::warn!("the skills of {url} were not kept: {error}"),
            }
        }
        drop(first);
    }

    async fn read_skills_again(&self, url: &str) {
        let workspaces: Vec<_> = lock(&self.0.workspaces).values().cloned().collect();
        for workspace in workspaces {
            if !workspace.loaded().config.skills.urls.iter().any(|own| own == url) {
                continue;
            }
            if let Err(error) = self.read_again(&workspace).await {
                tracing::warn!("{} was not read again: {error}", workspace.directory().display());
            }
        }
    }
}

/// Fetches the skills that a server lists now; of one that cannot be fetched, what was kept before stays.
async fn fetch(client: &http::Client, paths: &Paths, url: &str, before: Option<&Kept>) -> Kept {
    let before = before.map(|before| before.skills.as_slice()).unwrap_or_default();
    let mut kept = Kept { url: url.to_owned(), ..Kept::default() };
    let listed = match index(client, url).await {
        Ok((base, listed, problems)) => {
            kept.problems = problems.into_iter().map(|problem| format!("index.json {problem}")).collect();
            listed.into_iter().map(|listed| (base.clone(), listed)).collect()
        }
        Err(reason) => {
            let used = if before.is_empty() { "" } else { "; what was kept of it is used" };
            kept.problems.push(format!("its skills cannot be fetched: {reason}{used}"));
            kept.skills = before.to_vec();
            Vec::new()
        }
    };
    let directory = urls::directory(paths, url);
    let deadline = Instant::now() + WHOLE_LIMIT;
    for (base, listed) in listed {
        let old = before.iter().find(|old| old.name == listed.name);
        let left = deadline.saturating_duration_since(Instant::now());
        let made = timeout(left, one(client, &directory, &base, &listed)).await;
        match made.unwrap_or_else(|_| Err(format!("not within {} s", WHOLE_LIMIT.as_secs()))) {
            Ok(version) => kept.skills.push(KeptSkill { name: listed.name, version }),
            Err(reason) => {
                let used = if old.is_some() { "; what was kept of it is used" } else { "" };
                kept.problems.push(format!("the skill `{}` cannot be fetched: {reason}{used}", listed.name));
                kept.skills.extend(old.cloned());
            }
        }
    }
    kept
}

/// Returns the URL that a server's files are below, what it lists, and what is wrong with that.
async fn index(client: &http::Client, url: &str) -> Result<(Url, Vec<Listed>, Vec<String>), String> {
    let base = Url::parse(url).map_err(|error| format!("it is not a URL ({error})"))?;
    let text = limited(download::get(client, below(&base, &["index.json"])?, MAX_INDEX_BYTES)).await?;
    let (listed, problems) = urls::read_index(&text).map_err(|reason| format!("index.json {reason}"))?;
    Ok((base, listed, problems))
}

/// Makes the directory of the skill's version, unless it is there; its name.
async fn one(client: &http::Client, directory: &Path, base: &Url, listed: &Listed) -> Result<String, String> {
    let named = listed.version.as_ref().map(|version| {
        // Whatever a server calls its versions, the name is a plain one.
        let said = format!("{version}\n{}", listed.files.join("\n"));
        format!("{:016x}", fnv(said.as_bytes()))
    });
    let of = |version: &str| {
        urls::place(directory, &KeptSkill { name: listed.name.clone(), version: version.to_owned() })
    };
    if let Some(version) = named.as_deref().filter(|version| of(version).is_dir()) {
        return Ok(version.to_owned());
    }
    let fetches: Vec<_> =
        listed.files.iter().map(|file| fetch_file(client, base, &listed.name, file).boxed()).collect();
    let mut files: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut n_bytes = 0;
    let mut fetched = stream::iter(fetches).buffered(MAX_AT_ONCE);
    while let Some((file, bytes)) = fetched.try_next().await? {
        n_bytes += bytes.len();
        if n_bytes > MAX_SKILL_BYTES {
            return Err(format!("its files are larger than {} MiB together", MAX_SKILL_BYTES / 1024 / 1024));
        }
        files.push((file, bytes));
    }
    let version = named.unwrap_or_else(|| {
        let parts = files.iter().flat_map(|(file, bytes)| [file.as_bytes(), &[0], bytes.as_slice(), &[0]]);
        format!("{:016x}", fnv(&parts.collect::<Vec<_>>().concat()))
    });
    let place = of(&version);
    let files = files.into_iter().map(|(file, bytes)| (file.to_owned(), bytes)).collect();
    let written = tokio::task::spawn_blocking(move || write(&place, files)).await;
    let written = written.map_err(|error| error.to_string())?;
    written.map_err(|error| format!("it cannot be kept ({error})"))?;
    Ok(version)
}

async fn fetch_file<'a>(
    client: &http::Client,
    base: &Url,
    skill: &str,
    file: &'a str,
) -> Result<(&'a str, Vec<u8>), String> {
    let path: Vec<&str> = std::iter::once(skill).chain(file.split('/')).collect();
    let fetched = limited(download::get(client, below(base, &path)?, MAX_FILE_BYTES)).await;
    Ok((file, fetched.map_err(|reason| format!("{file}: {reason}"))?))
}

/// Makes a version's directory in one step, so that a reader never sees half of one. Blocking.
fn write(place: &Path, files: Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let temporary: PathBuf = place.with_extension(format!("{}.new", std::process::id()));
    for (file, bytes) in files {
        let path = temporary.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, bytes)?;
    }
    match std::fs::rename(&temporary, place) {
        // Another process was faster, with the same files.
        Err(_) if place.is_dir() => std::fs::remove_dir_all(&temporary),
        renamed => renamed,
    }
}
