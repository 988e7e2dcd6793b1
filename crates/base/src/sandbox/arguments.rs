//! A boundary as the arguments of a launcher, and back.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::boundary::{Boundary, Level, Network};
use crate::process::Spawn;

/// Ends the boundary; the directory and the command follow.
const END: &str = "--";

/// Task of a launcher.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub boundary: Boundary,
    pub directory: PathBuf,
    /// The program and its arguments; empty in a probe, and in a launcher that waits for them.
    pub command: Vec<OsString>,
}

pub(super) fn encode(boundary: &Boundary, directory: &Path) -> Vec<OsString> {
    let Boundary { level, network, writable, protected, hidden, shown, sockets } = boundary;
    let mut acc: Vec<OsString> = vec![level.name().into(), network_name(*network).into()];
    let lists = [("w", writable), ("p", protected), ("h", hidden), ("s", shown), ("u", sockets)];
    for (key, paths) in lists {
        acc.extend(paths.iter().map(|path| {
            let mut argument = OsString::from(key);
            argument.push(path);
            argument
        }));
    }
    acc.push(END.into());
    acc.push(directory.into());
    acc
}

/// Returns none for arguments that [`encode`] did not make.
pub(super) fn decode(mut arguments: impl Iterator<Item = OsString>) -> Option<Order> {
    let level = match arguments.next()?.to_str()? {
        "full" => Level::Full,
        "landlock" => Level::Landlock,
        _other => return None,
    };
    let networks = [Network::Allowed, Network::Denied, Network::Loopback, Network::Named];
    let network = arguments.next()?;
    let network = networks.into_iter().find(|it| network == network_name(*it))?;
    let (writable, protected) = (Vec::new(), Vec::new());
    let (hidden, shown, sockets) = (Vec::new(), Vec::new(), Vec::new());
    let mut boundary = Boundary { level, network, writable, protected, hidden, shown, sockets };
    loop {
        let argument = arguments.next()?;
        if argument == END {
            break;
        }
        let (key, path) = argument.as_bytes().split_first()?;
        let list = match key {
            b'w' => &mut boundary.writable,
            b'p' => &mut boundary.protected,
            b'h' => &mut boundary.hidden,
            b's' => &mut boundary.shown,
            b'u' => &mut boundary.sockets,
            _other => return None,
        };
        list.push(PathBuf::from(OsStr::from_bytes(path)));
    }
    let directory = arguments.next()?.into();
    Some(Order { boundary, directory, command: arguments.collect() })
}

/// Encodes the directory, the program and its arguments for a launcher that waits, each with NUL behind it, and one more
/// at the end.
pub(super) fn encode_command(spawn: &Spawn<'_>) -> Vec<u8> {
    let words = [spawn.directory.as_os_str(), spawn.program].into_iter();
    let mut bytes = Vec::new();
    for word in words.chain(spawn.args.iter().map(OsString::as_os_str)) {
        bytes.extend(word.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    bytes
}

/// Returns the directory and the command; none if the end is missing.
pub(super) fn decode_command(bytes: &[u8]) -> Option<(PathBuf, Vec<OsString>)> {
    let words = bytes.strip_suffix(b"\0\0")?;
    let mut words = words.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
    Some((words.next()?.into(), words.collect()))
}

fn network_name(network: Network) -> &'static str {
    match network {
        Network::Allowed => "allow",
        Network::Denied => "deny",
        Network::Loopback => "loopback",
        Network::Named => "named",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_survives_the_way_through_arguments() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let boundary = Boundary {
            level: Level::Full,
            network: Network::Loopback,
            writable: paths(&["/w", "/--"]),
            protected: paths(&["/w/.git/config"]),
            hidden: paths(&["/home/u/.local/share/windlass"]),
            shown: vec![PathBuf::from(OsStr::from_bytes(b"/not\xfftext"))],
            sockets: Vec::new(),
        };
        let command: Vec<OsString> = vec!["sh".into(), "-c".into(), "--".into()];
        let arguments = encode(&boundary, Path::new("/w/d")).into_iter().chain(command.clone());
        let order = decode(arguments).expect("it was encoded");
        assert_eq!(order, Order { boundary, directory: "/w/d".into(), command });
        let spawn = Spawn {
            program: "sh".as_ref(),
            args: &["-c".into(), "".into()],
            directory: Path::new("/w"),
            environment: &Default::default(),
            without: &[],
            stdin: false,
            is_parent: true,
        };
        let words = ["sh", "-c", ""].map(OsString::from).to_vec();
        assert_eq!(decode_command(&encode_command(&spawn)), Some(("/w".into(), words)));
        assert_eq!(decode_command(b"/w\0sh\0"), None);
        assert_eq!(decode(["full", "allow", "x/y", "--", "/"].map(OsString::from).into_iter()), None);
    }
}
