//! Programs that wait for a person to let them in: each shows a short code, and gets a token once it is confirmed.

use std::{collections::HashMap, sync::Mutex};

use windlass_base::{clock::now_ms, ids, lock::lock};

/// The time in which a code can be confirmed.
pub const LIFETIME: i64 = 600_000;
/// Programs that wait at once; more are refused.
const MAX_DEVICES: usize = 4096;
/// Of these, the most from one address.
const MAX_OF_ADDRESS: usize = 32;
/// Characters of a program's own secret.
const SECRET_CHARS: usize = 40;
/// Letters of a code; none looks like another.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const CODE_LETTERS: usize = 8;

/// See the module's comment.
#[derive(Debug, Default)]
pub struct Devices(Mutex<HashMap<String, Device>>);

#[derive(Debug, Clone)]
struct Device {
    code: String,
    name: String,
    address: String,
    ends: i64,
    outcome: Outcome,
}

/// The state of a program that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Waiting,
    /// The token, which is handed out once.
    Confirmed(String),
    Refused,
}

impl Devices {
    /// Lets a program wait; returns its secret and the code for its person. `None` where too many wait.
    pub fn begin(&self, name: &str, address: &str) -> Option<(String, String)> {
        let mut devices = lock(&self.0);
        devices.retain(|_, it| it.ends > now_ms());
        let n_own = devices.values().filter(|it| it.address == address).count();
        if devices.len() >= MAX_DEVICES || n_own >= MAX_OF_ADDRESS {
            return None;
        }
        let (secret, code) = (ids::random(SECRET_CHARS), code());
        let (name, address) = (name.to_owned(), address.to_owned());
        let device = Device {
            code: code.clone(),
            name,
            address,
            ends: now_ms() + LIFETIME,
            outcome: Outcome::Waiting,
        };
        devices.insert(secret.clone(), device);
        Some((secret, code))
    }

    /// Returns the name and the address of the program that waits with a code.
    pub fn waiting(&self, code: &str) -> Option<(String, String)> {
        let devices = lock(&self.0);
        let device = devices.values().find(|it| it.is_waiting(code))?;
        Some((device.name.clone(), device.address.clone()))
    }

    /// Ends the waiting of a program; false if none waits with this code.
    pub fn settle(&self, code: &str, outcome: Outcome) -> bool {
        let mut devices = lock(&self.0);
        let Some(device) = devices.values_mut().find(|it| it.is_waiting(code)) else { return false };
        device.outcome = outcome;
        true
    }

    /// Returns the state of a program by its secret; one that is settled is forgotten. `None` where it waited too long.
    pub fn outcome(&self, secret: &str) -> Option<Outcome> {
        let mut devices = lock(&self.0);
        let device = devices.get(secret).filter(|it| it.ends > now_ms())?.clone();
        if device.outcome != Outcome::Waiting {
            devices.remove(secret);
        }
        Some(device.outcome)
    }
}

impl Device {
    fn is_waiting(&self, code: &str) -> bool {
        let letters = |text: &str| {
            text.bytes().filter(u8::is_ascii_alphabetic).map(|it| it.to_ascii_uppercase()).collect::<Vec<_>>()
        };
        self.ends > now_ms() && self.outcome == Outcome::Waiting && letters(&self.code) == letters(code)
    }
}

/// Makes a code such as `BCDF-GHJK`.
fn code() -> String {
    // Letters and digits of equal chance, of which those that are left over are drawn again.
    let mut letters = String::new();
    while letters.len() < CODE_LETTERS {
        let drawn = ids::random(SECRET_CHARS).to_ascii_uppercase();
        letters.extend(drawn.chars().filter(|it| LETTERS.contains(&(*it as u8))));
    }
    format!("{}-{}", &letters[..CODE_LETTERS / 2], &letters[CODE_LETTERS / 2..CODE_LETTERS])
}
