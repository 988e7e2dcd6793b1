//! The catalog that holds: a file of the user's, the one that was fetched last, or the one in the binary
//! (facts: OpenCode §7.1).

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::header::{ETAG, IF_NONE_MATCH};
use windlass_base::{clock, ids};
use windlass_core::config::{Environment, Warning, paths::Paths};

use super::{
    listing::prepared::Prepared,
    table::{self, Table},
};
use crate::http::{self, causes};

const URL: &str = "https://models.opencode.ai";

/// Age at which a fetched catalog is asked for again in the background.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of an answer.
const MAX_BYTES: usize = 32 << 20;

/// Reads the catalog. Does blocking reads.
pub(super) fn load(environment: &Environment, paths: &Paths, warnings: &mut Vec<Warning>) -> Table {
    if let Some(file) = environment.get("OPENCODE_MODELS_PATH") {
        let read = fs::read_to_string(file).map_err(|error| error.to_string());
        match read.and_then(|text| Table::from_json(&text).map_err(|error| error.to_string())) {
            Ok(table) => return table,
            Err(reason) => warnings.push(super::warning(
                "OPENCODE_MODELS_PATH",
                format!("the catalog in {file} cannot be used ({reason}); the built-in one is"),
            )),
        }
        return Table::packed();
    }
    let packed = Table::packed();
    let fetched = fs::read(cache_file(environment, paths)).ok().and_then(Table::from_bytes);
    // A newer binary may know more than a catalog that was fetched before it was installed.
    fetched.filter(|fetched| fetched.date() >= packed.date()).unwrap_or(packed)
}

/// Returns the entries of the catalog that holds, as they are shown where nothing is configured. Those of a fetched one
/// are kept beside it.
pub(super) fn prepared(environment: &Environment, paths: &Paths, table: &Table) -> io::Result<Prepared> {
    let file = cache_file(environment, paths).with_extension("listing");
    let keep = |bytes: &[u8]| {
        if let Err(error) = write(&file, bytes) {
            tracing::debug!("the entries of the catalog are not kept: {error}");
        }
    };
    Prepared::of(table, || fs::read(&file).ok(), keep)
}

/// Fetches the catalog unless it is known to be new; returns true if there is another one now.
pub async fn refresh(
    client: &http::Client,
    environment: &Environment,
    paths: &Paths,
    is_forced: bool,
) -> Result<bool, String> {
    let is_off = environment.is_on("OPENCODE_DISABLE_MODELS_FETCH")
        || environment.get("OPENCODE_MODELS_PATH").is_some();
    if is_off && !is_forced {
        return Ok(false);
    }
    let file = cache_file(environment, paths);
    let age = fs::metadata(&file).and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
    if !is_forced && age.is_some_and(|age| age < MAX_AGE) {
        return Ok(false);
    }
    let url = url(environment);
    let tag_file = file.with_extension("etag");
    let client = client.reqwest().map_err(|error| error.to_string())?;
    let mut request = client.get(&url).timeout(TIMEOUT);
    if let Ok(tag) = fs::read_to_string(&tag_file)
        && file.exists()
    {
        request = request.header(IF_NONE_MATCH, tag);
    }
    let failed = |reason: String| format!("the catalog was not fetched from {url}: {reason}");
    let mut response = request.send().await.map_err(|error| failed(causes(error)))?;
    if response.status().as_u16() == 304 {
        touch(&file).map_err(|error| failed(error.to_string()))?;
        return Ok(false);
    }
    if !response.status().is_success() {
        return Err(failed(format!("it answered {}", response.status().as_u16())));
    }
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(causes(error)))? {
        text.extend_from_slice(&chunk);
        if text.len() > MAX_BYTES {
            return Err(failed("the answer is too large".to_owned()));
        }
    }
    let (of_user, of_paths) = (environment.clone(), paths.clone());
    let packed = tokio::task::spawn_blocking(move || {
        let text = String::from_utf8(text).map_err(|_| "it is not text".to_owned())?;
        // Days are compared as texts, and a blank would end the field.
        let today = clock::iso(clock::now_ms()).chars().take("2026-11-22".len()).collect::<String>();
        let packed = table::pack(&text, &today).map_err(|error| error.to_string())?;
        let table = Table::from_bytes(packed.clone()).ok_or("it holds no providers")?;
        write(&file, &packed).map_err(|error| error.to_string())?;
        // Otherwise the first program that lists it would wait for them.
        if let Err(error) = prepared(&of_user, &of_paths, &table) {
            tracing::warn!("the entries of the catalog were not prepared: {error}");
        }
        match tag {
            Some(tag) => write(&tag_file, tag.as_bytes()).map_err(|error| error.to_string()),
            None => {
                let _ = fs::remove_file(&tag_file);
                Ok(())
            }
        }
    });
    packed.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    Ok(true)
}

fn url(environment: &Environment) -> String {
    let base = environment.get("OPENCODE_MODELS_URL").unwrap_or(URL).trim_end_matches('/');
    if base.ends_with(".json") { base.to_owned() } else { format!("{base}/api.json") }
}

/// Returns the file of the catalog that was fetched; another server's has another name.
fn cache_file(environment: &Environment, paths: &Paths) -> PathBuf {
    let suffix = match environment.get("OPENCODE_MODELS_URL") {
        Some(url) => format!("-{:08x}", crc32fast::hash(url.as_bytes())),
        None => String::new(),
    };
    paths.cache().join(format!("models{suffix}.bin"))
}

fn touch(file: &Path) -> io::Result<()> {
    fs::File::options().append(true).open(file)?.set_modified(std::time::SystemTime::now())
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    // Two programs, and two threads of one, may write at a time.
    let draft = file.with_extension(format!("{}.draft", ids::random(8)));
    fs::write(&draft, bytes)?;
    fs::rename(&draft, file)
}
