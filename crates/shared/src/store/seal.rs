//! The keys of a fleet: proof that a row was written by a node of it, tokens for requests between nodes, and the
//! encryption of texts.

use std::fmt;

use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest, hmac,
    rand::{SecureRandom, SystemRandom},
};
use windlass_core::storage::outlet::SharedError;

/// Milliseconds for which a token holds, on the database's clock.
const TOKEN_LIFETIME: i64 = 60_000;

/// The keys of a fleet; see the module's comment.
pub struct Keys {
    proof: hmac::Key,
    texts: Option<LessSafeKey>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Makes the keys from the fleet's, which is in the shared store, and the user's own, which is not.
    pub fn new(fleet: &[u8], own: Option<&str>) -> Self {
        // The right to read the store alone does not make a node where the user has a key.
        let base = hmac::Key::new(hmac::HMAC_SHA256, fleet);
        let secret = hmac::sign(&base, own.unwrap_or_default().as_bytes());
        let texts = own.and_then(|own| {
            let hash = digest::digest(&digest::SHA256, format!("windlass texts {own}").as_bytes());
            UnboundKey::new(&AES_256_GCM, hash.as_ref()).ok().map(LessSafeKey::new)
        });
        Self { proof: hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref()), texts }
    }

    pub fn encrypts(&self) -> bool {
        self.texts.is_some()
    }

    /// Returns the proof of a node's name and address.
    pub fn of_node(&self, id: &str, address: Option<&str>) -> Vec<u8> {
        self.sign(&["node", id, address.unwrap_or_default()])
    }

    pub fn is_of_node(&self, id: &str, address: Option<&str>, seal: &[u8]) -> bool {
        let text = joined(&["node", id, address.unwrap_or_default()]);
        hmac::verify(&self.proof, text.as_bytes(), seal).is_ok()
    }

    /// Returns a token for a request of one node to another, made at this time.
    pub fn token(&self, to: &str, now_ms: i64) -> String {
        let until = (now_ms + TOKEN_LIFETIME).to_string();
        format!("{until}.{}", hex(&self.sign(&["token", to, &until])))
    }

    /// Returns true for a token that holds now for this node.
    pub fn is_token(&self, token: &str, own: &str, now_ms: i64) -> bool {
        let Some((until, proof)) = token.split_once('.') else { return false };
        let holds = until.parse::<i64>().is_ok_and(|it| it > now_ms && it <= now_ms + 2 * TOKEN_LIFETIME);
        let text = joined(&["token", own, until]);
        holds && unhex(proof).is_some_and(|proof| hmac::verify(&self.proof, text.as_bytes(), &proof).is_ok())
    }

    /// Returns the proof that a node of the fleet wrote a text.
    pub fn of_text(&self, text: &str) -> String {
        hex(&self.sign(&["written", text]))
    }

    pub fn is_of_text(&self, text: &str, seal: &str) -> bool {
        let text = joined(&["written", text]);
        unhex(seal).is_some_and(|seal| hmac::verify(&self.proof, text.as_bytes(), &seal).is_ok())
    }

    /// Returns the name of a large text: the same for the same one, and without the keys worth nothing.
    pub fn name_of(&self, text: &str) -> Vec<u8> {
        self.sign(&["text", text])
    }

    /// Returns a number that tells this fleet from others.
    pub fn number(&self) -> i64 {
        let signed = self.sign(&["fleet"]);
        signed.first_chunk().map_or(0, |first| i64::from_be_bytes(*first))
    }

    fn sign(&self, words: &[&str]) -> Vec<u8> {
        hmac::sign(&self.proof, joined(words).as_bytes()).as_ref().to_vec()
    }

    /// Encrypts bytes for their place, if the user has a key.
    pub fn close(&self, place: &str, mut bytes: Vec<u8>) -> Result<Vec<u8>, SharedError> {
        let Some(key) = &self.texts else { return Ok(bytes) };
        let refuse = |_| SharedError::Refused { reason: "no random numbers can be had".to_owned() };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(refuse)?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut bytes)
            .map_err(refuse)?;
        Ok([nonce.as_slice(), &bytes].concat())
    }

    /// Decrypts a text that [`Keys::close`] made for the same place; the error is a reason for people.
    pub fn open(&self, place: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let Some(key) = &self.texts else {
            return Err("it is encrypted, and `windlass.shared.key` is not set".to_owned());
        };
        let wrong = || "it was encrypted with another `windlass.shared.key`, or changed since".to_owned();
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(place), &mut sealed).map_err(|_| wrong())?;
        Ok(opened.to_vec())
    }
}

/// Joins words so that no other words give the same text.
fn joined(words: &[&str]) -> String {
    words.iter().map(|word| format!("{}:{word}", word.len())).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}

#[cfg(test)]
mod tests;
