//! The pace of a server: the time that its word on a change is waited for, by what it took before. Pure.

use std::time::Duration;

/// Time for a server that has said nothing of any change.
const SHORTEST: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
pub struct Pace {
    /// Time that its slower answers take; `None` before the first.
    usual: Option<Duration>,
    /// The newest change was waited for in vain.
    was_silent: bool,
    /// The file of that change, and the number of times that it had been told of.
    missed: Option<(String, u64)>,
}

impl Pace {
    /// Returns the time to wait for, `longest` at most. `n_times` says how often a file has been told of by now.
    pub fn limit(&mut self, n_times: impl Fn(&str) -> u64, longest: Duration) -> Duration {
        if let Some((uri, before)) = self.missed.take()
            && n_times(&uri) > before
        {
            // It was late, not silent.
            self.usual = Some(longest / 2);
        }
        match self.usual {
            Some(usual) => (usual * 2).clamp(SHORTEST.min(longest), longest),
            None if self.was_silent => SHORTEST.min(longest),
            None => longest,
        }
    }

    /// Notes that it has told of a change.
    pub fn told(&mut self, took: Duration) {
        self.was_silent = false;
        // One quick answer does not make a server quick.
        self.usual = Some(self.usual.map_or(took, |usual| took.max((usual * 3 + took) / 4)));
    }

    /// Notes that it has not told of a change of a file.
    pub fn silent(&mut self, uri: &str, n_times: u64) {
        self.was_silent = true;
        self.missed = Some((uri.to_owned(), n_times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(3);

    #[test]
    fn a_server_is_waited_for_as_long_as_it_may_take_by_what_it_took() {
        let mut pace = Pace::default();
        assert_eq!(pace.limit(|_| 0, LONGEST), LONGEST);
        pace.silent("a", 0);
        assert_eq!(pace.limit(|_| 0, LONGEST), SHORTEST, "it may never say anything");
        pace.told(Duration::from_millis(400));
        assert_eq!(pace.limit(|_| 1, LONGEST), Duration::from_millis(800));
        pace.told(Duration::from_millis(200));
        assert_eq!(pace.limit(|_| 2, LONGEST), Duration::from_millis(700));
        pace.silent("a", 2);
        assert_eq!(pace.limit(|_| 2, LONGEST), Duration::from_millis(700), "nothing new may be to tell");
        pace.silent("a", 2);
        assert_eq!(pace.limit(|_| 3, LONGEST), LONGEST, "it was late");
    }
}
