//! The HTTP server: its first answers, and lists of sessions.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, median, milliseconds},
};

pub const HTTP: Scenario = Scenario { name: "http", is_long: true, run: http };

const N_WARM: usize = 10;
const N_LISTS: usize = 20;
const N_SESSIONS: [usize; 2] = [200, 10_000];
/// More than a reference that takes a quarter of a second for each can be given.
const N_MOST_OF_REFERENCE: usize = 200;

fn http(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut command = subject.program()?;
    let home = tempfile::Builder::new().prefix("http-").tempdir_in(subject.root())?;
    let arguments = ["serve", "--hostname", "127.0.0.1", "--port", "0"];
    command.args(arguments).env("HOME", home.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = command.stderr(Stdio::null()).spawn()?;
    let measured = measure(subject, &mut server);
    server.kill()?;
    server.wait()?;
    measured
}

fn measure(subject: &mut Subject, server: &mut Child) -> Result<()> {
    let mut lines = BufReader::new(server.stdout.take().ok_or("no output")?);
    let address = loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err("the server has ended".into());
        }
        if let Some((_, address)) = line.trim().rsplit_once("http://") {
            break address.to_owned();
        }
    };
    let mut client = Client::new(&address)?;
    client.get("/config")?;
    let (_, made) = client.timed("POST", "/session", Some(&json!({})))?;
    let id = made["id"].as_str().ok_or("no id")?.to_owned();
    let prompt = json!({"parts": [{"type": "text", "text": "hello"}]});
    let prompts = format!("/session/{id}/message");
    subject.add("HTTP: first prompt, ms", client.timed("POST", &prompts, Some(&prompt))?.0);
    let mut warm = Vec::new();
    for _ in 0..N_WARM {
        warm.push(client.timed("POST", &prompts, Some(&prompt))?.0);
    }
    subject.add("HTTP: warm prompt, ms", median(&mut warm));
    subject.add("HTTP: first GET /provider, ms", client.get("/provider")?);
    subject.add("HTTP: GET /provider again, ms", client.get("/provider")?);
    let mut n_made = 1;
    for n_sessions in N_SESSIONS {
        if subject.name != "windlass" && n_sessions > N_MOST_OF_REFERENCE {
            break;
        }
        for number in n_made..n_sessions {
            client.timed("POST", "/session", Some(&json!({"title": format!("session {number}")})))?;
        }
        n_made = n_sessions;
        let mut list = |limit: usize| {
            let times = (0..N_LISTS).map(|_| client.get(&format!("/session?limit={limit}")));
            Ok::<_, Box<dyn std::error::Error>>(median(&mut times.collect::<Result<Vec<_>>>()?))
        };
        let (page, whole) = (list(N_SESSIONS[0])?, list(n_sessions)?);
        subject.add(&format!("HTTP: 200 sessions of {n_sessions}, ms"), page);
        subject.add(&format!("HTTP: all {n_sessions} sessions, ms"), whole);
    }
    Ok(())
}

/// A connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    fn new(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(1 << 20, stream), body: Vec::new() })
    }

    /// Returns the milliseconds of a request whose answer is not read any further.
    fn get(&mut self, path: &str) -> Result<f64> {
        let began = Instant::now();
        self.send("GET", path, None)?;
        Ok(milliseconds(began.elapsed()))
    }

    fn timed(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<(f64, Value)> {
        let began = Instant::now();
        self.send(method, path, body)?;
        let time = milliseconds(began.elapsed());
        Ok((time, serde_json::from_slice(&self.body)?))
    }

    /// Sends a request and reads the whole answer.
    fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let (mut length, mut is_chunked, mut is_first) = (0, false, true);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            if std::mem::take(&mut is_first) && !line.contains(" 200") {
                return Err(format!("{method} {path}: {line}").into());
            }
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse()?,
                Some(("transfer-encoding", _)) => is_chunked = true,
                Some(_) => {}
                None if line.is_empty() => break,
                None => {}
            }
        }
        self.body.clear();
        if !is_chunked {
            self.body.resize(length, 0);
            return Ok(self.stream.read_exact(&mut self.body)?);
        }
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16)?;
            let at = self.body.len();
            self.body.resize(at + size, 0);
            self.stream.read_exact(&mut self.body[at..])?;
            self.stream.read_line(&mut String::new())?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
