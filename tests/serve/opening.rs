//! `windlass web` opens its page in the browser of the user's desktop, and only there.

use std::{fs, os::unix::fs::PermissionsExt};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{scratch::Scratch, terminal::Terminal};

/// Takes the place of the desktop's program, and tells the terminal the address that it was asked to open.
const OPENER: &str =
    "#!/bin/sh\necho \"opened $1 ${OPENCODE_SERVER_PASSWORD:-without a secret}\" > /dev/tty\n";

#[tokio::test]
async fn the_page_is_opened_on_a_desktop_unless_its_user_says_no() {
    let scratch = Scratch::new();
    let programs = scratch.home.join("bin");
    fs::create_dir_all(&programs).unwrap();
    for name in ["xdg-open", "open"] {
        fs::write(programs.join(name), OPENER).unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for (arguments, display, told) in [
        (&["web"][..], ":7", "opened http://127.0.0.1:"),
        (&["web", "--no-open"][..], ":7", "Open this address in a browser"),
        #[cfg(not(target_os = "macos"))]
        (&["web"][..], "", "Open this address in a browser"),
    ] {
        let terminal = Terminal::builder(&scratch, &json!({})).size(120, 24).arguments(arguments);
        let terminal = terminal.env("PATH", &path).env("DISPLAY", display);
        let mut terminal = terminal.env("OPENCODE_SERVER_PASSWORD", "hush").start();
        let screen = terminal.shows_text(told).await;
        assert!(screen.contains("opencode server listening on http://127.0.0.1:"), "{screen}");
        if told.starts_with("opened") {
            terminal.shows_text("without a secret").await;
        } else {
            assert!(!screen.contains("opened"), "{screen}");
        }
        terminal.signal(Signal::SIGTERM);
        terminal.ends_with(0).await;
    }
}
