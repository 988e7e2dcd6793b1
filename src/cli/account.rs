//! `windlass account` and `windlass audit`: the people of this machine's server, for its administrator at the machine itself.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_accounts::{Account, AccountChange, Accounts, AccountsError, AuditEntry, Kind, Role};
use windlass_base::{
    blocking::blocking,
    clock::{Zone, now_ms},
    path::real,
};
use windlass_core::config::{Environment, layers, paths::Paths};
use windlass_engine::Engine;

use super::{
    options::{Format, FormatArgs},
    output, people, runtime,
};

/// Rows of the audit that are shown without a number.
const USUAL_ROWS: u32 = 100;
const DAY: i64 = 24 * 3_600_000;

#[derive(Debug, Args)]
pub struct AccountArgs {
    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Debug, Subcommand)]
enum AccountCommand {
    /// List the accounts.
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Make an account, and a link by which its person logs in once.
    Invite {
        /// The person's name.
        name: String,
        /// reader, member or admin.
        #[arg(long, value_name = "ROLE", default_value = "member", value_parser = role)]
        role: Role,
        /// Directory that it may open, with all below; may be repeated.
        #[arg(long, value_name = "DIRECTORY")]
        dir: Vec<PathBuf>,
    },
    /// Make another link by which the person of an account logs in once.
    Link {
        /// Id or name.
        account: String,
    },
    /// Change an account.
    Change {
        /// Id or name.
        account: String,
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// reader, member or admin.
        #[arg(long, value_name = "ROLE", value_parser = role)]
        role: Option<Role>,
        /// Directory that it may open, with all below, in place of those up to now; may be repeated.
        #[arg(long, value_name = "DIRECTORY")]
        dir: Vec<PathBuf>,
    },
    /// End all tokens and logins of an account.
    Logout {
        /// Id or name.
        account: String,
    },
    /// Remove an account: its work is stopped, and its sessions stay for nobody.
    Remove {
        /// Id or name.
        account: String,
    },
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Rows of this account alone, by id or name.
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// Rows of the last days.
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// Number of rows, the newest.
    #[arg(long, value_name = "ROWS", default_value_t = USUAL_ROWS)]
    limit: u32,
    /// Print JSON, a line for each row.
    #[arg(long)]
    json: bool,
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "a role is reader, member or admin".to_owned())
}

pub fn run(environment: Environment, args: AccountArgs) -> ExitCode {
    let format = match &args.command {
        AccountCommand::List { format } => format.get(),
        AccountCommand::Invite { .. }
        | AccountCommand::Link { .. }
        | AccountCommand::Change { .. }
        | AccountCommand::Logout { .. }
        | AccountCommand::Remove { .. } => Format::Text,
    };
    with_accounts(environment, move |accounts, url| {
        answer(accounts, url, args.command, format).map(|words| output::print_answer(&words))
    })
}

/// Opens the accounts, and does some work with them beside the runtime, with the server's address.
fn with_accounts(
    environment: Environment,
    work: impl FnOnce(&Accounts, &str) -> Result<ExitCode, AccountsError> + Send + 'static,
) -> ExitCode {
    let paths = Paths::new(&environment);
    let url = layers::of_user(&environment, &paths).settings.windlass.accounts.url.unwrap_or_default();
    let done = async move {
        let engine = Engine::new(environment, paths.clone());
        let accounts = people::open(&engine, &paths).await?;
        blocking(move || work(&accounts, url.trim_end_matches('/'))).await
    };
    runtime::block_on(async { done.await.unwrap_or_else(|error| output::fail(&error.to_string())) })
}

fn answer(
    accounts: &Accounts,
    url: &str,
    command: AccountCommand,
    format: Format,
) -> Result<String, AccountsError> {
    let link = |account: &Account| -> Result<String, AccountsError> {
        let link = accounts.invite(account, url)?;
        Ok(if url.is_empty() {
            format!("Behind the server's address (windlass.accounts.url is not set): {link}")
        } else {
            link
        })
    };
    let mut detail = String::new();
    let (entry, account, words) = match command {
        AccountCommand::List { .. } => return Ok(listed(accounts, format)),
        AccountCommand::Invite { name, role, dir } => {
            let directories = directories(&dir);
            detail = format!("{} {}", role.name(), directories.join(" "));
            let account = accounts.create("invitation", None, &name, role, directories)?;
            let words = link(&account)?;
            ("account invite", account, words)
        }
        AccountCommand::Link { account } => {
            let account = accounts.named(&account)?;
            let words = link(&account)?;
            ("account link", account, words)
        }
        AccountCommand::Change { account, name, role, dir } => {
            let account = accounts.named(&account)?;
            let directories = (!dir.is_empty()).then(|| directories(&dir));
            let words = [
                name.clone(),
                role.map(|it| it.name().to_owned()),
                directories.as_ref().map(|it| it.join(" ")),
            ];
            detail = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let account = accounts.update(&account.id, AccountChange { name, role, directories })?;
            ("account change", account, "It is changed.".to_owned())
        }
        AccountCommand::Logout { account } => {
            let account = accounts.named(&account)?;
            accounts.revoke_all(&account.id)?;
            ("account logout", account, "All its tokens and logins have ended.".to_owned())
        }
        AccountCommand::Remove { account } => {
            let account = accounts.named(&account)?;
            accounts.remove(&account.id)?;
            ("account remove", account, "It is removed.".to_owned())
        }
    };
    let entry =
        AuditEntry { name: "(this machine)".to_owned(), ..AuditEntry::new(None, entry, account.id.as_str()) };
    let detail = if detail.is_empty() { account.name } else { format!("{}: {detail}", account.name) };
    accounts.note(&entry.with(&detail))?;
    Ok(words)
}

/// Returns directories as requests name them: absolute, and without links.
fn directories(given: &[PathBuf]) -> Vec<String> {
    let absolute = given.iter().map(|it| std::path::absolute(it).unwrap_or_else(|_| it.clone()));
    absolute.map(|it| real(&it).display().to_string()).collect()
}

fn listed(accounts: &Accounts, format: Format) -> String {
    let list = accounts.list();
    match format {
        Format::Json => format!("{:#}", json!(list)),
        Format::Text if list.is_empty() => {
            "There are no accounts; `windlass account invite NAME` makes one.".to_owned()
        }
        Format::Text => {
            let mut rows = vec![["NAME", "ROLE", "LOGIN", "TOKENS", "ID", "DIRECTORIES"].map(str::to_owned)];
            rows.extend(list.iter().map(|it| {
                let n_tokens = accounts.credentials(&it.id, Kind::Token).len().to_string();
                let directories = it.directories.join(" ");
                [
                    it.name.clone(),
                    it.role.name().to_owned(),
                    it.provider.clone(),
                    n_tokens,
                    it.id.to_string(),
                    directories,
                ]
            }));
            table(&rows)
        }
    }
}

pub fn audit(environment: Environment, args: AuditArgs) -> ExitCode {
    let since = args.days.map_or(0, |days| now_ms() - i64::from(days) * DAY);
    with_accounts(environment, move |accounts, _| {
        let entries = accounts.entries(args.account.as_deref(), since, args.limit)?;
        if args.json {
            let lines: Vec<String> = entries.iter().map(|it| json!(it).to_string()).collect();
            return Ok(output::print_answer(&lines.join("\n")));
        }
        let mut rows = vec![["TIME", "ACCOUNT", "ACTION", "SUBJECT", "DETAIL", "ADDRESS"].map(str::to_owned)];
        let zone = Zone::local();
        rows.extend(
            entries
                .into_iter()
                .map(|it| [zone.full(it.time), it.name, it.action, it.subject, it.detail, it.address]),
        );
        Ok(output::print_answer(&table(&rows)))
    })
}

/// Returns rows with their columns one below the other.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| output::plain(cell))).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<String>>().join("\n")
}
