//! The accounts that hear events just now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use windlass_accounts::AccountId;
use windlass_base::lock::lock;

/// The number of open streams by account. Cloning it shares it.
#[derive(Debug, Clone, Default)]
pub struct Watching(Arc<Mutex<HashMap<AccountId, usize>>>);

/// One stream; its end is noted when this is dropped.
pub struct Watch(Watching, AccountId);

impl Watching {
    /// Notes a stream of an account.
    pub fn begin(&self, account: &AccountId) -> Watch {
        *lock(&self.0).entry(account.clone()).or_default() += 1;
        Watch(self.clone(), account.clone())
    }

    /// Returns true if an account has a stream.
    pub fn has(&self, account: &AccountId) -> bool {
        lock(&self.0).contains_key(account)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut streams = lock(&self.0.0);
        if let Some(count) = streams.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.1);
            }
        }
    }
}
