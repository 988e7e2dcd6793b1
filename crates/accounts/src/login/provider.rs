//! The settings of a provider, and a person as it knows them.

use std::fmt;

/// The provider of people whom a gateway vouches for; no other may have this id.
pub const GATEWAY: &str = "gateway";

/// A place where people log in, as an administrator sets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Provider {
    /// The id in addresses and in the store: small letters, digits, `-` and `_`.
    pub id: String,
    /// The name on the login page and in errors.
    pub name: String,
    pub kind: Kind,
    pub client_id: String,
    /// Absent for a public client, which PKCE alone protects.
    pub client_secret: Option<String>,
    /// Scopes to ask for; none asks for those that tell name and address.
    pub scopes: Vec<String>,
}

/// The protocol of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// OpenID Connect with discovery. The issuer is written exactly as the provider writes it.
    OpenId { issuer: String },
    /// GitHub's OAuth: `https://github.com` and `https://api.github.com`, or those of an Enterprise Server.
    Github { site: String, api: String },
}

/// A person as a provider knows them. Provider and subject together identify them for ever; the rest may change.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub provider: String,
    pub subject: String,
    /// A name to show, never empty and at most 100 characters.
    pub name: String,
    /// An address that the provider has verified.
    pub email: Option<String>,
    pub refresh_token: Option<String>,
    pub id_token: Option<String>,
}

/// The account is still good at its provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Refreshed {
    /// The token for the next time. `None` keeps the one that was used.
    pub refresh_token: Option<String>,
    /// A newer ID token; `None` if the provider sends none again.
    pub id_token: Option<String>,
    /// The person's name, if the provider said it again.
    pub name: Option<String>,
    /// The person's verified address, if the provider said it again.
    pub email: Option<String>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, kind, client_id, client_secret: _, scopes } = self;
        let mut shown = f.debug_struct("Provider");
        shown.field("id", id).field("name", name).field("kind", kind).field("client_id", client_id);
        shown.field("scopes", scopes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, subject, name, email, refresh_token: _, id_token: _ } = self;
        let mut shown = f.debug_struct("Identity");
        shown.field("provider", provider).field("subject", subject).field("name", name);
        shown.field("email", email).finish_non_exhaustive()
    }
}

impl fmt::Debug for Refreshed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Refreshed");
        shown.field("name", &self.name).field("email", &self.email).finish_non_exhaustive()
    }
}
