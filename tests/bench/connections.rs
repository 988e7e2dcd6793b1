//! The memory that a server keeps of connections that have ended.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, megabytes},
    usage,
};

pub const CONNECTIONS: Scenario = Scenario { name: "connections", is_long: true, run: connections };

const N_WARM: usize = 2000;
const N_CONNECTIONS: usize = 8000;

fn connections(subject: &mut Subject, _model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        // Other agents on stdio have no such command.
        return Ok(());
    }
    let mut server = subject.program()?.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let left = left(&mut server);
    server.kill()?;
    server.wait()?;
    subject.add("8000 ended connections, more MB", megabytes(left?));
    Ok(())
}

/// Returns the bytes by which the server has grown.
fn left(server: &mut Child) -> Result<u64> {
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let (_, address) = line.trim().rsplit_once("http://").ok_or("no address")?;
    come_and_go(address, N_WARM)?;
    let before = usage::own_memory(server.id())?.rss;
    come_and_go(address, N_CONNECTIONS)?;
    Ok(usage::own_memory(server.id())?.rss.saturating_sub(before))
}

/// Connects and leaves: without a word, in the middle of a request, of a stream, or of an answer.
fn come_and_go(address: &str, n_times: usize) -> Result<()> {
    for number in 0..n_times {
        let mut stream = TcpStream::connect(address)?;
        match number % 4 {
            0 => {}
            1 => stream.write_all(b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Le")?,
            2 => stream.write_all(b"GET /event HTTP/1.1\r\nHost: localhost\r\n\r\n")?,
            _ => stream.write_all(b"GET /session HTTP/1.1\r\nHost: localhost\r\n\r\n")?,
        }
        // Now and then the server is waited for, so that it takes the earlier connections.
        if number % 100 == 99 {
            let mut stream = TcpStream::connect(address)?;
            stream
                .write_all(b"GET /global/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end(&mut Vec::new())?;
        }
    }
    Ok(())
}
