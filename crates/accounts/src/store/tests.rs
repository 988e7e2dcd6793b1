//! The store keeps accounts and their things, and lets nobody do more than is theirs.

use windlass_base::{clock::now_ms, ids};
use windlass_protocol::opencode::id::SessionId;

use super::{
    credentials::MAX_COOKIES,
    sessions::{Grant, PageLink},
    *,
};
use crate::{
    account::{Level, Scope, Visitor},
    audit::AuditEntry,
    credential::{Kind, NewCredential},
};

const HOUR: i64 = 3_600_000;

struct Scene {
    scratch: tempfile::TempDir,
    accounts: Accounts,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(&scratch.path().join("accounts.db")).unwrap();
        Self { scratch, accounts }
    }

    /// Opens the same file once more, as another process does.
    fn again(&self) -> Accounts {
        Accounts::open(&self.scratch.path().join("accounts.db")).unwrap()
    }

    fn person(&self, name: &str, role: Role) -> (AccountId, String, Visitor) {
        let id = self.accounts.create("invitation", None, name, role, vec!["/srv".to_owned()]).unwrap().id;
        let secret = self.accounts.issue(&id, token("program", Scope::Admin)).unwrap();
        let visitor = self.accounts.visitor(&secret).unwrap().0;
        (id, secret, visitor)
    }
}

fn token(name: &str, scope: Scope) -> NewCredential {
    NewCredential { kind: Kind::Token, name: name.to_owned(), scope, ends: now_ms() + HOUR }
}

fn session() -> SessionId {
    ids::session()
}

fn given(account: Option<&AccountId>, level: Level) -> Grant {
    Grant { account: account.cloned(), level, ends: None }
}

#[test]
fn a_token_is_known_until_it_ends_or_is_revoked_and_its_secret_is_nowhere() {
    let scene = Scene::new();
    let (id, secret, _) = scene.person("Ada", Role::Member);
    assert!(secret.starts_with("wlt_") && secret.len() == 44);
    for wrong in ["", "wlt_", &secret[1..], &format!("{secret}x"), &secret.to_lowercase()] {
        assert_eq!(scene.accounts.visitor(wrong), None);
    }
    let over = NewCredential { ends: now_ms(), ..token("over", Scope::Admin) };
    let over = scene.accounts.issue(&id, over).unwrap();
    assert_eq!(scene.accounts.visitor(&over), None);
    let files = std::fs::read_dir(scene.scratch.path()).unwrap();
    for file in files.map(|it| it.unwrap().path()).filter(|it| it.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(secret.len()).any(|it| it == secret.as_bytes()), "{}", file.display());
    }
    assert!(scene.accounts.revoke(&id, "program").unwrap());
    assert_eq!(scene.accounts.visitor(&secret), None);
    assert!(!scene.accounts.revoke(&id, "program").unwrap());
}

#[test]
fn a_change_by_another_process_holds_with_the_next_look() {
    let scene = Scene::new();
    let (id, secret, visitor) = scene.person("Ada", Role::Member);
    let other = scene.again();
    assert!(other.visitor(&secret).is_some());
    other.update(&id, AccountChange { role: Some(Role::Reader), ..AccountChange::default() }).unwrap();
    scene.accounts.refresh().unwrap();
    assert_eq!(scene.accounts.again(&visitor).unwrap().role, Role::Reader);
    other.remove(&id).unwrap();
    scene.accounts.refresh().unwrap();
    assert_eq!(scene.accounts.visitor(&secret), None);
    assert_eq!(scene.accounts.again(&visitor), None);
    // An account that another process has removed gets no token.
    let late = scene.accounts.issue(&id, token("late", Scope::Read));
    assert_eq!(late, Err(AccountsError::Unknown(id.to_string())));
}

#[test]
fn a_session_is_for_its_owner_and_for_those_that_it_is_shared_with_up_to_their_role() {
    let scene = Scene::new();
    let (ada, _, by_ada) = scene.person("Ada", Role::Member);
    let (ben, _, by_ben) = scene.person("Ben", Role::Member);
    let (_, _, by_reader) = scene.person("Rex", Role::Reader);
    let (_, _, by_admin) = scene.person("Root", Role::Admin);
    let (one, below, unowned) = (session(), session(), session());
    scene.accounts.own(&one, &ada).unwrap();
    scene.accounts.note_below(&below, &one);
    let level = |visitor: &Visitor, id: &SessionId| scene.accounts.level(visitor, id);
    assert_eq!([level(&by_ada, &one), level(&by_ada, &below)], [Some(Level::Own); 2]);
    assert_eq!([level(&by_ben, &one), level(&by_reader, &one), level(&by_admin, &one)], [None; 3]);
    // From before there were accounts.
    assert_eq!([level(&by_admin, &unowned), level(&by_ada, &unowned)], [Some(Level::Own), None]);
    let scoped = Visitor { scope: Scope::Answer, ..by_ada.clone() };
    assert_eq!(level(&scoped, &one), Some(Level::Answer));

    scene.accounts.grant(&one, &given(Some(&ben), Level::Prompt)).unwrap();
    scene.accounts.grant(&one, &given(None, Level::Answer)).unwrap();
    assert_eq!(level(&by_ben, &below), Some(Level::Prompt));
    assert_eq!([level(&by_reader, &one), level(&by_admin, &one)], [Some(Level::Read), Some(Level::Answer)]);
    assert_eq!(scene.again().shared_with(&by_ben), [(one.clone(), Level::Prompt, ada.clone())]);
    let over = Grant { ends: Some(now_ms()), ..given(Some(&ben), Level::Prompt) };
    scene.accounts.grant(&one, &over).unwrap();
    assert_eq!(level(&by_ben, &one), Some(Level::Answer));
    assert!(scene.accounts.withdraw(&one, None).unwrap());
    assert_eq!([level(&by_ben, &one), level(&by_reader, &one)], [None; 2]);
    scene.accounts.forget(&one).unwrap();
    assert_eq!(level(&by_ada, &one), None);
    // Somebody's session cannot become another one's.
    scene.accounts.own(&one, &ada).unwrap();
    assert!(scene.accounts.own(&one, &ben).is_err());
}

#[test]
fn a_link_is_followed_once() {
    let scene = Scene::new();
    let (id, _, _) = scene.person("Ada", Role::Member);
    let link = NewCredential { kind: Kind::Link, ..token("link", Scope::Admin) };
    let secret = scene.accounts.issue(&id, link).unwrap();
    assert_eq!(scene.accounts.visitor(&secret), None);
    assert_eq!(scene.accounts.link_of(&secret).unwrap().id, id);
    let other = scene.again();
    assert_eq!(other.follow(&secret).unwrap().unwrap().id, id);
    assert_eq!(scene.accounts.follow(&secret).unwrap(), None);
    assert_eq!(other.follow(&secret).unwrap(), None);
}

#[test]
fn a_browser_gets_a_new_cookie_once_and_the_old_one_ends() {
    let scene = Scene::new();
    let (id, _, _) = scene.person("Ada", Role::Member);
    let cookie = || NewCredential { kind: Kind::Cookie, ..token("browser", Scope::Admin) };
    let old = scene.accounts.issue(&id, cookie()).unwrap();
    let new = scene.accounts.rotate(&old, cookie(), now_ms() + HOUR / 2).unwrap().unwrap();
    assert_eq!(scene.accounts.rotate(&old, cookie(), now_ms() + HOUR / 2).unwrap(), None);
    assert!(scene.accounts.visitor(&old).is_some() && scene.accounts.visitor(&new).is_some());
    for _ in 0..MAX_COOKIES {
        scene.accounts.issue(&id, cookie()).unwrap();
    }
    assert_eq!(scene.accounts.visitor(&old), None);
    assert_eq!(scene.accounts.credentials(&id, Kind::Cookie).len() as i64, MAX_COOKIES);
}

#[test]
fn names_are_visible_and_a_person_has_one_account() {
    let scene = Scene::new();
    let create = |subject: &str, name: &str| {
        scene.accounts.create("idp", Some(subject), name, Role::Member, Vec::new())
    };
    let account = create("1", "Ev\u{1b}[31me\nx").unwrap();
    assert!(!account.name.contains(['\u{1b}', '\n']), "{}", account.name);
    assert_eq!(create("1", "Eve"), Err(AccountsError::Taken("Eve".to_owned())));
    assert_eq!(create("2", " "), Err(AccountsError::NoName));
    create("3", "Ann").unwrap();
    create("4", "Ann").unwrap();
    assert_eq!(scene.accounts.named("Ann"), Err(AccountsError::Ambiguous("Ann".to_owned())));
    assert_eq!(scene.accounts.of_person("idp", "1").unwrap().id, account.id);
    assert_eq!(scene.accounts.of_person("other", "1"), None);
}

#[test]
fn a_page_has_one_key_until_it_is_taken_back_or_its_time_is_over() {
    let scene = Scene::new();
    let one = session();
    let page = PageLink { session: one.clone(), needs_login: false, ends: None };
    let key = scene.accounts.make_page(&page).unwrap();
    assert_eq!(scene.accounts.make_page(&page).unwrap(), key);
    assert_eq!(scene.again().page(&key), Some(page.clone()));
    scene.accounts.make_page(&PageLink { ends: Some(now_ms()), ..page.clone() }).unwrap();
    assert_eq!(scene.accounts.page(&key), None);
    assert!(scene.accounts.drop_page(&one).unwrap());
    assert_ne!(scene.accounts.make_page(&page).unwrap(), key);
    assert_eq!(scene.accounts.page(&key), None);
}

#[test]
fn the_last_administrator_stays() {
    let scene = Scene::new();
    let (root, _, _) = scene.person("Root", Role::Admin);
    let (ada, _, _) = scene.person("Ada", Role::Member);
    let role = |role| AccountChange { role: Some(role), ..AccountChange::default() };
    let refused = Err(AccountsError::LastAdministrator("Root".to_owned()));
    assert_eq!(scene.accounts.update(&root, role(Role::Member)), refused);
    assert_eq!(scene.accounts.remove(&root), Err(AccountsError::LastAdministrator("Root".to_owned())));
    scene.accounts.update(&ada, role(Role::Admin)).unwrap();
    scene.accounts.update(&root, role(Role::Member)).unwrap();
    scene.accounts.remove(&root).unwrap();
}

#[test]
fn the_audit_is_added_to_and_never_changed() {
    let scene = Scene::new();
    let (_, _, ada) = scene.person("Ada", Role::Member);
    for n in 0..3 {
        scene.accounts.note(&AuditEntry::new(Some(&ada), "login", &n.to_string()).with("by\nhand")).unwrap();
    }
    scene.accounts.note(&AuditEntry::new(None, "refused", "")).unwrap();
    let entries = scene.accounts.entries(Some("Ada"), 0, 2).unwrap();
    assert_eq!(entries.iter().map(|it| it.subject.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(!entries[0].detail.contains('\n'));
    let changed = scene
        .accounts
        .with_connection(|connection| Ok(connection.execute("UPDATE audit SET name = 'Eve'", [])?));
    assert!(changed.is_err());
    assert_eq!(scene.accounts.entries(None, 0, 10).unwrap().len(), 4);
}

#[test]
fn a_file_of_a_newer_windlass_is_left_alone() {
    let scene = Scene::new();
    let file = scene.scratch.path().join("accounts.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let refused = Accounts::open(&file).unwrap_err().to_string();
    assert!(refused.contains("newer windlass"), "{refused}");
}

#[test]
fn a_person_whose_account_was_removed_gets_no_other_by_the_same_login() {
    let scene = Scene::new();
    let id = scene.accounts.create("sso", Some("ada-1"), "Ada", Role::Member, Vec::new()).unwrap().id;
    assert!(!scene.accounts.is_removed("sso", "ada-1"));
    scene.accounts.remove(&id).unwrap();
    for accounts in [&scene.accounts, &scene.again()] {
        assert!(accounts.is_removed("sso", "ada-1"));
        assert!(!accounts.is_removed("other", "ada-1"));
    }
}

#[test]
fn costs_add_up_for_each_account_and_count_for_a_day() {
    let scene = Scene::new();
    let (ada, _, _) = scene.person("Ada", Role::Member);
    let (bob, _, _) = scene.person("Bob", Role::Member);
    scene.accounts.spend(&ada, 1.5).unwrap();
    scene.accounts.spend(&ada, 0.25).unwrap();
    for accounts in [&scene.accounts, &scene.again()] {
        assert_eq!((accounts.spent(&ada), accounts.spent(&bob)), (1.75, 0.0));
    }
    let other = rusqlite::Connection::open(scene.scratch.path().join("accounts.db")).unwrap();
    other.execute("UPDATE spent SET hour = hour - 24", []).unwrap();
    scene.accounts.refresh().unwrap();
    assert_eq!(scene.accounts.spent(&ada), 0.0);
}

#[test]
fn a_login_is_renewed_with_the_newest_token_when_its_time_has_come() {
    let scene = Scene::new();
    let (ada, _, _) = scene.person("Ada", Role::Member);
    scene.accounts.renew_later(&ada, None).unwrap();
    scene.accounts.renew_later(&ada, Some("first")).unwrap();
    scene.accounts.renew_later(&ada, Some("second")).unwrap();
    scene.accounts.renew_later(&ada, None).unwrap();
    assert_eq!(scene.accounts.take_due().unwrap().len(), 0);
    let other = rusqlite::Connection::open(scene.scratch.path().join("accounts.db")).unwrap();
    other.execute("UPDATE renewal SET due = 0", []).unwrap();
    scene.accounts.refresh().unwrap();
    let due = scene.accounts.take_due().unwrap();
    assert_eq!(due.into_iter().map(|(_, token)| token).collect::<Vec<String>>(), ["second"]);
    assert_eq!(scene.again().take_due().unwrap().len(), 0, "another server does not ask as well");
    scene.accounts.revoke_all(&ada).unwrap();
    assert_eq!(scene.accounts.take_due().unwrap().len(), 0);
}
