//! The open files of a language server and the texts that it has, so that it gets their changes.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use serde_json::{Value, json};
use windlass_base::hash;

use super::language::language;

/// Maximum bytes of a file that is sent to a server.
const MAX_TEXT: u64 = 4 << 20;
/// Maximum number of open files of a server; another one closes the least recently used.
const MAX_OPEN: usize = 64;

/// A notification to a server: a method and its parameters.
pub type Notice = (&'static str, Value);

/// The files of one server.
#[derive(Debug, Default)]
pub struct Documents {
    open: BTreeMap<PathBuf, Document>,
    n_uses: u64,
}

#[derive(Debug)]
struct Document {
    version: u32,
    stamp: Stamp,
    content: u64,
    /// The time of the last question, as a count.
    used: u64,
}

/// A file's time of change, length and inode.
type Stamp = (i64, i64, u64, u64);

impl Documents {
    /// Reads the file of a question, and the open files that have changed. Returns the notifications that the
    /// server needs first.
    pub fn refresh(&mut self, path: &Path) -> io::Result<Vec<Notice>> {
        let mut notices = Vec::new();
        let (stamp, text) = read(path)?;
        self.take(path, stamp, &text, &mut notices);
        self.n_uses += 1;
        if let Some(document) = self.open.get_mut(path) {
            document.used = self.n_uses;
        }
        let others: Vec<PathBuf> = self.open.keys().filter(|it| *it != path).cloned().collect();
        for other in others {
            let known = self.open.get(&other).map(|it| it.stamp);
            match fs::metadata(&other).map(|it| stamp_of(&it)) {
                Ok(stamp) if Some(stamp) == known => {}
                Ok(_) | Err(_) => match read(&other) {
                    Ok((stamp, text)) => self.take(&other, stamp, &text, &mut notices),
                    Err(_) => self.close(&other, &mut notices),
                },
            }
        }
        if self.open.len() > MAX_OPEN
            && let Some(oldest) = self.open.iter().min_by_key(|(_, it)| it.used).map(|(path, _)| path.clone())
        {
            self.close(&oldest, &mut notices);
        }
        Ok(notices)
    }

    /// Returns the version of an open file's text.
    pub fn version(&self, path: &Path) -> Option<u32> {
        self.open.get(path).map(|document| document.version)
    }

    fn take(&mut self, path: &Path, stamp: Stamp, text: &str, notices: &mut Vec<Notice>) {
        let Some(uri) = url(path) else { return };
        let content = hash::content(text.as_bytes());
        match self.open.get_mut(path) {
            Some(known) => {
                known.stamp = stamp;
                if known.content != content {
                    (known.content, known.version) = (content, known.version + 1);
                    notices.push(changed_on_disk(&uri, CHANGED));
                    let document = json!({ "uri": uri, "version": known.version });
                    let changes = json!([{ "text": text }]);
                    notices.push((
                        "textDocument/didChange",
                        json!({ "textDocument": document, "contentChanges": changes }),
                    ));
                }
            }
            None => {
                notices.push(changed_on_disk(&uri, CREATED));
                let document =
                    json!({ "uri": uri, "languageId": language(path), "version": 0, "text": text });
                notices.push(("textDocument/didOpen", json!({ "textDocument": document })));
                self.open.insert(path.to_owned(), Document { version: 0, stamp, content, used: 0 });
            }
        }
    }

    fn close(&mut self, path: &Path, notices: &mut Vec<Notice>) {
        self.open.remove(path);
        notices.extend(url(path).map(|uri| {
            let document = json!({ "uri": uri });
            ("textDocument/didClose", json!({ "textDocument": document }))
        }));
    }
}

/// The protocol's codes for changes of a file.
const CREATED: u8 = 1;
pub const CHANGED: u8 = 2;

/// Makes the notification that a file on the disk is new or changed.
pub fn changed_on_disk(uri: &str, kind: u8) -> Notice {
    ("workspace/didChangeWatchedFiles", json!({ "changes": [{ "uri": uri, "type": kind }] }))
}

/// Converts a path to a `file:` URL.
pub fn url(path: &Path) -> Option<String> {
    reqwest::Url::from_file_path(path).ok().map(String::from)
}

fn stamp_of(metadata: &fs::Metadata) -> Stamp {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino())
}

fn read(path: &Path) -> io::Result<(Stamp, String)> {
    // Opening a pipe or a device could block for ever.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_TEXT {
        let message = format!("it is larger than the {} MiB that a language server is given", MAX_TEXT >> 20);
        return Err(io::Error::other(message));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((stamp_of(&metadata), text))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn methods(notices: Vec<Notice>) -> Vec<&'static str> {
        notices
            .into_iter()
            .map(|(method, _)| method)
            .filter(|it| *it != "workspace/didChangeWatchedFiles")
            .collect()
    }

    #[test]
    fn each_text_is_sent_to_a_server_once_and_whole() {
        let directory = TempDir::new().unwrap();
        let (one, two) = (directory.path().join("one.rs"), directory.path().join("two.py"));
        fs::write(&one, "fn one() {}").unwrap();
        fs::write(&two, "two = 2").unwrap();
        let mut documents = Documents::default();
        let opened = documents.refresh(&one).unwrap();
        assert_eq!(opened[0].1["changes"][0]["type"], 1);
        assert_eq!(opened[1].1["textDocument"]["languageId"], "rust");
        assert_eq!(opened[1].1["textDocument"]["text"], "fn one() {}");
        assert_eq!(methods(documents.refresh(&one).unwrap()), Vec::<&str>::new());
        fs::write(&one, "fn won() {}").unwrap();
        let changed = documents.refresh(&one).unwrap();
        assert_eq!(changed[1].1["textDocument"]["version"], 1);
        assert_eq!(changed[1].1["contentChanges"], json!([{"text": "fn won() {}"}]));
        // Changes of one file are also noticed by questions about another.
        fs::write(&one, "fn longer() {}").unwrap();
        let both = documents.refresh(&two).unwrap();
        assert_eq!(methods(both), ["textDocument/didOpen", "textDocument/didChange"]);
        fs::remove_file(&one).unwrap();
        assert_eq!(methods(documents.refresh(&two).unwrap()), ["textDocument/didClose"]);
        assert!(documents.refresh(&one).is_err());
    }

    #[test]
    fn the_number_of_open_files_is_limited() {
        let directory = TempDir::new().unwrap();
        let mut documents = Documents::default();
        for idx in 0..MAX_OPEN + 3 {
            let path = directory.path().join(format!("{idx}.c"));
            fs::write(&path, "int a;").unwrap();
            documents.refresh(&path).unwrap();
        }
        assert_eq!(documents.open.len(), MAX_OPEN);
        assert!(!documents.open.contains_key(&directory.path().join("2.c")));
        assert!(documents.open.contains_key(&directory.path().join("3.c")));
    }

    #[test]
    fn binary_and_large_files_are_not_read() {
        let directory = TempDir::new().unwrap();
        let large = directory.path().join("large.c");
        fs::File::create(&large).unwrap().set_len(MAX_TEXT + 1).unwrap();
        let mut documents = Documents::default();
        let error = |documents: &mut Documents, path| documents.refresh(path).unwrap_err().to_string();
        assert!(error(&mut documents, &large).contains("larger than the 4 MiB"));
        assert!(error(&mut documents, directory.path()).contains("not a regular file"));
        let pipe = directory.path().join("pipe.c");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(error(&mut documents, &pipe).contains("not a regular file"), "nobody writes to it");
    }
}
