//! Connections that are judged, asked about, and opened where they were judged to lead.

use std::net::{IpAddr, Ipv4Addr};

use tokio::net::TcpListener;
use windlass_protocol::opencode::settings::NamedNetwork;

use super::*;

/// Makes a gate where a rule allows `ruled.example:443` and denies `*.refused.example:443`.
fn gate(allow: &[&str], questions: Option<mpsc::Sender<Question>>) -> Gate {
    let allow = allow.iter().map(|it| (*it).to_owned()).collect();
    let setting = NamedNetwork {
        allow,
        deny: vec!["denied.example".to_owned(), "93.184.215.99".to_owned()],
        ..NamedNetwork::default()
    };
    let decided = |pattern: &str| match pattern {
        "ruled.example:443" => Some(Answer::Yes),
        _ if pattern.ends_with(".refused.example:443") => Some(Answer::No(None)),
        _ => None,
    };
    let asking = questions.map(|questions| Asking { decided: Box::new(decided), questions });
    Gate::new(Names::parse(&setting).expect("patterns"), asking, None)
}

/// Tries a host which is at this address.
async fn tried(gate: &Gate, host: &str, port: u16, at: IpAddr) -> Result<TcpStream, Closed> {
    let host = Host::parse(host).expect("a host");
    gate.open_by(&host, port, async { Ok(vec![SocketAddr::new(at, port)]) }).await
}

async fn never() -> io::Result<Vec<SocketAddr>> {
    panic!("it was looked up")
}

fn refused(tried: Result<TcpStream, Closed>) -> String {
    match tried {
        Err(Closed::Refused(sentence)) => sentence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_name_that_moves_to_this_machine_is_refused() {
    let gate = gate(&["*", "named.example", "localhost"], None);
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0"] {
        for host in ["any.example", "named.example"] {
            let told = refused(tried(&gate, host, 80, address.parse().expect("an address")).await);
            assert!(told.contains(host) && told.contains("not for commands"), "{told}");
        }
    }
    let told = refused(tried(&gate, "any.example", 80, "10.0.0.1".parse().expect("an address")).await);
    assert!(told.contains("which is private"), "{told}");
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "::1", "169.254.169.254", "10.0.0.1", "x.localhost"] {
        refused(gate.open(&Host::parse(host).expect("a host"), 80).await);
    }
}

#[tokio::test]
async fn nothing_is_looked_up_for_a_name_that_is_refused() {
    let gate = gate(&["a.example"], None);
    for (host, port) in [("b.example", 443), ("denied.example", 443), ("a.example", 22)] {
        let host = Host::parse(host).expect("a host");
        refused(gate.open_by(&host, port, never()).await);
    }
    assert_eq!(
        gate.refusals(),
        [
            "a.example:22 is not named by `windlass.sandbox.network`; the user can add it.",
            "b.example:443 is not named by `windlass.sandbox.network`; the user can add it.",
            "denied.example:443 is denied by `windlass.sandbox.network`.",
        ]
    );
}

#[tokio::test]
async fn a_server_of_this_program_is_never_reached() {
    // This very process listens, as `windlass serve` would.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let gate = gate(&[&format!("localhost:{port}"), &format!("127.0.0.1:{port}")], None);
    for host in ["localhost", "127.0.0.1"] {
        let told = refused(tried(&gate, host, port, Ipv4Addr::LOCALHOST.into()).await);
        assert!(told.contains("is a server of windlass, or one that hides"), "{told}");
    }
}

#[tokio::test]
async fn a_name_that_no_list_decides_is_asked_about_before_it_is_looked_up() {
    let (sender, mut questions) = mpsc::channel(1);
    let gate = gate(&[], Some(sender));
    let host = Host::parse("A.example.").expect("a host");
    let answering = async {
        let question = questions.recv().await.expect("a question");
        assert_eq!(question.pattern, "a.example:443");
        question.answer.send(Answer::No(Some("no, thanks".to_owned()))).expect("it waits");
    };
    let (opened, ()) = tokio::join!(gate.open_by(&host, 443, never()), answering);
    assert!(refused(opened).ends_with("it was not allowed. The user said: no, thanks"));
}

#[tokio::test]
async fn rules_and_earlier_answers_decide_without_a_question() {
    let (sender, mut questions) = mpsc::channel(1);
    let gate = gate(&[], Some(sender));
    let nowhere = async { Err::<Vec<SocketAddr>, _>(io::Error::other("no such name")) };
    let ruled = Host::parse("ruled.example").expect("a host");
    assert!(matches!(gate.open_by(&ruled, 443, nowhere).await, Err(Closed::Failed(_))));
    let host = Host::parse("a.refused.example").expect("a host");
    assert!(refused(gate.open_by(&host, 443, never()).await).ends_with("it was not allowed."));
    let host = Host::parse("b.example").expect("a host");
    let answering = async {
        questions.recv().await.expect("a question").answer.send(Answer::No(None)).expect("it waits");
    };
    let (opened, ()) = tokio::join!(gate.open_by(&host, 443, never()), answering);
    refused(opened);
    refused(gate.open_by(&host, 443, never()).await);
    assert!(questions.try_recv().is_err());
}

#[tokio::test]
async fn an_address_that_is_denied_is_so_under_every_name() {
    let gate = gate(&["*"], None);
    let told = refused(tried(&gate, "any.example", 443, "93.184.215.99".parse().expect("an address")).await);
    assert_eq!(told, "any.example:443 is denied by `windlass.sandbox.network`.");
}

#[tokio::test]
async fn a_name_that_leads_to_another_address_of_this_machine_is_refused() {
    let outward = std::net::UdpSocket::bind(("0.0.0.0", 0)).and_then(|it| {
        it.connect(("192.0.2.1", 9))?;
        it.local_addr()
    });
    // Without a network there is no such address.
    let Some(own) = outward.ok().map(|it| it.ip()).filter(|it| !it.is_loopback() && !it.is_unspecified())
    else {
        return;
    };
    let listener = TcpListener::bind((own, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let gate = gate(&[&format!("named.example:{port}")], None);
    let told = refused(tried(&gate, "named.example", port, own).await);
    assert!(told.contains("not for commands") || told.contains("is a server of windlass"), "{told}");
}
