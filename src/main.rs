//! The windlass binary.

fn main() {}
