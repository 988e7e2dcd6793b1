//! Links the release binary at fixed addresses.
//!
//! Each start of a position-independent binary rewrites 40,000 addresses, which costs a millisecond and 750 KB of
//! private memory; the sandbox's launcher is such a start too. Stack, heap and libraries stay at random addresses.

#![expect(clippy::disallowed_methods, reason = "Cargo speaks to a build script by variables")]

fn main() {
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|it| it == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
