//! The files `~/.aws/config` and `~/.aws/credentials`.

use std::{collections::BTreeMap, fs, io::ErrorKind};

use super::Account;

/// The settings of a profile.
pub(super) type Profile = BTreeMap<String, String>;

/// All profiles and sign-in sessions.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    profiles: BTreeMap<String, Profile>,
    sessions: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads both files; one that cannot be read counts as empty, and is named in the log unless it is missing. Does
    /// blocking reads.
    pub(super) fn read(account: &Account) -> Profiles {
        let read = |variable, name| {
            let path = account.file(variable, name);
            fs::read_to_string(&path).unwrap_or_else(|error| {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "a file of AWS's settings cannot be read");
                }
                String::new()
            })
        };
        let config = read("AWS_CONFIG_FILE", "config");
        let credentials = read("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        Profiles::parse(&config, &credentials)
    }

    /// The credentials' file overrides the other one.
    pub(super) fn parse(config: &str, credentials: &str) -> Profiles {
        let mut found = Profiles::default();
        for (section, settings) in sections(config) {
            match section.split_once(char::is_whitespace) {
                Some(("profile", name)) => {
                    found.profiles.entry(name.trim().to_owned()).or_default().extend(settings);
                }
                Some(("sso-session", name)) => {
                    found.sessions.entry(name.trim().to_owned()).or_default().extend(settings);
                }
                None if section == "default" => {
                    found.profiles.entry(section).or_default().extend(settings);
                }
                Some(_) | None => {}
            }
        }
        for (section, settings) in sections(credentials) {
            found.profiles.entry(section).or_default().extend(settings);
        }
        found
    }

    pub(super) fn find(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    pub(super) fn session(&self, name: &str) -> Option<&Profile> {
        self.sessions.get(name)
    }
}

/// Reads the sections of a file, with the keys in lower case. Settings of a setting, which are indented, are left out.
fn sections(text: &str) -> Vec<(String, Profile)> {
    let mut sections: Vec<(String, Profile)> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            sections.push((name.0.trim().to_owned(), Profile::new()));
        } else if !line.starts_with([' ', '\t'])
            && let Some((key, value)) = trimmed.split_once('=')
            && let Some((_, settings)) = sections.last_mut()
        {
            // A comment behind a value needs white space before it.
            let value = value.split(" #").next().unwrap_or_default();
            settings.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}
