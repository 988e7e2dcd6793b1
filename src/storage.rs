//! The store: one SQLite file, one thread that writes it.
