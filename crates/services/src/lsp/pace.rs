//! The pace of a server: the time that its word on a change is waited for, by the time that it took before. Pure.

use std::time::Duration;

/// Time for a server that has said nothing of any change.
const SHORTEST: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
pub struct Pace {
    /// Time that its slower answers take; `None` before the first.
    usual: Option<Duration>,
    /// The newest change was waited for in vain.
    was_silent: bool,
}

impl Pace {
    /// Returns the time to wait for, `longest` at most.
    pub fn limit(&self, longest: Duration) -> Duration {
        match self.usual {
            Some(usual) => (usual * 2).clamp(SHORTEST.min(longest), longest),
            None if self.was_silent => SHORTEST.min(longest),
            None => longest,
        }
    }

    /// Notes that it has told of a change, in time or late.
    pub fn told(&mut self, took: Duration) {
        self.was_silent = false;
        // One quick answer does not make a server quick.
        self.usual = Some(self.usual.map_or(took, |usual| took.max((usual * 3 + took) / 4)));
    }

    /// Notes that it has not told of a change in time.
    pub fn silent(&mut self) {
        self.was_silent = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(3);

    #[test]
    fn a_server_is_waited_for_as_long_as_it_may_take_by_what_it_took() {
        let mut pace = Pace::default();
        assert_eq!(pace.limit(LONGEST), LONGEST);
        pace.silent();
        assert_eq!(pace.limit(LONGEST), SHORTEST, "it may never say anything");
        pace.told(Duration::from_millis(400));
        assert_eq!(pace.limit(LONGEST), Duration::from_millis(800));
        pace.told(Duration::from_millis(200));
        assert_eq!(pace.limit(LONGEST), Duration::from_millis(700));
        pace.silent();
        assert_eq!(pace.limit(LONGEST), Duration::from_millis(700), "nothing new may be to tell");
        pace.told(Duration::from_secs(2));
        assert_eq!(pace.limit(LONGEST), LONGEST, "it was late");
    }
}
