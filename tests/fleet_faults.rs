//! Faults between the nodes of a fleet and their database: nothing that was shown is lost, nothing is there twice.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Builder, DEADLINE},
    link::{Link, Mode},
    llm::{Gate, Llm, Reply},
    postgres::Postgres,
    random::{self, Random},
};

fn node(postgres: &Postgres, url: &str, llm: &Llm, name: &str) -> Builder {
    let mut shared = postgres.shared(name, "shared");
    shared["url"] = json!(url);
    Agent::builder().llm(llm).config(json!({"windlass": {"shared": shared}}))
}

fn through(link: &Link) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", link.port)
}

fn said(updates: &[Value]) -> String {
    let of_model = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    of_model.map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
}

/// Loads a session once its last owner's lease has ended.
async fn load_in_the_end(node: &Agent, session: &str) {
    let load = || json!({"sessionId": session, "cwd": node.scratch.cwd(), "mcpServers": []});
    let taken = async { while node.request("session/load", load()).await.is_err() {} };
    tokio::time::timeout(DEADLINE, taken).await.expect("the session is taken over");
}

/// Words that are told from each other, and the whole text.
fn words(n_words: usize) -> (Vec<String>, String) {
    let words: Vec<String> = (0..n_words).map(|number| format!("word{number} ")).collect();
    let whole = words.concat();
    (words, whole)
}

fn streamed(words: &[String], gate: &Gate) -> Reply {
    let (first, rest) = words.split_first().unwrap();
    rest.iter().fold(Reply::text(first).and_gate(gate), |reply, word| reply.and_text(word))
}

#[tokio::test]
async fn a_database_that_is_200_ms_away_delays_and_loses_nothing() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let link = Link::to(postgres.port).await;
    let mut one = node(&postgres, &through(&link), &llm, "one").start().await;
    let session = one.new_session().await;
    link.set(Mode::Slow(Duration::from_millis(100)));
    let (words, whole) = words(200);
    let gate = Gate::new();
    gate.open();
    llm.reply(streamed(&words, &gate));
    assert_eq!(one.prompt(&session, "say it").await.text(), whole);
    one.signal(Signal::SIGKILL);
    one.wait_exit().await;
    let two = node(&postgres, &postgres.url(), &llm, "two").start().await;
    assert_eq!(said(&two.load(&session).await), whole);
    two.finish().await;
    one.forget().await;
}

#[tokio::test]
async fn a_partition_of_one_direction_ends_the_turn_and_another_node_goes_on() {
    let Some(postgres) = Postgres::start().await else { return };
    for mode in [Mode::Deaf, Mode::Mute] {
        let llm = Llm::start().await;
        let link = Link::to(postgres.port).await;
        let one = node(&postgres, &through(&link), &llm, "one").start().await;
        let session = one.new_session().await;
        let gate = Gate::new();
        let call = json!({"command": "touch ran", "description": "Leaves a trace"});
        llm.reply(Reply::text("before").and_gate(&gate).and_text("after").and_call("call_1", "bash", call));
        let prompt = one.send_prompt(&session, "work");
        one.wait_text(&session, "before").await;
        link.set(mode);
        gate.open();
        let two = node(&postgres, &postgres.url(), &llm, "two").start().await;
        load_in_the_end(&two, &session).await;
        llm.reply(Reply::text("mine now"));
        assert_eq!(two.prompt(&session, "go on").await.text(), "mine now", "{mode:?}");
        prompt.answer().await.expect_err("the session is another node's");
        link.set(Mode::Open);
        assert!(!one.scratch.exists("ran"), "{mode:?}");
        assert!(!said(&one.updates(&session)).contains("after"), "{mode:?}");
        one.finish().await;
        two.finish().await;
    }
}

#[tokio::test]
async fn changes_whose_commits_are_cut_off_or_unanswered_are_in_the_log_once() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let link = Link::to(postgres.port).await;
    // A busy machine is not to be taken for one that is gone.
    let lease = json!({"windlass": {"shared": {"lease": 8000}}});
    let mut one = node(&postgres, &through(&link), &llm, "one").config(lease).start().await;
    let session = one.new_session().await;
    let (words, whole) = words(400);
    let gates = [Gate::new(), Gate::new(), Gate::new(), Gate::new()];
    let mut reply = Reply::text(&words[0]);
    for (number, word) in words.iter().enumerate().skip(1) {
        if number % 100 == 50 {
            reply = reply.and_gate(&gates[number / 100]);
        }
        reply = reply.and_text(word);
    }
    llm.reply(reply);
    let prompt = one.send_prompt(&session, "say it");
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
               AND backend_type = 'client backend'";
    for (number, gate) in gates.iter().enumerate() {
        gate.reached().await;
        gate.open();
        if number % 2 == 0 {
            postgres.query(cut);
        } else {
            link.set(Mode::Deaf);
            postgres.query("SELECT pg_sleep(0.5)");
            link.set(Mode::Open);
        }
    }
    assert_eq!(prompt.turn().await.text(), whole);
    one.signal(Signal::SIGKILL);
    one.wait_exit().await;
    let two = node(&postgres, &postgres.url(), &llm, "two").start().await;
    assert_eq!(said(&two.load(&session).await), whole);
    two.finish().await;
    one.forget().await;
}

#[tokio::test]
async fn a_node_that_is_older_than_the_schema_stays_out_and_says_so() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = node(&postgres, &postgres.url(), &llm, "one").start().await;
    let session = one.new_session().await;
    llm.reply(Reply::text("noted"));
    one.prompt(&session, "hello").await;
    postgres.query("UPDATE windlass.fleet SET version = 99");
    let older = node(&postgres, &postgres.url(), &llm, "older").start().await;
    let load = json!({"sessionId": session, "cwd": older.scratch.cwd(), "mcpServers": []});
    let refused = older.request("session/load", load).await.expect_err("its schema is newer");
    assert!(refused.message.contains("a newer windlass made its schema"), "{refused:?}");
    // Those that are there go on.
    llm.reply(Reply::text("still here"));
    assert_eq!(one.prompt(&session, "and now?").await.text(), "still here");
    older.finish().await;
    one.finish().await;
}

/// `FLEET_KILLS` is the number of deaths, `FLEET_SEED` the seed of their moments.
#[tokio::test]
async fn whenever_a_node_is_killed_the_log_has_everything_that_it_had_shown() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let shared = json!({"windlass": {"shared": postgres.shared("one", "shared")}});
    let mut random = Random::new(random::seed("FLEET_SEED"));
    let mut one = Agent::builder().llm(&llm).config(shared.clone()).start().await;
    let session = one.new_session().await;
    for number in 0..random::from_environment("FLEET_KILLS", 10) {
        let words: Vec<String> = (0..200).map(|word| format!("word{number}-{word} ")).collect();
        let gate = Gate::new();
        gate.open();
        llm.reply(streamed(&words, &gate));
        let _prompt = one.send_prompt(&session, "say it");
        let word = &words[random.below(words.len())];
        one.wait_text(&session, word).await;
        one.signal(Signal::SIGKILL);
        one.wait_exit().await;
        let shown = said(&one.updates(&session));
        assert!(shown.contains(word));
        // On the same machine it need not wait for the lease, and makes its rows anew from the log.
        let next = one.successor().config(shared.clone()).start().await;
        let there = said(&next.load(&session).await);
        assert!(there.starts_with(&shown), "death {number} at {word}: {there} lacks some of {shown}");
        one.forget().await;
        one = next;
    }
    one.finish().await;
}

#[tokio::test]
async fn a_standby_that_takes_over_has_everything_that_was_shown() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let standby = postgres.standby().await;
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        postgres.port, standby.port
    );
    let one = node(&postgres, &url, &llm, "one").start().await;
    let session = one.new_session().await;
    let gate = Gate::new();
    llm.reply(Reply::text("before").and_gate(&gate).and_text(" and after"));
    let prompt = one.send_prompt(&session, "work");
    one.wait_text(&session, "before").await;
    postgres.stop();
    standby.promote();
    gate.open();
    // The turn goes on if the standby was quick, or ends with a word; what was shown is there.
    let ended = prompt.answer().await;
    let shown = said(&one.updates(&session));
    one.finish().await;
    let two = node(&postgres, &url, &llm, "two").start().await;
    load_in_the_end(&two, &session).await;
    let there = said(&two.load(&session).await);
    assert!(there.starts_with(&shown) && shown.starts_with("before"), "{ended:?}: {there} after {shown}");
    llm.reply(Reply::text("still here"));
    assert_eq!(two.prompt(&session, "go on").await.text(), "still here");
    two.finish().await;
}

#[tokio::test]
async fn a_certificate_is_verified_with_the_name_in_it() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let Some(postgres) = Postgres::start_with_tls(&certificate, &key.serialize_pem()).await else { return };
    let llm = Llm::start().await;
    let root = postgres.root().join("root.pem");
    std::fs::write(&root, &certificate).unwrap();
    let url = |host: &str, root: &str| {
        format!("postgres://postgres@{host}:{}/postgres?sslmode=require{root}", postgres.port)
    };
    let trusted = format!("&sslrootcert={}", root.display());
    let one = node(&postgres, &url("127.0.0.1", &trusted), &llm, "one").start().await;
    let session = one.new_session().await;
    llm.reply(Reply::text("noted"));
    assert_eq!(one.prompt(&session, "hello").await.text(), "noted");
    assert_eq!(postgres.query("SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'postgres' AND application_name LIKE 'windlass%'"), ["t"]);
    one.finish().await;
    for (host, root, reason) in
        [("127.0.0.1", "", "UnknownIssuer"), ("localhost", trusted.as_str(), "not valid for name")]
    {
        let refused = node(&postgres, &url(host, root), &llm, "refused").start().await;
        let new = json!({"cwd": refused.scratch.cwd(), "mcpServers": []});
        let error = match refused.request("session/new", new).await {
            Err(error) => error,
            Ok(new) => {
                let prompt =
                    json!({"sessionId": new["sessionId"], "prompt": [{"type": "text", "text": "hello"}]});
                refused.request("session/prompt", prompt).await.expect_err("the certificate is not trusted")
            }
        };
        assert!(error.message.contains(reason), "{error:?}");
        refused.finish().await;
    }
}
