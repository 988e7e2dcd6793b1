//! Server-sent events: bytes in, events out.
