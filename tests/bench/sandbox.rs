//! The price of a sandbox: the time that a command takes longer in each level than outside, and a connection through
//! the proxy of a network by name than without it.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, milliseconds},
};

const N_STEPS: usize = 60;
/// Time for an answer of the model; a real one takes longer. What the next command needs is made meanwhile.
const THOUGHT: Duration = Duration::from_millis(20);
const N_CONNECTION_STEPS: usize = 9;
const N_CONNECTIONS: u32 = 200;

pub const SANDBOX: Scenario = Scenario { name: "sandbox", is_long: true, run: sandbox };
pub const NETWORK: Scenario = Scenario { name: "network", is_long: true, run: network };

fn sandbox(subject: &mut Subject, model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    // An agent that can make no namespaces has Landlock left.
    const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let starter = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh"];
    for (row, starter) in
        [("bash in the full sandbox, more ms", &[][..]), ("bash in Landlock alone, more ms", &starter[..])]
    {
        let [outside, inside] =
            [json!({"mode": "off"}), json!({"mode": "workspace-write"})].map(|settings| {
                let mut config = subject.config.clone();
                config["windlass"] = json!({"sandbox": settings});
                step(subject, model, &config, starter, N_STEPS, "true %N")
            });
        subject.add(row, inside? - outside?);
    }
    Ok(())
}

/// Milliseconds of a connection through the proxy and without it, to a server on this machine that answers a byte.
fn network(subject: &mut Subject, model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut stream, mut byte) = (stream, [0]);
                // The client may have gone.
                let _ = stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte));
            });
        }
    });
    let named = json!({"allow": [format!("localhost:{port}")]});
    let greeting = format!(r#"s.sendall(b"CONNECT localhost:{port} HTTP/1.1\r\n\r\n"), s.recv(999), "#);
    let ways = [
        ("connection through the proxy, ms", named, 3128, greeting.as_str()),
        ("connection without it, ms", json!("allow"), port, ""),
    ];
    for (row, network, port, greeting) in ways {
        let mut config = subject.config.clone();
        config["windlass"] = json!({"sandbox": {"mode": "workspace-write", "network": network}});
        let one = format!(r#"{greeting}s.sendall(b"x"), s.recv(1), s.close()"#);
        let connected = format!(r#"[socket.create_connection(("127.0.0.1", {port}))]"#);
        let command = |n: u32| {
            format!("python3 -c 'import socket; [({one}) for _ in range({n}) for s in {connected}]' # %N")
        };
        let [none, many] =
            [0, N_CONNECTIONS].map(|n| step(subject, model, &config, &[], N_CONNECTION_STEPS, &command(n)));
        subject.add(row, (many? - none?) / f64::from(N_CONNECTIONS));
    }
    Ok(())
}

/// Milliseconds of a step with a command, as JSON has it.
fn step(
    subject: &Subject,
    model: &Model,
    config: &Value,
    starter: &[&str],
    n_steps: usize,
    command_line: &str,
) -> Result<f64> {
    let (_, arguments) = subject.command.split_first().ok_or("no command")?;
    let mut command = subject.program_within(starter)?;
    command.args(arguments).env("OPENCODE_CONFIG_CONTENT", config.to_string());
    let mut agent = Agent::start(command, subject.root().join("stderr"), LIMIT)?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    agent.prompt(&session, "hello")?;
    model.take_exchanges();
    let call = json!({"command": command_line, "description": "Is timed"});
    model.think(THOUGHT);
    let prompted = agent.prompt(&session, &format!("TOOLS {n_steps} bash {call}"));
    model.think(Duration::ZERO);
    prompted?;
    let exchanges = model.take_exchanges();
    if exchanges.len() != n_steps + 1 {
        return Err(format!("{} requests for {n_steps} steps", exchanges.len()).into());
    }
    let own = exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood));
    let median = median(&mut own.collect::<Vec<_>>());
    agent.stop()?;
    Ok(median)
}
