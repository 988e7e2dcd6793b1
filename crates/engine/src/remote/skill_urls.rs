//! The skills behind `skills.urls`: a list, and the files of each skill, a version of each once.

use std::{
    io,
    path::{Path, PathBuf},
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use reqwest::Url;
use windlass_base::{blocking::blocking, hash::fnv, reason::Reason};
use windlass_core::{
    config::{Config, cache::Listing, paths::Paths},
    library::skills::urls::{self, KeptSkill, Listed},
};
use windlass_provider::http;

use super::{
    download::{self, below, limited, not_kept},
    listed::{Kind, Source},
};

const MAX_FILES_AT_ONCE: usize = 4;
const MAX_FILE_BYTES: usize = 5 * 1024 * 1024;
const MAX_SKILL_BYTES: usize = 20 * 1024 * 1024;

/// Skills, as [`Kind`].
pub struct Skills;

impl Kind for Skills {
    const KEY: &'static str = "skills.urls";
    const NOUN: &'static str = "skill";
    const LIST: &'static str = "index.json ";
    // Its files are fetched at once.
    const MAX_AT_ONCE: usize = 1;
    type Listed = Listed;
    type Entry = KeptSkill;

    fn urls(config: &Config) -> &[String] {
        &config.skills.urls
    }

    fn file(paths: &Paths, url: &str) -> PathBuf {
        urls::list_file(paths, url)
    }

    fn list(url: Url) -> Result<Url, Reason> {
        below(&url, &["index.json"])
    }

    fn read(text: &[u8]) -> Result<(Vec<Listed>, Vec<String>), Reason> {
        urls::read_index(text)
    }

    fn name(listed: &Listed) -> &str {
        &listed.name
    }

    fn entry_name(entry: &KeptSkill) -> &str {
        &entry.name
    }

    async fn fetch(
        source: &Source,
        base: &Url,
        listed: &Listed,
        _old: Option<&KeptSkill>,
    ) -> Result<KeptSkill, Reason> {
        let directory = urls::directory(&source.paths, &source.url);
        let version = make(&source.client, &directory, base, listed).await?;
        Ok(KeptSkill { name: listed.name.clone(), version })
    }

    fn prune(paths: &Paths, now: &Listing<KeptSkill>, before: &[KeptSkill]) -> io::Result<()> {
        urls::prune(paths, now, before)
    }
}

/// Makes the directory of the skill's version, unless it is there; its name.
async fn make(
    client: &http::Client,
    directory: &Path,
    base: &Url,
    listed: &Listed,
) -> Result<String, Reason> {
    let named = listed.version.as_ref().map(|version| {
        // The name is a plain one, however a server calls its versions.
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
    let mut fetched = stream::iter(fetches).buffered(MAX_FILES_AT_ONCE);
    while let Some((file, bytes)) = fetched.try_next().await? {
        n_bytes += bytes.len();
        if n_bytes > MAX_SKILL_BYTES {
            return Err(format!("its files are larger than {} MiB together", MAX_SKILL_BYTES >> 20));
        }
        files.push((file, bytes));
    }
    let version = named.unwrap_or_else(|| {
        let parts = files.iter().flat_map(|(file, bytes)| [file.as_bytes(), &[0], bytes.as_slice(), &[0]]);
        format!("{:016x}", fnv(&parts.collect::<Vec<_>>().concat()))
    });
    let place = of(&version);
    let files = files.into_iter().map(|(file, bytes)| (file.to_owned(), bytes)).collect();
    blocking(move || write(&place, files)).await.map_err(not_kept)?;
    Ok(version)
}

async fn fetch_file<'a>(
    client: &http::Client,
    base: &Url,
    skill: &str,
    file: &'a str,
) -> Result<(&'a str, Vec<u8>), Reason> {
    let path: Vec<&str> = std::iter::once(skill).chain(file.split('/')).collect();
    let fetched = limited(download::get(client, below(base, &path)?, MAX_FILE_BYTES)).await;
    Ok((file, fetched.map_err(|error| format!("{file}: {error}"))?))
}

/// Makes a version's directory in one step, so that a reader never sees half of one. Blocking.
fn write(place: &Path, files: Vec<(String, Vec<u8>)>) -> io::Result<()> {
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
