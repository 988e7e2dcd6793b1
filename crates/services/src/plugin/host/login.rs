//! Logins and models that plugins bring for providers, and requests that they send themselves.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::lock::lock;

use super::{Host, part::failure};
use crate::plugin::{
    fetch::{self, Fetched, Unsent},
    offer::LoadedLogin,
};

/// Time limit for a login: its user gives it up.
const LOGIN_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The beginning of a login.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Begun {
    /// An answer does not fit.
    Invalid { invalid: Invalid },
    /// The login has ended at once, with this result.
    Ended { ended: Value },
    /// The user has to open a page.
    Page(LoginPage),
}

/// An answer that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Invalid {
    pub field: String,
    pub message: String,
}

/// A page that the user has to open.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoginPage {
    pub url: String,
    #[serde(default)]
    pub instructions: String,
    /// `auto`, or `code` for one that shows a code to type.
    pub method: String,
}

impl Host {
    /// Says if a prompt of a login is to be shown after these answers.
    pub async fn login_asks(
        &self,
        provider: &str,
        method: usize,
        key: &str,
        inputs: &Value,
    ) -> Result<bool, String> {
        let part = self.part_of(provider);
        let params = json!({ "provider": provider, "method": method, "key": key, "inputs": inputs });
        let asks = part.request("auth/asks", params, part.hook_timeout()).await?;
        Ok(asks.as_bool().unwrap_or_default())
    }

    /// Begins a login.
    pub async fn begin_login(&self, provider: &str, method: usize, inputs: &Value) -> Result<Begun, String> {
        let part = self.part_of(provider);
        let params = json!({ "provider": provider, "method": method, "inputs": inputs });
        let begun = part.request("auth/authorize", params, part.hook_timeout()).await?;
        serde_json::from_value(begun).map_err(|_| "the plugin returned no page to open".to_owned())
    }

    /// Waits for the end of the login at a provider and returns its result; `None` where none was begun.
    pub async fn end_login(&self, provider: &str, code: Option<&str>) -> Result<Option<Value>, String> {
        let part = self.part_of(provider);
        let params = json!({ "provider": provider, "code": code });
        let mut answer = part.request("auth/callback", params, LOGIN_LIMIT).await?;
        Ok(answer.get_mut("ended").map(Value::take))
    }

    /// Lets plugins set options of a provider by its stored login of this kind, once for all that is the same.
    pub async fn load_login(&self, provider: &str, kind: &str, info: &Value) -> Result<LoadedLogin, String> {
        let part = self.part_of(provider);
        let params = json!({ "provider": provider, "kind": kind, "info": info });
        let known = lock(&part.shared.seen_logins).get(provider).cloned();
        if let Some((_, loaded)) = known.filter(|(seen, _)| *seen == params) {
            return Ok(loaded);
        }
        let loaded = part.request("auth/load", params.clone(), part.hook_timeout()).await?;
        let loaded: LoadedLogin =
            serde_json::from_value(loaded).map_err(|error| format!("the options cannot be read: {error}"))?;
        // A process that is started again has to load it before it sends requests.
        lock(&part.shared.seen_logins).insert(provider.to_owned(), (params, loaded.clone()));
        Ok(loaded)
    }

    /// Lets plugins replace the models of a provider; `null` where they leave them.
    pub async fn models(&self, provider: &str, info: &Value, auth: &Value) -> Result<Value, String> {
        let lists =
            |part: &&std::sync::Arc<super::part::Part>| part.offer().models.iter().any(|it| it == provider);
        let part = self.parts().rev().find(lists).map_or_else(|| self.part_of(provider), |it| &**it);
        let params = json!({ "provider": provider, "info": info, "auth": auth });
        part.request("models", params, part.hook_timeout()).await
    }

    /// Sends a request by the function that a plugin has for a provider.
    pub async fn fetch(
        &self,
        provider: &str,
        url: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Fetched, Unsent> {
        let part = self.part_of(provider);
        let process = part.process().await.ok_or_else(|| Unsent::Refused(part.absence()))?;
        match fetch::fetch(&process, provider, url, headers, body).await {
            Ok(sent) => sent.map_err(Unsent::Broken),
            Err(error) => Err(Unsent::Refused(failure(&error))),
        }
    }
}
