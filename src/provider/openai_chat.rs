//! The OpenAI chat-completions wire.
