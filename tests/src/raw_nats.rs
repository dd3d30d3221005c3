//! A NATS client without restrictions: it sends any line, reply subject and header, as an attacker with stolen
//! credentials can.

use std::fmt::Debug;
use std::sync::Arc;

use muster_wire::sign::Signer;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::nats_server::NETWORK_TIMEOUT;
use crate::organisation::Broker;

/// A connection in plain text or with TLS.
trait RawStream: AsyncRead + AsyncWrite + Unpin + Send + Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Debug> RawStream for T {}

/// A connection with a user's credentials.
#[derive(Debug)]
pub struct RawNats {
    stream: Box<dyn RawStream>,
    buffer: Vec<u8>,
    subscriptions: usize,
}

/// What the broker sent between two points of the connection.
#[derive(Debug, Default)]
pub struct BrokerOutput {
    /// The text of each refusal.
    pub refusals: Vec<String>,
    /// Each message: its subject, and its bytes with the headers before them.
    pub messages: Vec<(String, Vec<u8>)>,
}

impl RawNats {
    async fn open(port: u16) -> Self {
        let stream = Box::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        Self { stream, buffer: Vec::new(), subscriptions: 0 }
    }

    /// Connects as this user.
    pub async fn connect(server: &impl Broker, user: &Signer) -> Self {
        let mut client = Self::open(server.port()).await;
        let nonce = client.read_nonce().await;
        let options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "echo": true,
            "lang": "raw", "version": "0", "protocol": 1, "name": "thief",
            "jwt": &*user.token(), "sig": sign_nonce(user, &nonce),
        });
        client.send(&format!("CONNECT {options}\r\n")).await;
        let output = client.sync().await;
        assert_eq!(output.refusals, [""; 0], "{}", user.identity());
        client
    }

    /// Connects to a port for leaf nodes as this user, as nats-server does: with TLS, if the certificate of the port is given. `is_hub` claims that
    /// this side is the hub.
    pub async fn connect_leaf(
        port: u16,
        certificate: Option<&CertificateDer<'static>>,
        user: &Signer,
        is_hub: bool,
    ) -> Self {
        let mut client = Self::open(port).await;
        let nonce = client.read_nonce().await;
        if let Some(certificate) = certificate {
            client.stream = Box::new(start_tls(client.stream, certificate).await);
        }
        let options = json!({
            "version": "2.15.1", "id": "thief", "name": "thief", "headers": true, "proto": 1, "is_hub": is_hub,
            "jwt": &*user.token(), "sig": sign_nonce(user, &nonce),
        });
        client.send(&format!("CONNECT {options}\r\n")).await;
        client
    }

    /// Publishes as a leaf node. That the broker has closed the connection is found by the next read.
    pub async fn publish_leaf(&mut self, subject: &str, reply: &str, payload: &str) {
        let text = format!("LMSG {subject} {reply} {}\r\n{payload}\r\n", payload.len());
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    /// Subscribes as a leaf node.
    pub async fn subscribe_leaf(&mut self, subject: &str) {
        self.send(&format!("LS+ {subject}\r\n")).await;
    }

    async fn read_nonce(&mut self) -> String {
        let info = self.read_line().await;
        let info: serde_json::Value =
            serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        info.get("nonce").unwrap().as_str().unwrap().to_owned()
    }

    /// Sends text unchanged.
    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Publishes with any reply subject and headers.
    pub async fn publish(&mut self, subject: &str, reply: &str, headers: &str, payload: &str) {
        let text = if headers.is_empty() {
            format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len())
        } else {
            let headers = format!("NATS/1.0\r\n{headers}\r\n\r\n");
            format!(
                "HPUB {subject} {reply} {} {}\r\n{headers}{payload}\r\n",
                headers.len(),
                headers.len() + payload.len()
            )
        };
        self.send(&text).await;
    }

    /// Subscribes, in a queue group if `queue` is not empty.
    pub async fn subscribe(&mut self, subject: &str, queue: &str) {
        self.subscriptions += 1;
        self.send(&format!("SUB {subject} {queue} {}\r\n", self.subscriptions)).await;
    }

    /// Returns what the broker sent until now; it answers a ping after everything that was sent before.
    pub async fn sync(&mut self) -> BrokerOutput {
        self.send("PING\r\n").await;
        let mut output = BrokerOutput::default();
        assert!(
            self.read_output(&mut output).await,
            "the broker closed the connection: {output:?}"
        );
        output
    }

    /// Returns what the broker sent until now, and whether it closed the connection.
    pub async fn sync_or_closed(&mut self) -> (BrokerOutput, bool) {
        // Fails if the connection is closed.
        let _ = self.stream.write_all(b"PING\r\n").await;
        let mut output = BrokerOutput::default();
        let is_open = self.read_output(&mut output).await;
        (output, !is_open)
    }

    /// Reads up to the answer to a ping. Returns false if the broker closed the connection.
    async fn read_output(&mut self, output: &mut BrokerOutput) -> bool {
        loop {
            let Some(line) = self.try_read_line().await else {
                return false;
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["PONG"] => return true,
                ["PING"] => self.send("PONG\r\n").await,
                ["-ERR", ..] => output.refusals.push(line),
                ["MSG" | "HMSG" | "LMSG" | "HLMSG", subject, .., length] => {
                    let subject = (*subject).to_owned();
                    let Some(bytes) = self.try_read_bytes(length.parse().unwrap()).await else {
                        return false;
                    };
                    output.messages.push((subject, bytes));
                }
                _ => {}
            }
        }
    }

    async fn read_line(&mut self) -> String {
        self.try_read_line().await.expect("the broker closed the connection")
    }

    /// The next line; `None` if the broker closed the connection.
    async fn try_read_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if !self.fill_buffer().await {
                return None;
            }
        }
    }

    /// So many bytes and a line end; `None` if the broker closed the connection.
    async fn try_read_bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length + 2 {
            if !self.fill_buffer().await {
                return None;
            }
        }
        let mut bytes: Vec<u8> = self.buffer.drain(..length + 2).collect();
        bytes.truncate(length);
        Some(bytes)
    }

    /// Returns false if the broker closed the connection.
    async fn fill_buffer(&mut self) -> bool {
        let mut chunk = vec![0; 16 * 1024];
        let read = tokio::time::timeout(NETWORK_TIMEOUT, self.stream.read(&mut chunk)).await;
        // A connection that is closed with unread bytes is reset.
        let count = read.expect("the broker sent nothing").unwrap_or(0);
        self.buffer.extend(chunk.iter().take(count));
        count > 0
    }
}

/// The connection with TLS, to a server with this certificate.
async fn start_tls(
    stream: Box<dyn RawStream>,
    certificate: &CertificateDer<'static>,
) -> impl RawStream + use<> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn sign_nonce(user: &Signer, nonce: &str) -> String {
    data_encoding::BASE64URL_NOPAD.encode(&user.key_pair().sign(nonce.as_bytes()).to_bytes())
}
