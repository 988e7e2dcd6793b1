//! Signs JSON web tokens (RFC 7515, 7519) with a key in PEM's form.

use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};

/// Signs claims by a key of RSA's or of the curve P-256, in PKCS #8; `None` for any other. `key_id` names the
/// key among several.
pub fn signed(claims: &Value, pem: &str, key_id: Option<&str>) -> Option<String> {
    let lines = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    let der = BASE64_STANDARD.decode(lines.collect::<String>()).ok()?;
    let random = SystemRandom::new();
    let curve = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random);
    let mut header = json!({"alg": if curve.is_ok() { "ES256" } else { "RS256" }, "typ": "JWT"});
    if let Some(key_id) = key_id {
        header["kid"] = key_id.into();
    }
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&header), encode(claims));
    let signature = match curve {
        Ok(key) => key.sign(&random, text.as_bytes()).ok()?.as_ref().to_vec(),
        Err(_) => {
            let key = RsaKeyPair::from_pkcs8(&der).ok()?;
            let mut signature = vec![0; key.public().modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).ok()?;
            signature
        }
    };
    Some(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}
