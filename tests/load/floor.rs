//! The floor: the minimum cost of N replies over plain NATS connections.
//!
//! Each node has one subscription, on its own connection or on one of a few shared ones. The signed floor is the
//! cheapest authentic exchange: keys are known beforehand on both sides, and there is no token, nonce, replay check,
//! policy, audit or JSON.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Message, Subscriber};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey, verify_batch};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use muster_tests::nats_server::NatsServer;
use sha2::{Digest as _, Sha256};

use crate::measure::Contender;
use crate::process::{Stopwatch, TimeSpent, pause_thread};

/// Size of a request in bytes, without its signature.
const REQUEST_BYTES: usize = 200;
/// Size of a reply in bytes, without its signature.
const REPLY_BYTES: usize = 300;
/// Maximum number of replies that are verified together; the same as in the client library.
const MAX_BATCH: usize = 1024;
/// Number of nodes that connect concurrently.
pub(crate) const CONCURRENT_CONNECTS: usize = 64;
/// A measurement that takes longer fails.
pub(crate) const MEASUREMENT_TIMEOUT: Duration = Duration::from_mins(2);

const PLAIN_SUBJECT: &str = "ask.plain";
const SIGNED_SUBJECT: &str = "ask.signed";

/// Nodes on plain connections, their broker, and a caller.
pub(crate) struct Floor {
    caller: FloorCaller,
    server: NatsServer,
}

impl Floor {
    /// Starts a broker and connects all nodes, each with its own connection or over `shared` connections.
    pub(crate) async fn connect(nodes: usize, shared: Option<usize>) -> Self {
        let server = NatsServer::start("").await;
        let mut connections = Vec::new();
        for _ in 0..shared.unwrap_or_default() {
            connections.push(connect(server.url(), 1).await);
        }
        let connection = |number: usize| {
            let shared = connections.get(number % connections.len().max(1)).cloned();
            let url = server.url();
            async move {
                match shared {
                    Some(shared) => shared,
                    None => connect(url, 1).await,
                }
            }
        };
        stream::iter(0..nodes)
            .for_each_concurrent(CONCURRENT_CONNECTS, |number| async move {
                BareNode::start(connection(number).await, number).await;
            })
            .await;
        Self { caller: FloorCaller::connect(&server.url(), nodes).await, server }
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> String {
        self.caller.client.server_info().version
    }

    /// The broker's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Calls all nodes once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> TimeSpent {
        self.caller.measure(contender).await
    }
}

/// A caller of plain nodes, in any process.
pub(crate) struct FloorCaller {
    client: Client,
    key: SigningKey,
    node_keys: Vec<VerifyingKey>,
    answers: Subscriber,
    reply_to: String,
    /// How long the thread stops after a request was sent.
    pub(crate) pause: Duration,
}

impl FloorCaller {
    /// Connects to the broker of this many nodes.
    pub(crate) async fn connect(url: &str, nodes: usize) -> Self {
        let client = connect(url.to_owned(), nodes).await;
        let reply_to = client.new_inbox();
        let answers = client.subscribe(reply_to.clone()).await.unwrap();
        client.flush().await.unwrap();
        Self {
            client,
            key: derive_key("asker"),
            node_keys: (0..nodes).map(|number| node_key(number).verifying_key()).collect(),
            answers,
            reply_to,
            pause: Duration::ZERO,
        }
    }

    /// Calls all nodes once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> TimeSpent {
        let call = match contender {
            Contender::Raw => self.call_plain().left_future(),
            _ => self.call_signed().right_future(),
        };
        tokio::time::timeout(MEASUREMENT_TIMEOUT, call)
            .await
            .unwrap_or_else(|_| panic!("not all nodes replied within {MEASUREMENT_TIMEOUT:?}"))
    }

    async fn call_plain(&mut self) -> TimeSpent {
        let watch = Stopwatch::start();
        self.publish(PLAIN_SUBJECT, vec![b'q'; REQUEST_BYTES]).await;
        for _ in 0..self.node_keys.len() {
            let answer = self.answers.next().await.unwrap();
            assert_eq!(answer.payload.len(), REPLY_BYTES);
        }
        watch.stop()
    }

    async fn call_signed(&mut self) -> TimeSpent {
        let watch = Stopwatch::start();
        let request = sign(vec![b'q'; REQUEST_BYTES], &self.key);
        self.publish(SIGNED_SUBJECT, request).await;
        let mut remaining = self.node_keys.len();
        while remaining > 0 {
            let mut batch = vec![self.answers.next().await.unwrap()];
            while batch.len() < MAX_BATCH
                && let Some(Some(answer)) = self.answers.next().now_or_never()
            {
                batch.push(answer);
            }
            self.verify(&batch);
            remaining -= batch.len();
        }
        watch.stop()
    }

    async fn publish(&self, subject: &'static str, payload: Vec<u8>) {
        let reply_to = self.reply_to.clone();
        let published = self.client.publish_with_reply(subject, reply_to, payload.into());
        published.await.unwrap();
        if !self.pause.is_zero() {
            self.client.flush().await.unwrap();
            pause_thread(self.pause);
        }
    }

    fn verify(&self, answers: &[Message]) {
        let signed: Vec<(&[u8], Signature)> =
            answers.iter().map(|answer| split_signature(&answer.payload)).collect();
        let sender = |(body, _): &(&[u8], Signature)| {
            let number = u64::from_be_bytes(*body.first_chunk().unwrap());
            *self.node_keys.get(usize::try_from(number).unwrap()).unwrap()
        };
        let keys: Vec<VerifyingKey> = signed.iter().map(sender).collect();
        let (bodies, signatures): (Vec<&[u8]>, Vec<Signature>) = signed.into_iter().unzip();
        verify_batch(&bodies, &signatures, &keys).unwrap();
    }
}

/// A node on a plain connection.
struct BareNode {
    client: Client,
    key: SigningKey,
    caller: VerifyingKey,
    answer: Vec<u8>,
}

impl BareNode {
    async fn start(client: Client, number: usize) {
        let mut requests = client.subscribe("ask.*").await.unwrap();
        // After this round trip, the broker knows the subscription.
        let probe = client.new_inbox();
        let mut echo = client.subscribe(probe.clone()).await.unwrap();
        client.publish(probe, "".into()).await.unwrap();
        echo.next().await.unwrap();
        drop(echo);
        let mut answer = u64::try_from(number).unwrap().to_be_bytes().to_vec();
        answer.resize(REPLY_BYTES, b'a');
        let node = Arc::new(Self {
            client,
            key: node_key(number),
            caller: derive_key("asker").verifying_key(),
            answer,
        });
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                node.answer(request).await;
            }
        });
    }

    async fn answer(&self, request: Message) {
        let answer = if request.subject.as_str() == SIGNED_SUBJECT {
            let (body, signature) = split_signature(&request.payload);
            self.caller.verify_strict(body, &signature).unwrap();
            sign(self.answer.clone(), &self.key)
        } else {
            self.answer.clone()
        };
        let reply_to = request.reply.unwrap();
        self.client.publish(reply_to, answer.into()).await.unwrap();
    }
}

async fn connect(url: String, answers: usize) -> Client {
    ConnectOptions::new().subscription_capacity(answers.max(1024) * 2).connect(url).await.unwrap()
}

/// A key that is derived from a name, so that both sides know each other's keys beforehand.
fn derive_key(name: &str) -> SigningKey {
    SigningKey::from_bytes(&Sha256::digest(name).into())
}

fn node_key(number: usize) -> SigningKey {
    derive_key(&format!("node {number}"))
}

/// The body, followed by its signature.
fn sign(mut body: Vec<u8>, key: &SigningKey) -> Vec<u8> {
    let signature = key.sign(&body).to_bytes();
    body.extend_from_slice(&signature);
    body
}

fn split_signature(signed: &[u8]) -> (&[u8], Signature) {
    let (body, signature) = signed.split_last_chunk().unwrap();
    (body, Signature::from_bytes(signature))
}
