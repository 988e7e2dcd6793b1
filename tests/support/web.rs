//! A web server on loopback: answers each path as the test says and records the requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};

use super::{
    agent::DEADLINE,
    http::{self, Asked},
};

/// One answer; the last one for a path is repeated.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// True to send the body in chunks, without its length.
    pub is_chunked: bool,
    /// True to never answer.
    pub hangs: bool,
    /// A semaphore with a permit that the answer waits for.
    pub gate: Option<Arc<Semaphore>>,
    /// A semaphore with a permit that the body waits for.
    pub body_gate: Option<Arc<Semaphore>>,
}

impl Page {
    pub fn new(content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let page = Self { status: 200, body: body.as_ref().to_vec(), ..Self::default() };
        page.header("content-type", content_type)
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn redirect(target: &str) -> Self {
        Self::status(302).header("location", target)
    }

    pub fn hanging() -> Self {
        Self { hangs: true, ..Self::default() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn behind(mut self, gate: &Arc<Semaphore>) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub fn with_body_behind(mut self, gate: &Arc<Semaphore>) -> Self {
        self.body_gate = Some(gate.clone());
        self
    }

    pub fn chunked(mut self) -> Self {
        self.is_chunked = true;
        self
    }
}

#[derive(Default)]
struct State {
    pages: HashMap<String, Vec<Page>>,
    asked: Vec<Asked>,
    /// Requests that are not answered.
    n_hanging: usize,
    most_hanging: usize,
}

#[derive(Clone)]
pub struct Web {
    pub port: u16,
    state: Arc<Mutex<State>>,
    n_asked: Arc<watch::Sender<usize>>,
}

impl Web {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
            n_asked: Arc::default(),
        };
        let server = web.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        web
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Adds an answer for a path; several are given one after another.
    pub fn page(&self, path: &str, page: Page) {
        self.state.lock().unwrap().pages.entry(path.to_owned()).or_default().push(page);
    }

    /// Skips the next answer for a path.
    pub fn skip(&self, path: &str) {
        self.state.lock().unwrap().pages.get_mut(path).unwrap().remove(0);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Waits until a request has arrived.
    pub async fn reached(&self) {
        let mut n_asked = self.n_asked.subscribe();
        let waited = timeout(DEADLINE, n_asked.wait_for(|n_asked| *n_asked > 0)).await;
        assert!(waited.is_ok(), "the web server was asked nothing");
    }

    /// Returns the number of requests for this path.
    pub fn n_asked(&self, path: &str) -> usize {
        self.asked().iter().filter(|asked| asked.line == format!("GET {path}")).count()
    }

    /// Returns the largest number of requests that waited for an answer at the same time and got none.
    pub fn most_hanging(&self) -> usize {
        self.state.lock().unwrap().most_hanging
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        // A client that hangs up in the middle has requested nothing.
        while let Ok(Some(asked)) = http::read(&mut stream, &mut buffer).await {
            let path = asked.path().to_owned();
            let page = {
                let mut state = self.state.lock().unwrap();
                state.asked.push(asked);
                self.n_asked.send_replace(state.asked.len());
                match state.pages.get_mut(&path) {
                    Some(pages) if pages.len() > 1 => pages.remove(0),
                    Some(pages) => pages[0].clone(),
                    None => Page::status(404),
                }
            };
            if page.hangs {
                {
                    let mut state = self.state.lock().unwrap();
                    state.n_hanging += 1;
                    state.most_hanging = state.most_hanging.max(state.n_hanging);
                }
                // Waits until the client hangs up.
                let _ = stream.read(&mut [0]).await;
                self.state.lock().unwrap().n_hanging -= 1;
                return;
            }
            pass(page.gate.as_ref()).await;
            // A client that has received enough hangs up.
            if write(&mut stream, page).await.is_err() {
                return;
            }
        }
    }
}

async fn pass(gate: Option<&Arc<Semaphore>>) {
    if let Some(gate) = gate {
        gate.acquire().await.unwrap().forget();
    }
}

async fn write(stream: &mut TcpStream, page: Page) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", page.status);
    for (name, value) in &page.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let has_length = page.headers.iter().any(|(name, _)| name == "content-length");
    if page.is_chunked {
        head += "transfer-encoding: chunked\r\n\r\n";
    } else if has_length {
        head += "\r\n";
    } else {
        head += &format!("content-length: {}\r\n\r\n", page.body.len());
    }
    stream.write_all(head.as_bytes()).await?;
    pass(page.body_gate.as_ref()).await;
    if !page.is_chunked {
        return stream.write_all(&page.body).await;
    }
    for chunk in page.body.chunks(64 << 10) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
        stream.write_all(chunk).await?;
        stream.write_all(b"\r\n").await?;
    }
    stream.write_all(b"0\r\n\r\n").await
}
