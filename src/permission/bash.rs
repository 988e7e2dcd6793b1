//! Reads a shell command: which commands it runs, which paths they touch, which prefix `always` means.
