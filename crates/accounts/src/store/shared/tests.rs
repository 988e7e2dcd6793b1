//! Servers that share accounts know each other's changes, make theirs one after another, and let nobody in when alone.

use std::sync::{Arc, MutexGuard};

use windlass_base::ids;

use super::*;
use crate::{
    account::{Account, Level, Role, Scope},
    audit::AuditEntry,
    credential::{Kind, NewCredential},
    store::{AccountChange, sessions::Grant},
};

/// Rows as a database keeps them.
#[derive(Default)]
struct Database {
    rows: Vec<Row>,
    last: i64,
    is_gone: bool,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Database>>, Arc<Mutex<()>>);

/// Holds the lock until it is dropped.
struct FakeTurn<'a>(&'a Fake, #[expect(dead_code)] MutexGuard<'a, ()>);

impl SharedRows for Fake {
    fn since(&self, change: i64) -> Result<Vec<Row>, AccountsError> {
        let database = lock(&self.0);
        if database.is_gone {
            return Err(AccountsError::OutOfReach("it is gone".to_owned()));
        }
        Ok(database.rows.iter().filter(|it| it.change > change).cloned().collect())
    }

    fn begin(&self, since: i64) -> Result<(Box<dyn Turn + '_>, Vec<Row>), AccountsError> {
        let turn = FakeTurn(self, lock(&self.1));
        Ok((Box::new(turn), self.since(since)?))
    }

    fn patience(&self) -> Duration {
        if lock(&self.0).is_gone { Duration::ZERO } else { Duration::from_secs(600) }
    }
}

impl Turn for FakeTurn<'_> {
    fn put(self: Box<Self>, rows: Vec<Row>) -> Result<i64, AccountsError> {
        let mut database = lock(&self.0.0);
        let mut last = 0;
        for row in rows {
            database.rows.retain(|it| (&it.table, &it.key) != (&row.table, &row.key));
            database.last += 1;
            last = database.last;
            database.rows.push(Row { change: last, ..row });
        }
        Ok(last)
    }
}

struct Fleet {
    scratch: tempfile::TempDir,
    database: Fake,
}

impl Fleet {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap(), database: Fake::default() }
    }

    fn server(&self, name: &str) -> Accounts {
        let file = self.scratch.path().join(format!("{name}.db"));
        Accounts::open_shared(&file, Box::new(self.database.clone())).unwrap()
    }
}

fn person(at: &Accounts, name: &str) -> Account {
    at.create("invitation", None, name, Role::Member, vec!["/srv".to_owned()]).unwrap()
}

fn token(at: &Accounts, account: &Account) -> String {
    let new = NewCredential {
        kind: Kind::Token,
        name: "t".to_owned(),
        scope: Scope::Work,
        ends: now_ms() + 60_000,
    };
    at.issue(&account.id, new).unwrap()
}

/// Returns the contents of a file, table by table.
fn contents(of: &Accounts) -> Vec<String> {
    let connection = lock(&of.0.connection);
    let mut all = Vec::new();
    for table in TABLES {
        let columns = columns(&connection.0, table).unwrap();
        let quoted =
            columns.iter().map(|it| format!("quote({})", it.name)).collect::<Vec<_>>().join("||','||");
        let mut rows = connection.0.prepare(&format!("SELECT {quoted} FROM {table} ORDER BY 1")).unwrap();
        let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        all.extend(rows.map(|row| format!("{table} {}", row.unwrap())));
    }
    all
}

#[test]
fn each_server_has_what_any_of_them_has_written() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.server("one"), fleet.server("two"));
    let ada = person(&one, "Ada");
    let secret = token(&one, &ada);
    assert_eq!(two.visitor(&secret), None);
    two.catch_up().unwrap();
    assert_eq!(two.visitor(&secret).unwrap().0.account, ada.id);
    // A change goes behind those of the others, whether these are known here or not.
    let session = ids::session();
    one.own(&session, &ada.id).unwrap();
    assert!(two.own(&session, &ada.id).is_err());
    one.grant(&session, &Grant { account: None, level: Level::Answer, ends: None }).unwrap();
    one.spend(&ada.id, 1.5).unwrap();
    two.spend(&ada.id, 0.25).unwrap();
    assert_eq!((two.spent(&ada.id), two.grants(&session).len()), (1.75, 1));
    two.note(&AuditEntry::new(None, "login", "x")).unwrap();
    one.note(&AuditEntry::new(None, "login", "y")).unwrap();
    assert!(two.revoke(&ada.id, "t").unwrap());
    two.update(&ada.id, AccountChange { name: Some("Ada L.".to_owned()), ..AccountChange::default() })
        .unwrap();
    one.catch_up().unwrap();
    assert_eq!(one.visitor(&secret), None);
    assert_eq!(one.get(&ada.id).unwrap().name, "Ada L.");
    assert_eq!(one.entries(None, 0, 10).unwrap().len(), 2);
    two.catch_up().unwrap();
    let late = fleet.server("late");
    assert_eq!(contents(&one), contents(&two));
    assert_eq!(contents(&one), contents(&late));
    assert_eq!([one.head(), two.head()], [late.head(); 2]);
}

#[test]
fn servers_that_change_at_random_agree_in_the_end() {
    let fleet = Fleet::new();
    let servers = [fleet.server("one"), fleet.server("two"), fleet.server("three")];
    let people: Vec<Account> = (0..4).map(|n| person(&servers[0], &format!("P{n}"))).collect();
    let sessions: Vec<_> = (0..6).map(|_| ids::session()).collect();
    let threads = servers.iter().enumerate().map(|(n, server)| {
        let (server, people, sessions) = (server.clone(), people.clone(), sessions.clone());
        std::thread::spawn(move || {
            let mut state = 7 + n as u64;
            let mut next = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            for _ in 0..60 {
                let (account, session) = (&people[next(4)].id, &sessions[next(6)]);
                // A session that has an owner is refused, as it should be.
                match next(7) {
                    0 => drop(server.own(session, account)),
                    1 => server
                        .grant(
                            session,
                            &Grant { account: Some(account.clone()), level: Level::Read, ends: None },
                        )
                        .unwrap(),
                    2 => _ = server.withdraw(session, Some(account)).unwrap(),
                    3 => server.forget(session).unwrap(),
                    4 => server.spend(account, 0.5).unwrap(),
                    5 => server.keep_key(account, "openai", "k").unwrap(),
                    _ => server.catch_up().unwrap(),
                }
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|it| it.join().unwrap());
    for server in &servers {
        server.catch_up().unwrap();
    }
    assert!(contents(&servers[0]).len() > 5);
    assert_eq!(contents(&servers[0]), contents(&servers[1]));
    assert_eq!(contents(&servers[0]), contents(&servers[2]));
    // The memory is the file.
    let again = fleet.server("one");
    for session in &sessions {
        assert_eq!(again.owner(session), servers[0].owner(session));
        let sorted = |of: &Accounts| {
            let mut grants = of.grants(session).iter().map(|it| format!("{it:?}")).collect::<Vec<_>>();
            grants.sort();
            grants
        };
        assert_eq!(sorted(&again), sorted(&servers[0]));
    }
}

#[test]
fn a_server_without_the_database_changes_nothing_and_lets_nobody_in() {
    let fleet = Fleet::new();
    let one = fleet.server("one");
    let ada = person(&one, "Ada");
    let before = contents(&one);
    lock(&fleet.database.0).is_gone = true;
    assert!(matches!(one.revoke_all(&ada.id), Err(AccountsError::OutOfReach(_))));
    assert!(matches!(one.refresh(), Err(AccountsError::OutOfReach(_))));
    assert_eq!(contents(&one), before);
    assert!(one.get(&ada.id).is_some());
}

#[test]
fn the_accounts_of_a_server_alone_come_along_once() {
    let fleet = Fleet::new();
    let file = fleet.scratch.path().join("alone.db");
    let alone = Accounts::open(&file).unwrap();
    let ada = person(&alone, "Ada");
    let secret = token(&alone, &ada);
    let one = fleet.server("one");
    one.adopt(&file).unwrap();
    assert_eq!(one.visitor(&secret).unwrap().0.account, ada.id);
    person(&alone, "Bob");
    let two = fleet.server("two");
    two.adopt(&file).unwrap();
    assert_eq!(two.list().iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["Ada"]);
}

#[test]
fn of_servers_that_start_at_once_one_makes_the_first_administrator() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.server("one"), fleet.server("two"));
    assert!(one.create_first("invitation", "admin").unwrap().is_some());
    assert!(two.create_first("invitation", "admin").unwrap().is_none());
    assert_eq!(two.list().len(), 1);
}

#[test]
fn a_copy_that_was_away_for_long_is_read_anew() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.server("one"), fleet.server("two"));
    let (ada, bob) = (person(&one, "Ada"), person(&one, "Bob"));
    two.catch_up().unwrap();
    drop(two);
    one.remove(&ada.id).unwrap();
    // The database tells of it no more.
    lock(&fleet.database.0).rows.retain(|it| it.value.is_some());
    let file = fleet.scratch.path().join("two.db");
    rusqlite::Connection::open(&file).unwrap().execute("UPDATE head SET seen = 0", []).unwrap();
    let two = fleet.server("two");
    assert_eq!(two.list().into_iter().map(|it| it.id).collect::<Vec<_>>(), [bob.id]);
}
