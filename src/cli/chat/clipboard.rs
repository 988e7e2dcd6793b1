//! The picture in the clipboard of the person's desktop, as a file that a prompt can name.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{DirBuilder, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    time::Duration,
};

use tokio::time::timeout;
use windlass_base::{clock, mime, process};
use windlass_core::config::{Environment, paths::Paths};

/// Bytes of a picture; models take fewer.
const MAX_BYTES: u64 = 20 << 20;
const LIMIT: Duration = Duration::from_secs(5);

/// Programs that print the clipboard's picture, each with the variable of the desktop that it belongs to.
const PRINTERS: [(&str, &[&str]); 3] = [
    ("WAYLAND_DISPLAY", &["wl-paste", "--no-newline", "--type", "image/png"]),
    ("DISPLAY", &["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]),
    // Of macOS, which sets no such variable.
    ("", &["pngpaste", "-"]),
];

/// Writes the picture to a file that goes with the outputs of tools, after some days, and returns its path.
///
/// # Errors
///
/// A sentence, where there is no picture or no program that shows it.
pub async fn picture(environment: &Environment) -> Result<PathBuf, String> {
    let mut missing = Vec::new();
    let is_there = |variable: &str| match variable {
        "" => cfg!(target_os = "macos"),
        _ => environment.get(variable).is_some_and(|value| !value.is_empty()),
    };
    for (_, words) in PRINTERS.iter().filter(|(variable, _)| is_there(variable)) {
        let args: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
        let spawn = process::Spawn {
            program: words[0].as_ref(),
            args: &args,
            directory: "/".as_ref(),
            environment: &BTreeMap::new(),
            without: &[],
            stdin: false,
            is_parent: true,
        };
        match timeout(LIMIT, process::output(&spawn, MAX_BYTES + 1)).await {
            Ok(Ok(bytes)) if bytes.len() as u64 > MAX_BYTES => {
                return Err(format!("The clipboard's picture has more than {} MB.", MAX_BYTES >> 20));
            }
            Ok(Ok(bytes)) if mime::of_bytes(&bytes).is_some_and(|it| it.starts_with("image/")) => {
                return write(environment, &bytes)
                    .map_err(|error| format!("The clipboard's picture cannot be kept: {error}."));
            }
            Ok(Ok(_)) => return Err("There is no picture in the clipboard.".to_owned()),
            Ok(Err(_)) => missing.push(words[0]),
            Err(_) => return Err(format!("{} does not answer.", words[0])),
        }
    }
    Err(match missing.as_slice() {
        [] => "The clipboard cannot be reached from here; drop a picture on the terminal, or type its path."
            .to_owned(),
        missing => format!("Pictures are pasted by {}, which is not installed.", missing.join(" or ")),
    })
}

fn write(environment: &Environment, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let directory = Paths::new(environment).tool_output();
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let path = directory.join(format!("tool_clipboard-{}.png", clock::now_ms()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(bytes)?;
    Ok(path)
}
