//! Logins by OpenID Connect: discovery, the way to the provider, the exchange of the code, and renewal.

use std::{borrow::Cow, sync::Arc};

use openidconnect::{
    AccessTokenHash, AdditionalProviderMetadata, AuthType, AuthorizationCode, ClientId, ClientSecret,
    ConfigurationError, DiscoveryError, EmptyAdditionalClaims, EmptyExtraTokenFields, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, IdTokenFields, IssuerUrl, Nonce, NonceVerifier, OAuth2TokenResponse,
    ProviderMetadata, RedirectUrl, RefreshToken, Scope, StandardErrorResponse, StandardTokenResponse,
    TokenResponse, UserInfoClaims, UserInfoError,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClaimName, CoreClaimType,
        CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim, CoreGrantType, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm,
        CoreResponseMode, CoreResponseType, CoreRevocableToken, CoreRevocationErrorResponse,
        CoreSubjectIdentifierType, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::{
    attempts::{Attempt, Sent},
    clock::Clock,
    error::{LoginError, shown},
    http::{Http, HttpError, address},
    kept::Kept,
    person,
    provider::{Identity, Provider, Refreshed},
    refusal,
    token::{self, Claims, NotAccepted, NotBefore, Token},
};

/// Scopes of a provider without a list of its own.
const SCOPES: [&str; 2] = ["profile", "email"];

/// Metadata beyond OpenID Connect Discovery 1.0: RFC 9207, and RP-Initiated Logout 1.0.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Additional {
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    end_session_endpoint: Option<String>,
}

impl AdditionalProviderMetadata for Additional {}

type Metadata = ProviderMetadata<
    Additional,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;
type Answer = StandardTokenResponse<
    IdTokenFields<
        NotBefore,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;
type Client = openidconnect::Client<
    NotBefore,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Answer,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A provider that speaks OpenID Connect.
#[derive(Debug)]
pub(super) struct OpenId {
    name: String,
    issuer: IssuerUrl,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    scopes: Vec<Scope>,
    http: Http,
    clock: Clock,
    discovered: Kept<Discovered>,
}

/// The facts that a provider publishes about itself, its keys among them.
#[derive(Debug)]
struct Discovered {
    client: Client,
    algorithms: Vec<CoreJwsSigningAlgorithm>,
    /// True if each answer to a login names its issuer.
    names_issuer: bool,
    has_user_info: bool,
    end_session: Option<Url>,
}

impl OpenId {
    /// Makes the client of a provider, or says which setting cannot be used.
    pub(super) fn new(provider: &Provider, issuer: &str, http: Http, clock: Clock) -> Result<Self, String> {
        address(issuer)?;
        let own = provider.scopes.iter().map(String::as_str);
        let scopes: Vec<&str> = if provider.scopes.is_empty() { SCOPES.to_vec() } else { own.collect() };
        // The library adds `openid` by itself.
        let scopes = scopes.into_iter().filter(|scope| *scope != "openid");
        Ok(Self {
            name: provider.name.clone(),
            issuer: IssuerUrl::new(issuer.to_owned()).map_err(|error| error.to_string())?,
            client_id: ClientId::new(provider.client_id.clone()),
            client_secret: provider.client_secret.clone().map(ClientSecret::new),
            scopes: scopes.map(|scope| Scope::new(scope.to_owned())).collect(),
            http,
            discovered: Kept::new(clock.clone()),
            clock,
        })
    }

    /// Fetches the provider's document if it is not known, so that a login can begin.
    pub(super) async fn prepare(&self) -> Result<(), LoginError> {
        self.discovered().await.map(drop)
    }

    /// Returns the address to which a browser goes for a login.
    pub(super) async fn authorize(&self, sent: &Sent, redirect_uri: RedirectUrl) -> Result<Url, LoginError> {
        let discovered = self.discovered().await?;
        let (state, nonce) = (sent.state.clone(), sent.nonce.clone());
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = discovered.client.authorize_url(flow, || state, || nonce);
        let request = request.add_scopes(self.scopes.iter().cloned());
        let request = request.set_pkce_challenge(sent.challenge.clone());
        Ok(request.set_redirect_uri(Cow::Owned(redirect_uri)).url().0)
    }

    /// Checks the issuer that an answer to a login names (RFC 9207).
    pub(super) async fn check_issuer(&self, named: Option<&str>) -> Result<(), LoginError> {
        let reason = match named {
            Some(named) if named == self.issuer.as_str() => return Ok(()),
            Some(named) => format!("it names the issuer \"{}\"", shown(named)),
            None if !self.discovered().await?.names_issuer => return Ok(()),
            None => "it names no issuer, as this provider's answers do".to_owned(),
        };
        Err(LoginError::OtherIssuer { provider: self.name.clone(), reason })
    }

    /// Gives the code in exchange for tokens, and returns the person that they prove.
    pub(super) async fn exchange(
        &self,
        provider: &str,
        attempt: Attempt,
        code: String,
    ) -> Result<Identity, LoginError> {
        let discovered = self.discovered().await?;
        let request = discovered.client.exchange_code(AuthorizationCode::new(code));
        let request = request.map_err(|error| self.unconfigured(error))?;
        let request = request.set_pkce_verifier(attempt.verifier);
        let request = request.set_redirect_uri(Cow::Owned(attempt.redirect_uri));
        let answer = request.request_async(&self.http).await;
        let answer = answer.map_err(|error| refusal::of_token_request(&self.name, error))?;
        let Some(id_token) = answer.id_token() else {
            return Err(
                self.answer("it has no ID token; the client's registration has to allow OpenID Connect")
            );
        };
        let (claims, discovered) = self.checked(id_token, discovered, &attempt.nonce).await?;
        self.check_access_token(id_token, claims, &answer, &discovered)?;
        let subject = person::subject(claims.subject()).map_err(|reason| self.token(reason))?;
        let (name, email) = self.described(claims, &answer, &discovered).await?;
        Ok(Identity {
            provider: provider.to_owned(),
            name: name.or_else(|| person::name([Some(subject.as_str())])).unwrap_or_default(),
            subject,
            email,
            refresh_token: answer.refresh_token().map(|token| token.secret().clone()),
            id_token: Some(id_token.to_string()),
        })
    }

    /// Asks whether an account is still good.
    pub(super) async fn refresh(&self, subject: &str, refresh_token: &str) -> Result<Refreshed, LoginError> {
        let discovered = self.discovered().await?;
        let refresh_token = RefreshToken::new(refresh_token.to_owned());
        let request = discovered.client.exchange_refresh_token(&refresh_token);
        let request = request.map_err(|error| self.unconfigured(error))?;
        let answer = request.request_async(&self.http).await;
        let answer = answer.map_err(|error| refusal::of_token_request(&self.name, error))?;
        let mut refreshed = Refreshed {
            refresh_token: answer.refresh_token().map(|token| token.secret().clone()),
            id_token: None,
            name: None,
            email: None,
        };
        if let Some(id_token) = answer.id_token() {
            // A renewed token needs no nonce (OpenID Connect Core, section 12.2).
            let any_nonce = |_: Option<&Nonce>| Ok(());
            let (claims, _) = self.checked(id_token, discovered.clone(), any_nonce).await?;
            if claims.subject().as_str() != subject {
                return Err(self.token("it belongs to another account".to_owned()));
            }
            refreshed.id_token = Some(id_token.to_string());
            refreshed.name = name_of(claims);
            refreshed.email = email_of(claims);
        }
        Ok(refreshed)
    }

    /// Returns the address at which the provider's own session ends.
    pub(super) async fn logout_url(&self, id_token: Option<&str>, back: &str) -> Option<String> {
        let discovered = self.discovered().await.ok()?;
        let mut url = discovered.end_session.clone()?;
        let mut query = url.query_pairs_mut();
        if let Some(id_token) = id_token {
            query.append_pair("id_token_hint", id_token);
        }
        query.append_pair("client_id", &self.client_id).append_pair("post_logout_redirect_uri", back);
        drop(query);
        Some(url.into())
    }

    async fn discovered(&self) -> Result<Arc<Discovered>, LoginError> {
        self.discovered.get(async || self.discover().await).await
    }

    async fn discover(&self) -> Result<Discovered, LoginError> {
        let metadata = Metadata::discover_async(self.issuer.clone(), &self.http).await;
        let metadata = metadata.map_err(|error| self.undiscovered(error))?;
        let additional = metadata.additional_metadata();
        let end_session = additional.end_session_endpoint.as_deref();
        let token = metadata.token_endpoint().map(|url| url.url());
        let token = token.ok_or_else(|| self.answer("its metadata names no token endpoint"))?;
        let user_info = metadata.userinfo_endpoint().map(|url| url.url());
        let needed = [metadata.authorization_endpoint().url(), metadata.jwks_uri().url(), token];
        for endpoint in needed.into_iter().chain(user_info) {
            address(endpoint.as_str())
                .map_err(|reason| self.answer(&format!("an endpoint in its metadata, {reason}")))?;
        }
        let methods = metadata.token_endpoint_auth_methods_supported();
        let allows = |method| methods.is_none_or(|methods| methods.contains(&method));
        let is_basic = allows(CoreClientAuthMethod::ClientSecretBasic)
            || !allows(CoreClientAuthMethod::ClientSecretPost);
        let auth_type = if is_basic { AuthType::BasicAuth } else { AuthType::RequestBody };
        Ok(Discovered {
            algorithms: token::public(metadata.id_token_signing_alg_values_supported()),
            names_issuer: additional.authorization_response_iss_parameter_supported,
            has_user_info: user_info.is_some(),
            end_session: end_session.and_then(|url| address(url).ok()),
            client: Client::from_provider_metadata(
                metadata,
                self.client_id.clone(),
                self.client_secret.clone(),
            )
            .set_auth_type(auth_type),
        })
    }

    /// Returns the claims of a valid token, and the facts it was checked by: newer ones if its key was unknown.
    async fn checked<'a, N: NonceVerifier + Clone>(
        &self,
        token: &'a Token,
        discovered: Arc<Discovered>,
        nonce: N,
    ) -> Result<(&'a Claims, Arc<Discovered>), LoginError> {
        let now = self.clock.unix();
        let verify = |by: &Discovered| {
            let verifier = by.client.id_token_verifier().set_allowed_algs(by.algorithms.clone());
            token::verify(token, verifier, &self.client_id, nonce.clone(), now)
        };
        match verify(&discovered) {
            Ok(claims) => Ok((claims, discovered)),
            Err(NotAccepted::UnknownKey) => {
                let newer = self.discovered.newer(discovered, async || self.discover().await).await?;
                match verify(&newer) {
                    Ok(claims) => Ok((claims, newer)),
                    Err(error) => Err(self.token(error.reason())),
                }
            }
            Err(error) => Err(self.token(error.reason())),
        }
    }

    /// Checks that the access token came with the ID token, which may carry its hash.
    fn check_access_token(
        &self,
        id_token: &Token,
        claims: &Claims,
        answer: &Answer,
        discovered: &Discovered,
    ) -> Result<(), LoginError> {
        let Some(expected) = claims.access_token_hash() else { return Ok(()) };
        let verifier = discovered.client.id_token_verifier();
        let algorithm = id_token.signing_alg().map_err(|error| self.token(error.to_string()))?;
        let key = id_token.signing_key(&verifier).map_err(|error| self.token(error.to_string()))?;
        let actual = AccessTokenHash::from_token(answer.access_token(), algorithm, key);
        match actual {
            Ok(actual) if actual == *expected => Ok(()),
            Ok(_) => Err(self.token("it belongs to another access token".to_owned())),
            Err(error) => Err(self.token(error.to_string())),
        }
    }

    /// Returns a person's name and address, from the ID token and, if it lacks one, from the endpoint for them.
    async fn described(
        &self,
        claims: &Claims,
        answer: &Answer,
        discovered: &Discovered,
    ) -> Result<(Option<String>, Option<String>), LoginError> {
        let (name, email) = (name_of(claims), email_of(claims));
        if (name.is_some() && email.is_some()) || !discovered.has_user_info {
            return Ok((name, email));
        }
        let subject = Some(claims.subject().clone());
        let request = discovered.client.user_info(answer.access_token().clone(), subject);
        let request = request.map_err(|error| self.unconfigured(error))?;
        let asked: Result<UserInfoClaims<EmptyAdditionalClaims, CoreGenderClaim>, _> =
            request.request_async(&self.http).await;
        let info = match asked {
            Ok(info) => info,
            // A provider may keep these facts from clients without the scope for them.
            Err(UserInfoError::Response(status, ..)) => {
                tracing::debug!(provider = self.name, %status, "a provider tells nothing about a person");
                return Ok((name, email));
            }
            Err(UserInfoError::Request(error)) => return Err(error.at(&self.name)),
            Err(UserInfoError::ClaimsVerification(_)) => {
                return Err(self.answer("it describes another account than the one that logged in"));
            }
            Err(_) => return Err(self.answer("its description of the account cannot be read")),
        };
        let told = info.name().and_then(|name| name.get(None)).map(|name| name.as_str());
        let username = info.preferred_username().map(|name| name.as_str());
        let told_email = info.email().filter(|_| info.email_verified() == Some(true));
        Ok((
            name.or_else(|| person::name([told, username])),
            email.or_else(|| told_email.and_then(|email| person::email(email))),
        ))
    }

    fn undiscovered(&self, error: DiscoveryError<HttpError>) -> LoginError {
        let provider = self.name.clone();
        match error {
            DiscoveryError::Request(error) => error.at(&provider),
            DiscoveryError::Validation(_) => {
                let issuer = self.issuer.as_str();
                let reason = format!(
                    "its metadata names another issuer than \"{issuer}\"; the administrator has to set the issuer \
                     exactly as the provider writes it"
                );
                LoginError::Answer { provider, reason }
            }
            DiscoveryError::Parse(error) => self
                .answer(&format!("its metadata cannot be read at \"{}\"", shown(&error.path().to_string()))),
            DiscoveryError::Response(status, ..) if !status.is_success() => {
                let issuer = self.issuer.as_str();
                self.answer(&format!(
                    "it answered {status} to the request for its metadata or keys, below {issuer}"
                ))
            }
            other => self.answer(&shown(&other.to_string())),
        }
    }

    fn unconfigured(&self, _missing: ConfigurationError) -> LoginError {
        self.answer("its metadata lacks an endpoint")
    }

    fn answer(&self, reason: &str) -> LoginError {
        LoginError::Answer { provider: self.name.clone(), reason: reason.to_owned() }
    }

    fn token(&self, reason: String) -> LoginError {
        LoginError::Token { provider: self.name.clone(), reason }
    }
}

/// Returns the name that a token has for its person.
pub(super) fn name_of(claims: &Claims) -> Option<String> {
    let name = claims.name().and_then(|name| name.get(None)).map(|name| name.as_str());
    person::name([name, claims.preferred_username().map(|name| name.as_str())])
}

/// Returns the address that a token has for its person, if the provider checked it.
fn email_of(claims: &Claims) -> Option<String> {
    let email = claims.email().filter(|_| claims.email_verified() == Some(true));
    email.and_then(|email| person::email(email))
}
