//! Tolerant decoding of what clients send.
