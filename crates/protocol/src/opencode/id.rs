//! Newtypes for OpenCode's prefixed ids (`ses_…`, `msg_…`, `prt_…`).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The error for an id string without the shape that its kind requires.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a valid id: expected `{prefix}_` followed by letters and digits")]
pub struct InvalidId {
    /// The prefix that was required, without the underscore.
    pub prefix: &'static str,
    /// The string that was given.
    pub value: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id's prefix, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Checks the prefix and that the rest is 1 to 64 ASCII letters, digits, `_` or `-`.
            pub fn parse(value: &str) -> Result<Self, InvalidId> {
                let body = value.strip_prefix(concat!($prefix, "_")).unwrap_or("");
                let is_valid = (1..=64).contains(&body.len())
                    && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                if is_valid {
                    Ok(Self(value.into()))
                } else {
                    Err(InvalidId { prefix: $prefix, value: value.chars().take(80).collect() })
                }
            }

            /// Wraps text that is known to be an id: one just made, or one read back from the store.
            pub fn from_trusted(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// Returns the id as it is on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the id's shared text, for types that need an `Arc<str>`.
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// The id of a session. Made descending: newer ids sort first.
    SessionId,
    "ses"
);
id!(
    /// The id of a message. Made ascending: message order is id order.
    MessageId,
    "msg"
);
id!(
    /// The id of a part of a message. Made ascending.
    PartId,
    "prt"
);
id!(
    /// The id of a pending permission request.
    PermissionId,
    "per"
);
id!(
    /// The id of a pending question.
    QuestionId,
    "que"
);
id!(
    /// The id of a published event.
    EventId,
    "evt"
);
