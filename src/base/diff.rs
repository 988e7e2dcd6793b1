//! Unified diffs of two texts.
