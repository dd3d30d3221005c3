//! The floor: what N answers cost at least, on bare NATS connections.
//!
//! Every node has one subscription, on a connection of its own or on one of a few that all share. The signed floor is the cheapest honest
//! one: keys are known beforehand on both sides, there is no token, no nonce, no replay check, no policy, no audit and no JSON.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Message, Subscriber};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey, verify_batch};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use muster_tests::nats_server::NatsServer;
use sha2::{Digest as _, Sha256};

use crate::measure::Contender;
use crate::process::{Stopwatch, Took, look_away};

/// Bytes of a question, without its signature.
const QUESTION: usize = 200;
/// Bytes of an answer, without its signature.
const ANSWER: usize = 300;
/// Answers that the asker verifies together at most; the same as in our client.
const BATCH: usize = 1024;
/// Nodes that connect at the same time.
pub(crate) const CONNECTING: usize = 64;
/// A measurement that takes longer is a broken one.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

const PLAIN: &str = "ask.plain";
const SIGNED: &str = "ask.signed";

/// Bare nodes, their broker, and one that asks.
pub(crate) struct Floor {
    asker: Asker,
    server: NatsServer,
}

impl Floor {
    /// Starts a broker and connects everybody; over `shared` connections, if so many are to be shared by all nodes.
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
            .for_each_concurrent(CONNECTING, |number| async move {
                PuppetNode::start(connection(number).await, number).await;
            })
            .await;
        Self { asker: Asker::connect(&server.url(), nodes).await, server }
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> String {
        self.asker.client.server_info().version
    }

    /// Where the broker is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Asks everybody once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> Took {
        self.asker.measure(contender).await
    }
}

/// One that asks bare nodes, wherever they are.
pub(crate) struct Asker {
    client: Client,
    key: SigningKey,
    node_keys: Vec<VerifyingKey>,
    answers: Subscriber,
    reply_to: String,
    /// How long it looks away once it has asked.
    pub(crate) pause: Duration,
}

impl Asker {
    /// Connects to the broker of so many nodes.
    pub(crate) async fn connect(url: &str, nodes: usize) -> Self {
        let client = connect(url.to_owned(), nodes).await;
        let reply_to = client.new_inbox();
        let answers = client.subscribe(reply_to.clone()).await.unwrap();
        client.flush().await.unwrap();
        Self {
            client,
            key: key("asker"),
            node_keys: (0..nodes).map(|number| node_key(number).verifying_key()).collect(),
            answers,
            reply_to,
            pause: Duration::ZERO,
        }
    }

    /// Asks everybody once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> Took {
        let asked = match contender {
            Contender::Raw => self.ask_plain().left_future(),
            _ => self.ask_signed().right_future(),
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .unwrap_or_else(|_| panic!("not all nodes answered within {PATIENCE:?}"))
    }

    async fn ask_plain(&mut self) -> Took {
        let watch = Stopwatch::start();
        self.publish(PLAIN, vec![b'q'; QUESTION]).await;
        for _ in 0..self.node_keys.len() {
            let answer = self.answers.next().await.unwrap();
            assert_eq!(answer.payload.len(), ANSWER);
        }
        watch.stop()
    }

    async fn ask_signed(&mut self) -> Took {
        let watch = Stopwatch::start();
        let question = sign(vec![b'q'; QUESTION], &self.key);
        self.publish(SIGNED, question).await;
        let mut left = self.node_keys.len();
        while left > 0 {
            let mut batch = vec![self.answers.next().await.unwrap()];
            while batch.len() < BATCH
                && let Some(Some(answer)) = self.answers.next().now_or_never()
            {
                batch.push(answer);
            }
            self.verify(&batch);
            left -= batch.len();
        }
        watch.stop()
    }

    async fn publish(&self, subject: &'static str, payload: Vec<u8>) {
        let reply_to = self.reply_to.clone();
        let published = self.client.publish_with_reply(subject, reply_to, payload.into());
        published.await.unwrap();
        if !self.pause.is_zero() {
            self.client.flush().await.unwrap();
            look_away(self.pause);
        }
    }

    fn verify(&self, answers: &[Message]) {
        let signed: Vec<(&[u8], Signature)> =
            answers.iter().map(|answer| split(&answer.payload)).collect();
        let sender = |(body, _): &(&[u8], Signature)| {
            let number = u64::from_be_bytes(*body.first_chunk().unwrap());
            *self.node_keys.get(usize::try_from(number).unwrap()).unwrap()
        };
        let keys: Vec<VerifyingKey> = signed.iter().map(sender).collect();
        let (bodies, signatures): (Vec<&[u8]>, Vec<Signature>) = signed.into_iter().unzip();
        verify_batch(&bodies, &signatures, &keys).unwrap();
    }
}

/// One bare node.
struct PuppetNode {
    client: Client,
    key: SigningKey,
    asker: VerifyingKey,
    answer: Vec<u8>,
}

impl PuppetNode {
    async fn start(client: Client, number: usize) {
        let mut questions = client.subscribe("ask.*").await.unwrap();
        // A round trip: afterwards the broker knows the subscription.
        let probe = client.new_inbox();
        let mut echo = client.subscribe(probe.clone()).await.unwrap();
        client.publish(probe, "".into()).await.unwrap();
        echo.next().await.unwrap();
        drop(echo);
        let mut answer = u64::try_from(number).unwrap().to_be_bytes().to_vec();
        answer.resize(ANSWER, b'a');
        let node = Arc::new(Self {
            client,
            key: node_key(number),
            asker: key("asker").verifying_key(),
            answer,
        });
        tokio::spawn(async move {
            while let Some(question) = questions.next().await {
                node.answer(question).await;
            }
        });
    }

    async fn answer(&self, question: Message) {
        let answer = if question.subject.as_str() == SIGNED {
            let (body, signature) = split(&question.payload);
            self.asker.verify_strict(body, &signature).unwrap();
            sign(self.answer.clone(), &self.key)
        } else {
            self.answer.clone()
        };
        let reply_to = question.reply.unwrap();
        self.client.publish(reply_to, answer.into()).await.unwrap();
    }
}

async fn connect(url: String, answers: usize) -> Client {
    ConnectOptions::new().subscription_capacity(answers.max(1024) * 2).connect(url).await.unwrap()
}

/// A key that everybody can make again who knows its name: the sides know each other's beforehand.
fn key(name: &str) -> SigningKey {
    SigningKey::from_bytes(&Sha256::digest(name).into())
}

fn node_key(number: usize) -> SigningKey {
    key(&format!("node {number}"))
}

/// The body, and its signature behind it.
fn sign(mut body: Vec<u8>, key: &SigningKey) -> Vec<u8> {
    let signature = key.sign(&body).to_bytes();
    body.extend_from_slice(&signature);
    body
}

fn split(signed: &[u8]) -> (&[u8], Signature) {
    let (body, signature) = signed.split_last_chunk().unwrap();
    (body, Signature::from_bytes(signature))
}
