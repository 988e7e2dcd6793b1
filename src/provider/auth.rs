//! Credentials: OpenCode's `auth.json` is read, our own is read and written.
