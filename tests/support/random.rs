//! Random numbers that a seed repeats, for tests that try many interleavings.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Returns a number that an environment variable gives, else the one for every day.
pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Returns the seed that an environment variable gives: a number, or `random` for another one each time. Otherwise it
/// is always the same, so that a change fails by itself and not by the clock.
pub fn seed(name: &str) -> u64 {
    match std::env::var(name) {
        Err(_) => 1,
        Ok(value) if value == "random" => {
            let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            u64::from(clock.subsec_nanos())
        }
        Ok(value) => value.parse().unwrap(),
    }
}

/// Prints a place in a random run if the test fails there.
pub struct FailedAt(pub String);

impl Drop for FailedAt {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- failed at {}", self.0);
        }
    }
}
