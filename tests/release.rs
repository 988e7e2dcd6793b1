//! A release: packed for every way by which it is installed, installed by them, and taken away.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Output};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::support::{agent::binary, scratch::Scratch, skip::lacks_program};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PLATFORM: &str = "linux-x86_64";

/// Stands for the program: says its version, and writes what belongs beside it.
const PROGRAM: &str = r##"#!/bin/sh
case $1 in
--version) echo "windlass VERSION" ;;
man) for page in windlass windlass-run; do echo ".TH $page" >"$3/$page.1"; done ;;
completions) echo "# $2" ;;
*) echo "called: $*" ;;
esac
"##;

/// Packs a release whose files are below a directory of its own.
async fn packed(scratch: &Scratch) -> Value {
    let releases = scratch.path("releases");
    scratch.write("program", PROGRAM.replace("VERSION", VERSION));
    fs::set_permissions(scratch.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
    let dist = format!("{releases}/v{VERSION}");
    let packed = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/dist-all"))
        .args([&dist, &format!("file://{releases}"), "https://forge.example/windlass", "--binary"])
        .arg(scratch.path("program"))
        .output()
        .await
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let entry = fs::read_to_string(format!("{dist}/registry/windlass/agent.json")).unwrap();
    serde_json::from_str(&entry).unwrap()
}

fn file(scratch: &Scratch, name: &str) -> String {
    scratch.path(&format!("releases/v{VERSION}/{name}"))
}

fn digest(path: &str) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a program in an empty environment with a home of its own.
async fn run(scratch: &Scratch, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &scratch.home)
        .env("PIP_NO_INDEX", "1")
        .output()
        .await
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the files below a directory.
fn tree(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn a_release_names_the_checksum_of_each_file_and_two_are_the_same_bytes() {
    if lacks_program("cargo") {
        return;
    }
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let entry = packed(&scratch).await;
    packed(&other).await;
    let sums = fs::read_to_string(file(&scratch, "SHA256SUMS")).unwrap();
    assert!(sums.lines().count() > 10, "{sums}");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        assert_eq!(digest(&file(&scratch, name)), sum, "{name}");
        // The others name their own directory, as the address of the release.
        let is_archive =
            [".gz", ".xz", ".tgz", ".whl", ".deb", "cdx.json"].iter().any(|it| name.ends_with(it));
        assert!(!is_archive || digest(&file(&other, name)) == sum, "{name} differs");
    }
    for field in ["name", "description", "repository", "website", "license", "license_url"] {
        assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {entry}");
    }
    let archive = format!("windlass-{VERSION}-{PLATFORM}.tar.gz");
    let listed = &entry["distribution"]["binary"][PLATFORM];
    assert_eq!(listed["sha256"], json!(digest(&file(&scratch, &archive))));
    assert!(listed["archive"].as_str().unwrap().ends_with(&format!("/v{VERSION}/{archive}")), "{listed}");
    assert_eq!(listed["cmd"], json!("./windlass"));
    let icon = fs::read_to_string(file(&scratch, "registry/windlass/icon.svg")).unwrap();
    assert!(icon.contains(r#"width="16" height="16""#) && icon.contains("currentColor"), "{icon}");
    assert!(!icon.contains('#') && !icon.contains("rgb"), "{icon}");
    let bill =
        fs::read_to_string(file(&scratch, &format!("windlass-{VERSION}-{PLATFORM}.cdx.json"))).unwrap();
    let bill: Value = serde_json::from_str(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tokio") && !names.contains(&"syn") && !names.contains(&"insta"), "{names:?}");
    for name in ["homebrew/windlass.rb", "nix/flake.nix", "install.sh", "VERSION"] {
        let text = fs::read_to_string(file(&scratch, name)).unwrap();
        assert!(text.contains(VERSION) && !text.contains('@'.to_string().repeat(2).as_str()), "{name}");
        let left = text.split('@').skip(1).find(|it| it.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(left.is_none(), "{name} has a place that was not filled: {left:?}");
    }
}

#[tokio::test]
async fn the_installer_installs_what_has_the_checksum_and_takes_it_away_without_a_trace() {
    if lacks_program("cargo") {
        return;
    }
    let scratch = Scratch::new();
    packed(&scratch).await;
    let installer = file(&scratch, "install.sh");
    let before = tree(&scratch.home);
    let installed = run(&scratch, "sh", &[&installer]).await;
    assert!(installed.status.success(), "{}", text(&installed));
    let program = scratch.home.join(".local/bin/windlass").display().to_string();
    let said = run(&scratch, &program, &["acp"]).await;
    assert_eq!(text(&said), "called: acp\n");
    assert!(scratch.home.join(".local/share/man/man1/windlass-run.1").is_file());
    let removed = run(&scratch, "sh", &[&installer, "--uninstall"]).await;
    assert!(removed.status.success(), "{}", text(&removed));
    assert_eq!(tree(&scratch.home), before);
    let again = run(&scratch, "sh", &[&installer, "--uninstall"]).await;
    assert!(!again.status.success() && text(&again).contains("there is no"), "{}", text(&again));

    let absent = run(&scratch, "sh", &[&installer, "--version", "9.9.9"]).await;
    assert!(!absent.status.success() && text(&absent).contains("no release 9.9.9"), "{}", text(&absent));
    let archive = file(&scratch, &format!("windlass-{VERSION}-{PLATFORM}.tar.gz"));
    fs::write(&archive, "something else").unwrap();
    let refused = run(&scratch, "sh", &[&installer]).await;
    assert!(
        !refused.status.success() && text(&refused).contains("nothing is installed"),
        "{}",
        text(&refused)
    );
    assert_eq!(tree(&scratch.home), before);
}

#[tokio::test]
async fn npm_installs_the_program_of_the_platform_and_both_names_start_it() {
    if lacks_program("cargo") || lacks_program("npm") {
        return;
    }
    let scratch = Scratch::new();
    packed(&scratch).await;
    let package = |name: &str| file(&scratch, &format!("npm/{name}-{VERSION}.tgz"));
    let project = scratch.path("project");
    scratch.write("project/package.json", "{}");
    let packages = ["windlass-linux-x64", "windlass", "windlass-as-opencode"].map(package);
    let mut arguments =
        vec!["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", &project];
    arguments.extend(packages.iter().map(String::as_str));
    // The packages of other platforms are in no registry yet, and optional.
    let installed = run(&scratch, "npm", &arguments).await;
    assert!(installed.status.success(), "{}", text(&installed));
    for name in ["windlass", "opencode"] {
        let program = format!("{project}/node_modules/.bin/{name}");
        let said = run(&scratch, &program, &["acp", "--x"]).await;
        assert_eq!(text(&said), "called: acp --x\n", "{name}");
    }
    // Without the platform's package it says so.
    fs::remove_dir_all(format!("{project}/node_modules/windlass-linux-x64")).unwrap();
    let lost = run(&scratch, &format!("{project}/node_modules/.bin/windlass"), &[]).await;
    assert!(
        !lost.status.success() && text(&lost).contains("no package windlass-linux-x64"),
        "{}",
        text(&lost)
    );
}

#[tokio::test]
async fn pip_installs_the_wheel_and_takes_it_away() {
    if lacks_program("cargo") || lacks_program("python3") {
        return;
    }
    let scratch = Scratch::new();
    packed(&scratch).await;
    let venv = scratch.path("venv");
    let made = run(&scratch, "python3", &["-m", "venv", &venv]).await;
    assert!(made.status.success(), "{}", text(&made));
    let pip = format!("{venv}/bin/pip");
    let wheel = file(&scratch, &format!("pypi/windlass-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"));
    let installed = run(&scratch, &pip, &["install", "--quiet", &wheel]).await;
    assert!(installed.status.success(), "{}", text(&installed));
    let program = format!("{venv}/bin/windlass");
    assert_eq!(text(&run(&scratch, &program, &["x"]).await), "called: x\n");
    let removed = run(&scratch, &pip, &["uninstall", "--yes", "--quiet", "windlass"]).await;
    assert!(removed.status.success() && !Path::new(&program).exists(), "{}", text(&removed));
}

#[tokio::test]
async fn the_debian_package_has_the_program_its_pages_and_its_completions() {
    if lacks_program("cargo") || lacks_program("dpkg-deb") {
        return;
    }
    let scratch = Scratch::new();
    packed(&scratch).await;
    let package = file(&scratch, &format!("windlass_{VERSION}_amd64.deb"));
    let listed = text(&run(&scratch, "dpkg-deb", &["--contents", &package]).await);
    for path in [
        "root/root",
        "./usr/bin/windlass\n",
        "./usr/share/man/man1/windlass.1.gz\n",
        "./usr/share/bash-completion/completions/windlass\n",
        "./usr/share/doc/windlass/copyright\n",
    ] {
        assert!(listed.contains(path), "{path}: {listed}");
    }
    let fields = text(&run(&scratch, "dpkg-deb", &["--info", &package]).await);
    assert!(
        fields.contains("libc6 (>= 2.28)") && fields.contains(&format!("Version: {VERSION}")),
        "{fields}"
    );
}

#[tokio::test]
async fn an_upgrade_says_the_way_and_runs_only_an_installer_with_the_checksum() {
    if lacks_program("cargo") {
        return;
    }
    let scratch = Scratch::new();
    packed(&scratch).await;
    let bin = scratch.home.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("windlass").display().to_string();
    fs::copy(binary(), &program).unwrap();
    let releases = format!("file://{}", scratch.path("releases"));
    let upgrade = async |arguments: &[&str]| {
        let output = Command::new(&program)
            .arg("upgrade")
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", &scratch.home)
            .env("WINDLASS_RELEASES", &releases)
            .output()
            .await
            .unwrap();
        (output.status.success(), text(&output))
    };
    fs::create_dir_all(scratch.path("releases/latest")).unwrap();
    fs::write(scratch.path("releases/latest/VERSION"), format!("{VERSION}\n")).unwrap();
    let (is_done, said) = upgrade(&[]).await;
    assert!(is_done && said.contains("a file in") && said.contains("Nothing is to be done"), "{said}");
    // Another version, under the name of a newer one.
    fs::rename(scratch.path(&format!("releases/v{VERSION}")), scratch.path("releases/v9.0.0")).unwrap();
    let (is_done, said) = upgrade(&["9.0.0"]).await;
    assert!(!is_done && said.contains("Nothing is changed"), "{said}");
    let installer = scratch.path("releases/v9.0.0/install.sh");
    let good = fs::read_to_string(&installer).unwrap();
    fs::write(&installer, format!("{good}\ntouch \"$HOME/evil\"\n")).unwrap();
    let (is_done, said) = upgrade(&["9.0.0", "--yes"]).await;
    assert!(!is_done && said.contains("checksum") && !scratch.home.join("evil").exists(), "{said}");
    let (is_done, said) = upgrade(&["../9.0.0", "--yes"]).await;
    assert!(!is_done && said.contains("no version"), "{said}");
    assert!(fs::metadata(&program).unwrap().len() > 1 << 20, "the program is as it was");
}
