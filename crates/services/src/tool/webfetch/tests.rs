//! Tests of [`super`].

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use windlass_core::{
    config::{policy::Policy, rules::rule},
    permission::{self, Verdict},
};
use windlass_protocol::opencode::permission::{Action, Rule};

use crate::tool::{
    ToolError,
    fake::{Project, one},
};

/// Serves `/1` by a redirect to `/2` and so on down to `/0`, and `/to/X` by a redirect to `X`.
async fn redirecting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let n_bytes = stream.read(&mut request).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..n_bytes]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let answer = match (path.strip_prefix("/to/"), path[1..].parse::<u32>()) {
                (Some(target), _) => format!("302 Found\r\nLocation: {target}\r\nContent-Length: 0"),
                (None, Ok(n @ 1..)) => format!("301 Moved\r\nLocation: /{}\r\nContent-Length: 0", n - 1),
                (None, _) => "200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nend".to_owned(),
            };
            let close = if answer.contains("\r\n\r\n") { "" } else { "\r\n\r\n" };
            let _ = stream.write_all(format!("HTTP/1.1 {answer}{close}").as_bytes()).await;
        }
    });
    base
}

fn project(pattern: &str) -> Project {
    let mut project = Project::new();
    project.host.rules = vec![rule("webfetch", "*", Action::Allow), rule("webfetch", pattern, Action::Allow)];
    project
}

#[tokio::test]
async fn ten_redirects_are_followed_and_asked_for_once() {
    let base = redirecting().await;
    let project = project("http://127.0.0.1:*");
    let output = project.output("webfetch", json!({"url": format!("{base}/10")})).await;
    assert_eq!((output.output.as_str(), output.title), ("end", format!("{base}/10 (text/plain)")));
    assert_eq!(output.metadata["url"], format!("{base}/0"));
    assert_eq!(project.asked(), [one("webfetch", format!("{base}/10"))]);
    let error = project.error("webfetch", json!({"url": format!("{base}/11")})).await;
    assert_eq!(error, format!("Cannot fetch {base}/11: more than 10 redirects."));
}

#[tokio::test]
async fn each_hop_is_judged() {
    let base = redirecting().await;
    let project = project(&format!("{base}/*"));
    for (target, expected) in [
        ("http://127.0.0.1:1/", "127.0.0.1 is a loopback address"),
        ("http://2130706433:1/", "127.0.0.1 is a loopback address"),
        ("http://[::1]/", "[::1] is a loopback address"),
        ("http://169.254.169.254/latest", "a link-local address"),
        ("//localhost/x", "localhost is at"),
        ("/to/http://10.0.0.1/", "10.0.0.1 is a private address"),
        ("file:///etc/passwd", "only http:// and https:// URLs can be fetched"),
        ("data:text/plain,x", "only http:// and https:// URLs can be fetched"),
        ("http://user:pass@127.0.0.1/", "must not contain a user name"),
        ("http://[/", "is no URL"),
    ] {
        let error = project.error("webfetch", json!({"url": format!("{base}/to/{target}")})).await;
        assert!(error.contains(expected), "{target}: {error}");
    }
}

#[tokio::test]
async fn another_host_is_asked_for_and_a_denied_page_of_the_same_refused() {
    let (base, other) = (redirecting().await, redirecting().await);
    let mut project = project("http://127.0.0.1:*");
    project.output("webfetch", json!({"url": format!("{base}/to/{other}/0")})).await;
    assert_eq!(
        project.asked(),
        [
            (
                "webfetch".to_owned(),
                [&other, &other.replace("//", "/")].map(|it| format!("{base}/to/{it}/0")).to_vec()
            ),
            one("webfetch", format!("{other}/0")),
        ]
    );
    project.host.rules.push(rule("webfetch", "*/0", Action::Deny));
    project.output("webfetch", json!({"url": format!("{base}/1")})).await;
    // The fake host allows it; the real one answers by the rule.
    assert_eq!(project.asked()[3], one("webfetch", format!("{base}/0")));
}

#[tokio::test]
async fn the_question_names_what_will_be_requested() {
    let base = redirecting().await;
    let port = base.rsplit(':').next().expect("has a port").to_owned();
    let project = project("http://127.0.0.1:*");
    let written = format!("HTTP://0x7f.1:{port}/a/../0");
    project.output("webfetch", json!({"url": written, "format": "text", "timeout": "5"})).await;
    let ask = project.last_ask();
    assert_eq!(ask.patterns, [written.clone(), format!("{base}/0")]);
    assert_eq!(ask.always, ["*"]);
    let requested = format!("{base}/0");
    assert_eq!(
        json!(ask.metadata),
        json!({"url": written, "format": "text", "timeout": 5.0, "requested": requested})
    );
}

/// Makes a project with a host that answers by these rules.
fn ruled(rules: Vec<Rule>) -> Project {
    let mut project = Project::new();
    project.host.rules = rules.clone();
    project.host.answer =
        Box::new(move |ask| match permission::evaluate_all(ask, &Policy::new(rules.clone()), &[]) {
            Verdict::Allow => Ok(()),
            Verdict::Ask => Err(ToolError::Denied { feedback: None }),
            Verdict::Deny { .. } => Err(ToolError::Model("denied".to_owned())),
        });
    project
}

#[tokio::test]
async fn a_rule_holds_however_the_address_is_written() {
    let base = redirecting().await;
    let port = base.rsplit(':').next().expect("has a port").to_owned();
    for action in [Action::Deny, Action::Ask] {
        let project = ruled(vec![
            rule("webfetch", "*", Action::Allow),
            rule("webfetch", &format!("{base}/*"), Action::Allow),
            rule("webfetch", &format!("{base}/0*"), action),
        ]);
        let open = project.output("webfetch", json!({"url": format!("{base}/open")})).await;
        assert_eq!(open.output, "end");
        for url in [
            format!("{base}/%30"),
            format!("HTTP://127.0.0.1:{port}/0"),
            format!("http://127.0.0.1.:{port}/0"),
            format!("http://0x7f000001:{port}/0"),
            format!("{base}/a/../0"),
            format!("{base}/a/%2e%2e/0"),
            format!("{base}/%30?x"),
            format!("{base}/0#x"),
            format!("{base}\\0"),
            format!("{base}//0"),
            format!("{base}///%30"),
            format!("{base}/a/..//0"),
            // The same page by a redirect.
            format!("{base}/1"),
            format!("{base}/to//%30"),
        ] {
            let result = project.run("webfetch", json!({"url": url})).await;
            let expected = match action {
                Action::Deny => ToolError::Model("denied".to_owned()),
                Action::Ask | Action::Allow => ToolError::Denied { feedback: None },
            };
            assert_eq!(result, Err(expected), "{url}");
        }
    }
}

#[tokio::test]
async fn private_addresses_are_refused_before_any_question() {
    let base = redirecting().await;
    let project = project(&format!("{base}/*"));
    let url = format!("{base}/to/http://10.0.0.1/x");
    let error = project.error("webfetch", json!({"url": url})).await;
    let expected = format!(
        "{url} redirects to http://10.0.0.1/x. Cannot fetch http://10.0.0.1/x: 10.0.0.1 is a private address"
    );
    assert!(error.starts_with(&expected), "{error}");
    // Many servers treat several slashes as one.
    let read = url.replace("/to/http://", "/to/http:/");
    assert_eq!(project.asked(), [("webfetch".to_owned(), vec![url, read])]);
    let error = project.error("webfetch", json!({"url": "http://169.254.169.254/latest"})).await;
    assert!(error.contains("169.254.169.254 is a link-local address"), "{error}");
    assert_eq!(project.asked().len(), 1);
}

#[tokio::test]
async fn invalid_urls_are_refused_before_any_question() {
    let project = Project::new();
    for (url, expected) in [
        ("ftp://x/", "URL must start with http:// or https://"),
        ("x", "URL must start with http:// or https://"),
        ("", "URL must start with http:// or https://"),
        ("file:///etc/passwd", "URL must start with http:// or https://"),
        (" http://x/", "URL must start with http:// or https://"),
        ("http://", "Invalid URL http://: empty host"),
        ("https://known.example@10.0.0.1/", "URL must not contain a user name or password"),
    ] {
        assert_eq!(project.error("webfetch", json!({"url": url})).await, expected, "{url}");
    }
    assert_eq!(project.asked(), []);
}

#[tokio::test]
async fn an_invalid_timeout_is_refused_before_any_question() {
    let project = project("http://127.0.0.1:*");
    for timeout in ["0", "-1"] {
        let error =
            project.error("webfetch", json!({"url": "http://127.0.0.1:1/", "timeout": timeout})).await;
        let issue = format!("invalid arguments: `timeout` must be greater than 0, but is {timeout}.\n");
        assert!(error.contains(&issue), "{error}");
    }
    assert!(project.asked().is_empty());
}

#[tokio::test]
async fn a_cancelled_fetch_ends_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let project = project("http://127.0.0.1:*");
    let fetch = project.run("webfetch", json!({"url": url}));
    let cancel = async {
        let _connection = listener.accept().await;
        project.cancel.cancel();
    };
    let (result, ()) = tokio::join!(fetch, cancel);
    assert_eq!(result, Err(ToolError::Cancelled { partial: None }));
}
