//! A NATS client without restrictions: it sends any line, reply subject and header, as an attacker with stolen
//! credentials can.

use muster_wire::sign::Signer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::nats_server::NETWORK_TIMEOUT;
use crate::organisation::Broker;

/// A connection with a user's credentials.
#[derive(Debug)]
pub struct RawNats {
    stream: TcpStream,
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
    /// Connects as this user.
    pub async fn connect(server: &impl Broker, user: &Signer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let mut client = Self { stream, buffer: Vec::new(), subscriptions: 0 };
        let info = client.read_line().await;
        let info: serde_json::Value =
            serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        let nonce = info.get("nonce").unwrap().as_str().unwrap();
        let signature = user.key_pair().sign(nonce.as_bytes()).to_bytes();
        let options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "echo": true,
            "lang": "raw", "version": "0", "protocol": 1, "name": "thief",
            "jwt": &*user.token(), "sig": data_encoding::BASE64URL_NOPAD.encode(&signature),
        });
        client.send(&format!("CONNECT {options}\r\n")).await;
        let output = client.sync().await;
        assert_eq!(output.refusals, [""; 0], "{}", user.identity());
        client
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
        loop {
            let line = self.read_line().await;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["PONG"] => return output,
                ["PING"] => self.send("PONG\r\n").await,
                ["-ERR", ..] => output.refusals.push(line),
                ["MSG" | "HMSG", subject, .., length] => {
                    let subject = (*subject).to_owned();
                    let bytes = self.read_bytes(length.parse().unwrap()).await;
                    output.messages.push((subject, bytes));
                }
                _ => {}
            }
        }
    }

    async fn read_line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            self.fill_buffer().await;
        }
    }

    async fn read_bytes(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length + 2 {
            self.fill_buffer().await;
        }
        let mut bytes: Vec<u8> = self.buffer.drain(..length + 2).collect();
        bytes.truncate(length);
        bytes
    }

    async fn fill_buffer(&mut self) {
        let mut chunk = vec![0; 16 * 1024];
        let read = tokio::time::timeout(NETWORK_TIMEOUT, self.stream.read(&mut chunk)).await;
        let count = read.expect("the broker sent nothing").unwrap();
        assert!(count > 0, "the broker closed the connection");
        self.buffer.extend(chunk.iter().take(count));
    }
}
