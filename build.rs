//! Links the release binary at fixed addresses, with the functions that sessions run side by side.
//!
//! Each start of a position-independent binary rewrites 40,000 addresses, which costs a millisecond and 750 KB of
//! private memory; the sandbox's launcher is such a start too. Stack, heap and libraries stay at random addresses.
//!
//! The kernel maps sixteen pages around each page that is used: with the functions of a session all over the binary,
//! nearly all of it counts as memory of every daemon.

#![expect(clippy::disallowed_methods, reason = "Cargo speaks to a build script by variables")]

/// Made by `make order`. A function that it does not name, or that has another name by now, stays where it was.
const ORDER: &str = ".ci/function-order.txt";

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rustc-env=BUILT_FOR={}", variable("TARGET"));
    // A build for tests would be made anew with each commit.
    if variable("PROFILE") == "release" {
        tell_commit();
    }
    if variable("PROFILE") != "release" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // The one target whose linker is LLVM's unless somebody says otherwise; the others' have no such option.
    let has_lld = variable("TARGET") == "x86_64-unknown-linux-gnu"
        && variable("RUSTC_LINKER").is_empty()
        && !["linker", "fuse-ld"].iter().any(|it| variable("CARGO_ENCODED_RUSTFLAGS").contains(it));
    if has_lld {
        let directory = variable("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={directory}/{ORDER}");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
        // A thirtieth of the code stands there more than once, by other types of the same shape.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Names the commit that is built, and its day; sources without a repository have none.
fn tell_commit() {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        let text = output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    // Sources that were unpacked below another repository are not of it.
    let root = git(&["rev-parse", "--show-toplevel"]).map(std::path::PathBuf::from);
    let own = std::env::var("CARGO_MANIFEST_DIR").ok().map(std::path::PathBuf::from);
    if root.is_none() || root != own {
        return;
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| std::path::Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["log", "-1", "--abbrev=8", "--format=%h (%cs)"]) {
        println!("cargo::rustc-env=BUILT_COMMIT={commit}");
    }
}
