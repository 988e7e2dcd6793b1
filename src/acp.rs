//! The ACP front end: newline-delimited JSON-RPC on standard input and output.
