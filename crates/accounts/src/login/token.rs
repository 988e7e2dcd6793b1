//! Checks signed tokens: signature, issuer, audience, times and nonce.

use std::time::{Duration, UNIX_EPOCH};

use openidconnect::{
    AdditionalClaims, ClaimsVerificationError, IdTokenVerifier, NonceVerifier, SignatureVerificationError,
    core::{
        CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm as Algorithm,
    },
};
use serde::{Deserialize, Serialize};

use super::error::shown;

/// Seconds by which the clocks of two machines may differ.
const LEEWAY: i64 = 60;

/// Algorithms with a public key. Those with a shared secret would make the client's secret a signing key.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RsaSsaPkcs1V15Sha256,
    Algorithm::RsaSsaPkcs1V15Sha384,
    Algorithm::RsaSsaPkcs1V15Sha512,
    Algorithm::RsaSsaPssSha256,
    Algorithm::RsaSsaPssSha384,
    Algorithm::RsaSsaPssSha512,
    Algorithm::EcdsaP256Sha256,
    Algorithm::EcdsaP384Sha384,
    Algorithm::EdDsa,
];

/// The claim of RFC 7519 that OpenID Connect does not have.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(super) struct NotBefore {
    nbf: Option<f64>,
}

impl AdditionalClaims for NotBefore {}

pub(super) type Token =
    openidconnect::IdToken<NotBefore, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, Algorithm>;
pub(super) type Claims = openidconnect::IdTokenClaims<NotBefore, CoreGenderClaim>;
pub(super) type Verifier<'a> = IdTokenVerifier<'a, CoreJsonWebKey>;

/// A token that is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAccepted {
    /// None of the keys signed it; a newer set may have the key.
    UnknownKey,
    /// The reason, for people.
    Invalid(String),
}

impl NotAccepted {
    /// Returns the reason, for people.
    pub(super) fn reason(self) -> String {
        match self {
            Self::UnknownKey => "it is not signed by a key of its issuer".to_owned(),
            Self::Invalid(reason) => reason,
        }
    }
}

/// Returns the algorithms with a public key among those that a provider announces.
pub(super) fn public(announced: &[Algorithm]) -> Vec<Algorithm> {
    ALGORITHMS.into_iter().filter(|algorithm| announced.contains(algorithm)).collect()
}

/// Returns all algorithms with a public key.
pub(super) fn all_public() -> Vec<Algorithm> {
    ALGORITHMS.to_vec()
}

/// Returns the claims of a token that is valid now, in seconds since 1970.
///
/// A token may be addressed to others beside `audience` only if it was issued to `audience`, as its `azp` says.
pub(super) fn verify<'a>(
    token: &'a Token,
    verifier: Verifier<'_>,
    audience: &str,
    nonce: impl NonceVerifier,
    now: i64,
) -> Result<&'a Claims, NotAccepted> {
    let earliest = UNIX_EPOCH + Duration::from_secs((now - LEEWAY).max(0).cast_unsigned());
    let verifier = verifier
        .set_other_audience_verifier_fn(|_| true)
        .set_time_fn(move || earliest.into())
        .set_issue_time_verifier_fn(move |issued| {
            if issued.timestamp() > now + LEEWAY { Err(String::new()) } else { Ok(()) }
        });
    let claims = token.claims(&verifier, nonce).map_err(not_accepted)?;
    if claims.additional_claims().nbf.is_some_and(|from| from > (now + LEEWAY) as f64) {
        return Err(wrong_time());
    }
    let invalid = |reason: &str| Err(NotAccepted::Invalid(reason.to_owned()));
    match claims.authorized_party() {
        Some(party) if party.as_str() != audience => invalid("it was issued to another client"),
        None if claims.audiences().len() > 1 => invalid("it is addressed to others too"),
        Some(_) | None => Ok(claims),
    }
}

fn wrong_time() -> NotAccepted {
    NotAccepted::Invalid(
        "it has expired or is not valid yet; the administrator has to compare the clocks of the two machines"
            .to_owned(),
    )
}

fn not_accepted(error: ClaimsVerificationError) -> NotAccepted {
    use SignatureVerificationError::{CryptoError, DisallowedAlg, NoMatchingKey, NoSignature};
    let reason = match error {
        ClaimsVerificationError::Expired(_) => return wrong_time(),
        // A key may be replaced under its old name.
        ClaimsVerificationError::SignatureVerification(NoMatchingKey | CryptoError(_)) => {
            return NotAccepted::UnknownKey;
        }
        ClaimsVerificationError::SignatureVerification(NoSignature) => "it is not signed".to_owned(),
        ClaimsVerificationError::SignatureVerification(DisallowedAlg(_)) => {
            "it is signed by an algorithm that is not allowed".to_owned()
        }
        ClaimsVerificationError::SignatureVerification(error) => error.to_string(),
        ClaimsVerificationError::InvalidNonce(_) => "it belongs to another login".to_owned(),
        ClaimsVerificationError::InvalidIssuer(_) => "it names another issuer".to_owned(),
        ClaimsVerificationError::InvalidAudience(_) => "it is addressed to another client".to_owned(),
        other => other.to_string(),
    };
    NotAccepted::Invalid(shown(&reason))
}
