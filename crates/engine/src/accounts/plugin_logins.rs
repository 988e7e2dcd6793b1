//! Logins that plugins bring, for front ends: their questions, the page that they open, and the result, which is
//! stored.

use std::{path::Path, sync::Arc};

use serde_json::Value;
use windlass_protocol::opencode::config::AuthEntry;
use windlass_services::plugin::host::Host;
pub use windlass_services::plugin::{
    host::login::{Begun, LoginPage},
    offer::{Login, Method, Prompt},
};

use super::Accounts;
use crate::EngineError;

impl Accounts<'_> {
    /// Returns the logins that the plugins of a directory bring, which are started for it.
    pub async fn plugin_logins(self, directory: &Path) -> Result<Vec<Login>, EngineError> {
        let workspace = self.engine.workspaces().workspace(directory).await?;
        let offer = self.engine.plugins().host(workspace.directory()).map(|host| host.offer());
        Ok(offer.map(|offer| offer.logins.clone()).unwrap_or_default())
    }

    /// Says if a prompt of a login is to be shown after these answers.
    pub async fn plugin_login_asks(
        self,
        directory: &Path,
        (provider, method): (&str, usize),
        prompt: &str,
        inputs: &Value,
    ) -> Result<bool, String> {
        self.host_of(directory)?.login_asks(provider, method, prompt, inputs).await
    }

    /// Begins a login; one that ends at once is stored.
    pub async fn begin_plugin_login(
        self,
        directory: &Path,
        (provider, method): (&str, usize),
        inputs: &Value,
    ) -> Result<Begun, String> {
        let begun = self.host_of(directory)?.begin_login(provider, method, inputs).await?;
        if let Begun::Ended { ended } = &begun {
            self.store_login(provider, ended).await?;
        }
        Ok(begun)
    }

    /// Waits for the end of a login, with the code of its page if it shows one, and stores it; false where none was
    /// begun.
    pub async fn end_plugin_login(
        self,
        directory: &Path,
        provider: &str,
        code: Option<&str>,
    ) -> Result<bool, String> {
        let Some(ended) = self.host_of(directory)?.end_login(provider, code).await? else { return Ok(false) };
        self.store_login(provider, &ended).await?;
        Ok(true)
    }

    /// Stores the key that a login without a function of its own asks for.
    pub async fn store_plugin_key(self, provider: &str, key: &str) -> Result<(), String> {
        self.store(provider, AuthEntry::key(key)).await.map_err(|error| error.to_string())
    }

    /// Ends the plugins that were started for a login.
    pub async fn close_plugin_logins(self, directory: &Path) {
        self.engine.plugins().end(directory).await;
    }

    fn host_of(self, directory: &Path) -> Result<Arc<Host>, String> {
        self.engine.plugins().host(directory).ok_or_else(|| "no plugins run in this directory".to_owned())
    }

    async fn store_login(self, provider: &str, ended: &Value) -> Result<(), String> {
        let entry = entry(ended).ok_or("the plugin says that it failed")?;
        let provider = ended.get("provider").and_then(Value::as_str).unwrap_or(provider);
        self.store(provider, entry).await.map_err(|error| format!("it was not stored: {error}"))
    }
}

/// Returns the entry of a login that succeeded.
fn entry(ended: &Value) -> Option<AuthEntry> {
    let text = |key: &str| ended.get(key).and_then(Value::as_str).map(str::to_owned);
    if text("type")? != "success" {
        return None;
    }
    let Some(key) = text("key") else {
        const KNOWN: [&str; 7] =
            ["type", "provider", "refresh", "access", "expires", "accountId", "enterpriseUrl"];
        let extra = ended.as_object().into_iter().flatten();
        let extra = extra.filter(|(name, _)| !KNOWN.contains(&name.as_str()));
        return Some(AuthEntry::Oauth {
            refresh: text("refresh")?,
            access: text("access")?,
            expires: ended.get("expires").and_then(Value::as_i64).unwrap_or_default(),
            account_id: text("accountId"),
            enterprise_url: text("enterpriseUrl"),
            extra: extra.map(|(name, value)| (name.clone(), value.clone())).collect(),
        });
    };
    let metadata = ended.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Some(AuthEntry::Api { key, metadata: metadata.collect() })
}
