//! Pages of shared sessions that were drawn just now: many readers ask for one at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::OnceCell;
use windlass_base::lock::lock;

/// Time for which a page that was drawn serves its readers.
const FRESH: Duration = Duration::from_secs(1);
/// Pages that are kept for that time.
const MAX_PAGES: usize = 64;

/// The pages by key, each with the time at which its first reader came.
#[derive(Debug, Default)]
pub struct Drawn(Mutex<HashMap<String, (Instant, Page)>>);

/// A page that is being drawn, or was.
type Page = Arc<OnceCell<Arc<str>>>;

impl Drawn {
    /// Returns the page of a key. Of the readers at one time the first has it drawn, and the others wait for it.
    pub async fn get<E>(
        &self,
        key: &str,
        draw: impl Future<Output = Result<String, E>>,
    ) -> Result<Arc<str>, E> {
        let page = self.page(key);
        page.get_or_try_init(|| async { draw.await.map(Arc::from) }).await.cloned()
    }

    fn page(&self, key: &str) -> Page {
        let mut pages = lock(&self.0);
        pages.retain(|_, (begun, _)| begun.elapsed() < FRESH);
        if let Some((_, page)) = pages.get(key) {
            return page.clone();
        }
        let page = Page::default();
        if pages.len() < MAX_PAGES {
            pages.insert(key.to_owned(), (Instant::now(), page.clone()));
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn readers_at_one_time_share_one_drawing() {
        let (drawn, count) = (Drawn::default(), AtomicUsize::new(0));
        let draw = || async {
            tokio::task::yield_now().await;
            Ok::<_, ()>(format!("page {}", count.fetch_add(1, Ordering::Relaxed)))
        };
        let pages = futures_util::future::join_all((0..200).map(|_| drawn.get("key", draw()))).await;
        assert!(pages.iter().all(|page| page.as_deref() == Ok("page 0")));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(drawn.get("another", draw()).await.as_deref(), Ok("page 1"));
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let drawn = Drawn::default();
        assert_eq!(drawn.get("key", async { Err(()) }).await, Err(()));
        assert_eq!(drawn.get("key", async { Ok::<_, ()>("page".to_owned()) }).await.as_deref(), Ok("page"));
    }
}
