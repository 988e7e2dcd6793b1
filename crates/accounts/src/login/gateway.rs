//! Checks the tokens by which a company's gateway says on whose behalf it passes a request on.

use std::sync::Arc;

use openidconnect::{ClientId, DiscoveryError, IssuerUrl, JsonWebKeySetUrl, Nonce, core::CoreJsonWebKeySet};

use super::{
    clock::Clock,
    error::{LoginError, shown},
    http::{Http, address},
    kept::Kept,
    openid::name_of,
    person,
    provider::{GATEWAY, Identity},
    token::{self, Claims, NotAccepted, Token, Verifier},
};

/// The name of the gateway in errors.
const NAME: &str = "the gateway";
/// Maximum bytes of a token, which arrives in a header.
const MAX_TOKEN: usize = 16 << 10;

/// A gateway that logs people in by itself and signs a token (JWT) for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// The `iss` of its tokens, which has to be a URL.
    pub issuer: String,
    /// The `aud` of its tokens, by which those for other services are told apart.
    pub audience: String,
    /// The address of its keys, a JSON Web Key Set.
    pub keys_url: String,
}

/// The check of a gateway's tokens, with the keys that it fetched.
#[derive(Debug)]
pub struct GatewayVerifier {
    issuer: IssuerUrl,
    audience: ClientId,
    keys_url: JsonWebKeySetUrl,
    http: Http,
    clock: Clock,
    keys: Kept<CoreJsonWebKeySet>,
}

impl GatewayVerifier {
    /// Makes the check for a gateway; no request is sent before the first token.
    pub fn new(gateway: Gateway, http: Http) -> Result<Self, LoginError> {
        Self::with_clock(gateway, http, Clock::default())
    }

    pub(super) fn with_clock(gateway: Gateway, http: Http, clock: Clock) -> Result<Self, LoginError> {
        let Gateway { issuer, audience, keys_url } = gateway;
        if audience.is_empty() {
            return Err(settings(
                "it has no audience; set the one that it writes into its tokens".to_owned(),
            ));
        }
        address(&keys_url).map_err(settings)?;
        let unusable = |url: &str| settings(format!("\"{}\" is not a URL", shown(url)));
        Ok(Self {
            issuer: IssuerUrl::new(issuer.clone()).map_err(|_| unusable(&issuer))?,
            audience: ClientId::new(audience),
            keys_url: JsonWebKeySetUrl::new(keys_url.clone()).map_err(|_| unusable(&keys_url))?,
            http,
            keys: Kept::new(clock.clone()),
            clock,
        })
    }

    /// Returns the person for whom the gateway signed a token, if it is valid now and for this audience.
    ///
    /// The gateway answers for the address, unless it says that it was not verified.
    pub async fn verify(&self, jwt: &str) -> Result<Identity, LoginError> {
        if jwt.len() > MAX_TOKEN {
            return Err(refused(format!("it is larger than {} KiB", MAX_TOKEN >> 10)));
        }
        let token: Token = jwt.parse().map_err(|_| refused("it is not a signed token (JWT)".to_owned()))?;
        let keys = self.keys.get(async || self.fetch().await).await?;
        let claims = match self.checked(&token, &keys) {
            Err(NotAccepted::UnknownKey) => {
                let newer = self.keys.newer(keys, async || self.fetch().await).await?;
                self.checked(&token, &newer)
            }
            checked => checked,
        };
        let claims = claims.map_err(|error| refused(error.reason()))?;
        let subject = person::subject(claims.subject()).map_err(refused)?;
        let email = claims.email().filter(|_| claims.email_verified() != Some(false));
        let email = email.and_then(|email| person::email(email));
        let name = name_of(claims).or_else(|| person::name([email.as_deref(), Some(&subject)]));
        Ok(Identity {
            provider: GATEWAY.to_owned(),
            name: name.unwrap_or_default(),
            subject,
            email,
            refresh_token: None,
            id_token: None,
        })
    }

    fn checked<'a>(
        &self,
        token: &'a Token,
        keys: &Arc<CoreJsonWebKeySet>,
    ) -> Result<&'a Claims, NotAccepted> {
        let keys = CoreJsonWebKeySet::clone(keys);
        let verifier = Verifier::new_public_client(self.audience.clone(), self.issuer.clone(), keys);
        let verifier = verifier.set_allowed_algs(token::all_public());
        // The token answers no request of ours, so it has no nonce to compare.
        let any_nonce = |_: Option<&Nonce>| Ok(());
        token::verify(token, verifier, &self.audience, any_nonce, self.clock.unix())
    }

    async fn fetch(&self) -> Result<CoreJsonWebKeySet, LoginError> {
        let fetched = CoreJsonWebKeySet::fetch_async(&self.keys_url, &self.http).await;
        let unreadable = |reason: String| LoginError::Answer { provider: NAME.to_owned(), reason };
        fetched.map_err(|error| match error {
            DiscoveryError::Request(error) => error.at(NAME),
            DiscoveryError::Response(status, ..) if !status.is_success() => {
                unreadable(format!("it answered {status} to the request for its keys"))
            }
            _other => unreadable("its keys are not a JSON Web Key Set".to_owned()),
        })
    }
}

fn settings(reason: String) -> LoginError {
    LoginError::Settings { provider: NAME.to_owned(), reason }
}

fn refused(reason: String) -> LoginError {
    LoginError::Token { provider: NAME.to_owned(), reason }
}
