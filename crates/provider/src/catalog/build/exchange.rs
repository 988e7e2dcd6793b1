//! The ways to tokens of clouds, which stand for a key.

use std::path::{Path, PathBuf};

use windlass_base::program;
use windlass_core::config::{Config, Environment};
use windlass_protocol::opencode::config::AuthEntry;

use super::{Base, Known, address, packages, trim};
use crate::{Exchange, auth::Credentials};

/// The scope of Azure's models, and of those behind its newer address.
const AZURE_SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const AZURE_AI_SCOPE: &str = "https://ai.azure.com/.default";

/// Returns the way to the tokens of a provider in a cloud that the user is signed in at; `None` if nothing tells of
/// that.
pub(super) fn of_cloud(known: &Known<'_>, config: &Config, credentials: &Credentials) -> Option<Exchange> {
    let environment = &config.environment;
    let configured = config.providers.get(known.id);
    let has = |names: &[&str]| names.iter().any(|name| environment.get(name).is_some());
    let is_meant = configured.is_some();
    match known.id {
        "azure" | "azure-cognitive-services" => {
            let resources = ["AZURE_RESOURCE_NAME", "AZURE_COGNITIVE_SERVICES_RESOURCE_NAME"];
            let own = &resources[usize::from(known.id != "azure")..][..1];
            let is_signed_in = matches!(credentials.get(known.id), Some(AuthEntry::Oauth { .. }));
            if !is_meant && !is_signed_in && !has(own) {
                return None;
            }
            let program = program::find_outside(environment.get("PATH"), Path::new("az"))?;
            Some(Exchange::Azure { program, scope: AZURE_SCOPE })
        }
        "google-vertex" | "google-vertex-anthropic" => {
            let projects = ["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT"];
            let file = google_file(environment);
            let is_there = file.is_some() || has(&["GCE_METADATA_HOST"]) || is_meant;
            let server = environment.get("GCE_METADATA_HOST").unwrap_or("metadata.google.internal");
            (has(&projects) && is_there).then(|| Exchange::Google { file, server: server.to_owned() })
        }
        _ => None,
    }
}

/// Returns the file of Google's application default credentials. Does blocking reads.
fn google_file(environment: &Environment) -> Option<PathBuf> {
    if let Some(named) = environment.get("GOOGLE_APPLICATION_CREDENTIALS") {
        return Some(PathBuf::from(named));
    }
    let folder = environment.get("CLOUDSDK_CONFIG").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| environment.home.join(".config/gcloud"));
    Some(folder.join("application_default_credentials.json")).filter(|file| file.is_file())
}

/// Returns the way to the token of a model's requests.
pub(super) fn of(base: &Base<'_>, npm: &str, base_url: &str) -> Option<Exchange> {
    if npm == packages::GITLAB {
        return Some(of_gitlab(base));
    }
    let mut way = base.cloud.clone();
    if let Some(Exchange::Azure { scope, .. }) = &mut way
        && base_url.contains(".services.ai.azure.com")
    {
        *scope = AZURE_AI_SCOPE;
    }
    way
}

/// Returns the address at which a GitLab instance gives tokens for its models.
fn of_gitlab(base: &Base<'_>) -> Exchange {
    let own =
        base.login.as_ref().and_then(|login| login.instance.as_ref()).map(|host| format!("https://{host}"));
    let of_variable = || address::variable("GITLAB_INSTANCE_URL", base);
    let instance = own.or_else(of_variable).unwrap_or_else(|| "https://gitlab.com".to_owned());
    Exchange::Gitlab(format!("{}/api/v4/ai/third_party_agents/direct_access", trim(&instance)))
}
