//! Logins by browser or by a code that are under way: begun by one request, waited for by another.

use std::{collections::HashMap, sync::Mutex};

use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};
use windlass_base::lock::lock;
use windlass_engine::{
    Engine,
    accounts::logins::{LoginMethod, Page},
};

/// The logins that are under way, one at most for each provider.
#[derive(Default)]
pub struct Logins(Mutex<HashMap<String, Pending>>);

/// End of a login, once there is one.
type End = watch::Receiver<Option<Result<(), String>>>;

/// A login. Dropped, it is given up.
struct Pending {
    end: End,
    task: AbortHandle,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Logins {
    /// Begins a login in the place of the provider's last one, and returns the page to open.
    pub async fn begin(
        &self,
        engine: Engine,
        login_method: LoginMethod,
        instance: Option<String>,
    ) -> Result<Page, String> {
        let provider = login_method.provider;
        let (pending, page) = begin(engine, login_method, instance);
        let end = pending.end.clone();
        lock(&self.0).insert(provider.to_owned(), pending);
        page.await.inspect_err(|_| self.forget(provider, &end))
    }

    /// Takes out a login that has ended, unless another one has begun since.
    fn forget(&self, provider: &str, end: &End) {
        let mut logins = lock(&self.0);
        if logins.get(provider).is_some_and(|pending| pending.end.same_channel(end)) {
            logins.remove(provider);
        }
    }

    /// Ends a provider's login without a result.
    pub fn give_up(&self, provider: &str) {
        lock(&self.0).remove(provider);
    }

    /// Waits for the end of a provider's login; `None` if none is under way.
    pub async fn end(&self, provider: &str) -> Option<Result<(), String>> {
        let mut end = lock(&self.0).get(provider)?.end.clone();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The request that waited may be gone: a success is told again until another login begins.
        if !matches!(ended, Some(Ok(()))) {
            self.forget(provider, &end);
        }
        Some(ended.unwrap_or_else(|| Err("another login was begun instead".to_owned())))
    }
}

/// Begins a login; the future returns the page to open, or the reason that there is none.
fn begin(
    engine: Engine,
    login_method: LoginMethod,
    instance: Option<String>,
) -> (Pending, impl Future<Output = Result<Page, String>>) {
    let (page_sender, mut page) = mpsc::unbounded_channel();
    let (end_sender, end) = watch::channel(None);
    let task = tokio::spawn(async move {
        let show = move |page: &Page| _ = page_sender.send(page.clone());
        let ended = engine.accounts().log_in_at(&login_method, instance.as_deref(), &show).await;
        // The request that waited may be gone.
        let _ = end_sender.send(Some(ended));
    });
    let mut own_end = end.clone();
    let page = async move {
        tokio::select! {
            biased;
            Some(page) = page.recv() => Ok(page),
            ended = own_end.wait_for(Option::is_some) => match ended.ok().and_then(|end| end.clone()) {
                Some(Err(reason)) => Err(reason),
                Some(Ok(())) | None => Err("it has no page to open".to_owned()),
            },
        }
    };
    (Pending { end, task: task.abort_handle() }, page)
}
