//! The Anthropic messages wire.
