//! End-to-end tests: the real binary, spoken to on its pipes.
