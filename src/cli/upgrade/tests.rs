//! The place of the program tells how it was installed, and only versions name a release.

use std::path::Path;

use super::{
    checked,
    way::{Way, of},
};

#[test]
fn the_way_of_the_installation_is_told_by_the_place_of_the_file() {
    let nothing = |_: &Path| false;
    for (path, way) in [
        ("/usr/local/lib/node_modules/windlass/node_modules/windlass-linux-x64/bin/windlass", Way::Npm),
        ("/home/a/.npm/_npx/1a2b/node_modules/windlass-linux-x64/bin/windlass", Way::Npx),
        (
            "/w/app/node_modules/windlass-linux-x64/bin/windlass",
            Way::NpmOfProject { project: "/w/app".into() },
        ),
        ("/home/a/.local/share/uv/tools/windlass/bin/windlass", Way::Uv),
        ("/home/a/.local/share/pipx/venvs/windlass/bin/windlass", Way::Pipx),
        ("/opt/homebrew/Cellar/windlass/0.1.0/bin/windlass", Way::Homebrew),
        ("/home/a/.cargo/bin/windlass", Way::Cargo),
        ("/nix/store/abc-windlass-0.1.0/bin/windlass", Way::Nix),
        ("/w/windlass/target/release/windlass", Way::Sources),
        ("/home/a/.local/bin/windlass", Way::File { directory: "/home/a/.local/bin".into() }),
        ("/usr/bin/windlass", Way::File { directory: "/usr/bin".into() }),
    ] {
        assert_eq!(of(Path::new(path), nothing), way, "{path}");
    }
    assert_eq!(of(Path::new("/usr/bin/windlass"), |path| path.ends_with("windlass.list")), Way::Debian);
    let of_pip = |path: &Path| path.starts_with("/w/venv/lib/python3.11/site-packages");
    let pip = Way::Pip { python: "/w/venv/bin/python3.11".into() };
    assert_eq!(of(Path::new("/w/venv/bin/windlass"), of_pip), pip);
}

#[test]
fn a_version_leads_nowhere_else() {
    assert_eq!(checked("0.1.0-rc.1").unwrap(), "0.1.0-rc.1");
    for wrong in ["", "latest", "../1.0", "1/2", "1..2", "1 2", "0.1.0\n", "1?x"] {
        assert!(checked(wrong).is_err(), "{wrong:?}");
    }
}
