//! The pages of accounts: without scripts, and every text of a person escaped. Pure.

use std::fmt::Write;

use windlass_accounts::{Account, Kind, Level, Role, Visitor};
use windlass_base::{clock::Zone, text::visible_line};
use windlass_protocol::opencode::id::SessionId;

use crate::http::team::Team;

const STYLE: &str = include_str!("page.css");

/// A session of somebody else.
pub struct SharedSession {
    pub id: SessionId,
    pub title: String,
    pub level: Level,
    pub owner: String,
}

/// A session that is shared with others.
pub struct OwnSession {
    pub id: SessionId,
    pub title: String,
    /// The id and the name of each account, and its use of the session.
    pub with: Vec<((String, String), Level)>,
    /// The address of its page.
    pub page: Option<String>,
    /// Names of the accounts that hear of it just now.
    pub watching: Vec<String>,
}

/// The outcome of a form, and the program that asks to be let in.
#[derive(Debug, Default)]
pub struct Said {
    /// A token or a link, which is shown once.
    pub secret: Option<String>,
    pub words: Option<String>,
    pub code: Option<String>,
}

/// Writes a text so that it is nothing but text.
fn text(words: &str) -> String {
    let mut out = String::new();
    for letter in visible_line(words).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

fn page(title: &str, body: &str, nonce: &str) -> String {
    page_with(title, "", body, nonce)
}

fn page_with(title: &str, head: &str, body: &str, nonce: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">{head}\
         <title>{title}</title><style nonce=\"{nonce}\">{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// Draws the ways to log in.
pub fn login(team: &Team, back: &str, nonce: &str) -> String {
    let mut body = "<h1>Log in</h1>".to_owned();
    let back = percent_encoding::utf8_percent_encode(back, percent_encoding::NON_ALPHANUMERIC).to_string();
    for (id, name) in team.logins.providers() {
        _ = write!(
            body,
            "<p><a class=\"button\" href=\"/account/login/{}?back={back}\">{}</a></p>",
            text(id),
            text(name)
        );
    }
    body.push_str("<p class=\"note\">If somebody has sent you a link of this server, follow it.</p>");
    page("Log in", &body, nonce)
}

/// Draws the reason for which nobody was logged in.
pub fn failed(reason: &str, nonce: &str) -> String {
    let body =
        format!("<h1>Not logged in</h1><p>{}</p><p><a href=\"/account\">Try again</a></p>", text(reason));
    page("Not logged in", &body, nonce)
}

/// Draws a link's account, with the button that uses it up.
pub fn link(account: &Account, key: &str, nonce: &str) -> String {
    let body = format!(
        "<h1>Log in as {}</h1><form method=\"post\" action=\"/account/enter\"><input type=\"hidden\" name=\"key\" value=\"{}\">\
         <p class=\"note\">This link works once.</p><button>Log in</button></form>",
        text(&account.name),
        text(key)
    );
    page("Log in", &body, nonce)
}

/// Draws the step behind a login, which a browser takes by itself.
pub fn entered(name: &str, back: &str, nonce: &str) -> String {
    let head = format!("<meta http-equiv=\"refresh\" content=\"0;url={}\">", text(back));
    let body = format!("<h1>Logged in as {}</h1><p><a href=\"{}\">Go on</a></p>", text(name), text(back));
    page_with("Logged in", &head, &body, nonce)
}

/// Draws the step behind a logout, by which a browser logs out at its provider as well.
pub fn left(next: &str, nonce: &str) -> String {
    let head = format!("<meta http-equiv=\"refresh\" content=\"0;url={}\">", text(next));
    let body =
        format!("<h1>Logged out</h1><p><a href=\"{}\">Log out at the provider, too</a></p>", text(next));
    page_with("Logged out", &head, &body, nonce)
}

/// Draws an account: its programs, tokens, sessions of others, and the team for administrators.
pub fn account(
    team: &Team,
    visitor: &Visitor,
    (own, sessions): (&[OwnSession], &[SharedSession]),
    said: &Said,
    nonce: &str,
) -> String {
    let mut body = format!("<h1>{}</h1><p>{}.", text(&visitor.name), role_words(visitor.role));
    for directory in &visitor.directories {
        _ = write!(body, " <code>{}</code>", text(directory));
    }
    body.push_str("</p>");
    if visitor.role >= Role::Member {
        // A member may not open the server's own directory.
        let directory = visitor.directories.first().map_or_else(String::new, |directory| {
            let directory =
                percent_encoding::utf8_percent_encode(directory, percent_encoding::NON_ALPHANUMERIC);
            format!("?directory={directory}")
        });
        _ = write!(body, "<p><a class=\"button\" href=\"/{directory}\">Sessions</a></p>");
    }
    if let Some(words) = &said.words {
        _ = write!(body, "<p class=\"said\">{}</p>", text(words));
    }
    if let Some(secret) = &said.secret {
        _ = write!(
            body,
            "<p class=\"said\">Copy this now, it is not shown again:</p><pre class=\"secret\">{}</pre>",
            text(secret)
        );
    }
    device(&mut body, team, said.code.as_deref());
    shared_by(&mut body, own);
    shared(&mut body, sessions);
    tokens(&mut body, team, visitor);
    if visitor.role >= Role::Member {
        keys(&mut body, team, visitor);
    }
    if visitor.is_admin() {
        people(&mut body, team, visitor);
    }
    body.push_str(
        "<form method=\"post\" action=\"/account/logout\"><button class=\"quiet\">Log out</button></form>",
    );
    page("Account", &body, nonce)
}

fn role_words(role: Role) -> &'static str {
    match role {
        Role::Reader => "You read the sessions that are shared with you",
        Role::Member => "You have sessions of your own, in these directories:",
        Role::Admin => "You are an administrator",
    }
}

fn device(body: &mut String, team: &Team, code: Option<&str>) {
    body.push_str("<h2>Programs</h2>");
    let Some(code) = code else {
        body.push_str(
            "<form method=\"get\" action=\"/account\"><label>Code of <code>windlass login</code> \
             <input name=\"code\" autocomplete=\"off\" maxlength=\"12\"></label><button>Look it up</button></form>",
        );
        return;
    };
    let Some((name, address)) = team.devices.waiting(code) else {
        body.push_str("<p>No program waits with this code; run <code>windlass login</code> again.</p>");
        return;
    };
    _ = write!(
        body,
        "<form method=\"post\" action=\"/account\"><input type=\"hidden\" name=\"code\" value=\"{}\">\
         <p>A program on {} at {} asks for a token of yours. Let it in only if you have started it yourself just now, and it shows \
         the code <strong>{}</strong>.</p><button name=\"action\" value=\"confirm\">Let it in</button> \
         <button class=\"quiet\" name=\"action\" value=\"refuse\">Refuse</button></form>",
        text(code),
        text(&name),
        text(&address),
        text(&code.to_uppercase())
    );
}

fn use_words(level: Level) -> &'static str {
    match level {
        Level::Read => "to read",
        Level::Answer => "to read and answer",
        Level::Prompt | Level::Own => "to work in",
    }
}

fn shared_by(body: &mut String, sessions: &[OwnSession]) {
    if sessions.is_empty() {
        return;
    }
    body.push_str("<h2>Shared by you</h2><ul>");
    for it in sessions {
        let id = text(it.id.as_str());
        _ = write!(body, "<li><a href=\"/page/session/{id}\">{}</a>", text(&it.title));
        if !it.watching.is_empty() {
            _ = write!(body, " <span class=\"note\">watched by {}</span>", text(&it.watching.join(", ")));
        }
        let row = |account: &str, words: &str| {
            format!(
                "<form method=\"post\" action=\"/account\"><input type=\"hidden\" name=\"id\" value=\"{id}\">\
                 <input type=\"hidden\" name=\"account\" value=\"{}\">{words} \
                 <button class=\"quiet\" name=\"action\" value=\"withdraw\">Take back</button></form>",
                text(account)
            )
        };
        for ((account, name), level) in &it.with {
            body.push_str(&row(account, &format!("{}, {}", text(name), use_words(*level))));
        }
        if let Some(page) = &it.page {
            body.push_str(&row("page", &format!("everybody with <a href=\"{0}\">{0}</a>", text(page))));
        }
        body.push_str("</li>");
    }
    body.push_str("</ul>");
}

fn shared(body: &mut String, sessions: &[SharedSession]) {
    if sessions.is_empty() {
        return;
    }
    body.push_str("<h2>Shared with you</h2><ul>");
    for it in sessions {
        let use_of = use_words(it.level);
        _ = write!(
            body,
            "<li><a href=\"/page/session/{id}\">{title}</a> of {owner}, {use_of} <code>{id}</code></li>",
            id = text(it.id.as_str()),
            title = text(&it.title),
            owner = text(&it.owner)
        );
    }
    body.push_str("</ul>");
}

fn tokens(body: &mut String, team: &Team, visitor: &Visitor) {
    body.push_str("<h2>Tokens</h2><table>");
    for it in team.accounts.credentials(&visitor.account, Kind::Token) {
        _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td><td>until {}</td><td><form method=\"post\" action=\"/account\">\
             <input type=\"hidden\" name=\"id\" value=\"{}\"><button class=\"quiet\" name=\"action\" value=\"revoke\">Revoke</button>\
             </form></td></tr>",
            text(&it.name),
            it.scope.name(),
            text(&Zone::local().full(it.ends)),
            text(&it.id)
        );
    }
    body.push_str(
        "</table><form method=\"post\" action=\"/account\"><label>Name <input name=\"name\" required maxlength=\"100\"></label>\
         <label>Good for <select name=\"scope\"><option value=\"read\">reading</option><option value=\"answer\">answering questions\
         </option><option value=\"work\" selected>working</option><option value=\"admin\">administration</option></select></label>\
         <label>Days <input name=\"days\" type=\"number\" min=\"1\" max=\"365\" value=\"90\"></label>\
         <button name=\"action\" value=\"token\">Make a token</button></form>",
    );
}

fn keys(body: &mut String, team: &Team, visitor: &Visitor) {
    body.push_str("<h2>Keys of providers</h2><table>");
    for provider in team.accounts.providers_of(&visitor.account) {
        _ = write!(
            body,
            "<tr><td>{0}</td><td><form method=\"post\" action=\"/account\"><input type=\"hidden\" name=\"provider\" value=\"{0}\">\
             <button class=\"quiet\" name=\"action\" value=\"key\">Remove</button></form></td></tr>",
            text(&provider)
        );
    }
    body.push_str(
        "</table><form method=\"post\" action=\"/account\"><label>Provider <input name=\"provider\" required maxlength=\"100\"></label>\
         <label>Key <input name=\"key\" type=\"password\" required autocomplete=\"off\"></label>\
         <button name=\"action\" value=\"key\">Use it in my sessions</button></form>",
    );
}

fn people(body: &mut String, team: &Team, visitor: &Visitor) {
    body.push_str("<h2>Team</h2>");
    for it in team.accounts.list() {
        _ = write!(
            body,
            "<form method=\"post\" action=\"/account\" class=\"person\"><input type=\"hidden\" name=\"id\" value=\"{id}\">\
             <strong>{name}</strong> <span class=\"note\">{provider}</span> {roles}\
             <label>Directories <textarea name=\"directories\" rows=\"2\">{directories}</textarea></label>\
             <button name=\"action\" value=\"change\">Change</button> \
             <button class=\"quiet\" name=\"action\" value=\"link\">Login link</button>",
            id = text(it.id.as_str()),
            name = text(&it.name),
            provider = text(&it.provider),
            roles = roles(it.role),
            directories = it.directories.iter().map(|it| text(it)).collect::<Vec<_>>().join("\n"),
        );
        if it.id != visitor.account {
            body.push_str(" <button class=\"quiet\" name=\"action\" value=\"remove\">Remove</button>");
        }
        body.push_str("</form>");
    }
    _ = write!(
        body,
        "<h2>Invite</h2><form method=\"post\" action=\"/account\"><label>Name <input name=\"name\" required maxlength=\"100\"></label>{}\
         <label>Directories, a line each <textarea name=\"directories\" rows=\"2\"></textarea></label>\
         <button name=\"action\" value=\"invite\">Make a link</button></form>",
        roles(Role::Member)
    );
}

fn roles(own: Role) -> String {
    let option = |role: Role| {
        let selected = if role == own { " selected" } else { "" };
        format!("<option{selected}>{}</option>", role.name())
    };
    let options: String = [Role::Reader, Role::Member, Role::Admin].into_iter().map(option).collect();
    format!("<label>Role <select name=\"role\">{options}</select></label>")
}
