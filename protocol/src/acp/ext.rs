//! Our extensions of ACP: names and shapes behind `_meta` and `_windlass/`.
