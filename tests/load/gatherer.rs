//! A simulated gatherer: it sends a caller's own signed request to all nodes of its region, verifies the replies and returns them in pages.
//!
//! ```text
//! _GATHER.<region>.<form>            the caller's request, as the nodes receive it
//! _R.<caller>.<request>.<region>     a page: one byte, 1 for the last page; then the compressed replies
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use muster_bus::{Bus, BusMessage, BusSubscription};
use muster_wire::reply::Reply;
use muster_wire::sign::{
    Envelope, EnvelopeKind, ExpectedAnswer, OpenReply, Signer, open_replies, open_request,
};
use muster_wire::subject::{AnswerAddress, RequestAddress, broadcast_request};
use muster_wire::token::{AccountTrust, TokenCache};

/// Number of replies in a page.
const PAGE: usize = 500;

/// The only request that is simulated.
const REQUEST_SUBJECT: &str = "muster.rpcutil.ping.all";

/// What a page has of each reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageForm {
    /// The message, with the node's token and signature.
    Messages,
    /// The message, with the node's key in place of its token; the caller has the token.
    Signatures,
    /// The result without the node's signature; the gatherer signs the page.
    Results,
}

impl PageForm {
    pub(crate) const ALL: [Self; 3] = [Self::Messages, Self::Signatures, Self::Results];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Signatures => "signatures",
            Self::Results => "results",
        }
    }
}

/// The gatherer of one region.
pub(crate) struct Gatherer {
    pub(crate) name: String,
    pub(crate) signer: Signer,
    pub(crate) region: Bus,
    pub(crate) hub: Bus,
    pub(crate) trust: AccountTrust,
    pub(crate) cache: TokenCache,
    /// Number of nodes that will reply.
    pub(crate) nodes: usize,
}

/// The subject of a gatherer's requests.
pub(crate) fn gather_subject(region: &str, form: PageForm) -> String {
    format!("_GATHER.{region}.{}", form.name())
}

impl Gatherer {
    /// Its subscription at the hub.
    pub(crate) async fn subscribe(&self) -> BusSubscription {
        self.hub.subscribe(&format!("_GATHER.{}.*", self.name)).await.unwrap()
    }

    /// Serves requests until the hub closes.
    pub(crate) async fn serve(self, mut requests: BusSubscription) {
        while let Some(request) = requests.next().await {
            let form = PageForm::ALL
                .into_iter()
                .find(|form| request.subject().ends_with(form.name()))
                .unwrap();
            self.gather(&request, form).await;
        }
    }

    async fn gather(&self, message: &BusMessage, form: PageForm) {
        let subject = RequestAddress::parse(REQUEST_SUBJECT).unwrap();
        let now = muster_tests::now();
        let opened =
            open_request(message.payload(), &subject, &self.trust, &self.cache, now).unwrap();
        let request = opened.request;
        let answers = AnswerAddress::of_request(&opened.caller.key.to_string(), &request.id);
        let mut replies = self.region.subscribe(&answers.subscription_pattern()).await.unwrap();
        let broadcast = broadcast_request(&request.collective, &request.agent, &request.action);
        let payload = message.payload().clone();
        self.region.publish_with_reply(&broadcast, &answers.of_broadcast(), payload).await.unwrap();
        let expected = ExpectedAnswer {
            request: Some(request.id),
            agent: &request.agent,
            action: &request.action,
        };
        let mut remaining = self.nodes;
        while remaining > 0 {
            let mut messages = Vec::with_capacity(PAGE);
            while messages.len() < PAGE.min(remaining) {
                messages.push(replies.next().await.unwrap().payload().clone());
            }
            remaining -= messages.len();
            let opened = open_replies(&messages, &expected, &self.trust, &self.cache, now);
            let opened: Vec<OpenReply> = opened.into_iter().map(Result::unwrap).collect();
            let page = self.build_page(&messages, &opened, form, remaining == 0);
            let subject = message.reply_to().unwrap();
            self.hub.publish(subject, page.into()).await.unwrap();
        }
        self.region.drain_subscription(&mut replies).await.unwrap();
    }

    fn build_page<M: AsRef<[u8]>>(
        &self,
        messages: &[M],
        opened: &[OpenReply],
        form: PageForm,
        is_last: bool,
    ) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(vec![u8::from(is_last)], Compression::fast());
        for (message, opened) in messages.iter().zip(opened) {
            let line = match form {
                PageForm::Messages => std::str::from_utf8(message.as_ref()).unwrap().to_owned(),
                PageForm::Signatures => {
                    let envelope = Envelope::decode(EnvelopeKind::Reply, message.as_ref()).unwrap();
                    let text = std::str::from_utf8(message.as_ref()).unwrap();
                    text.replacen(envelope.token(), &opened.sender.key.to_string(), 1)
                }
                PageForm::Results => serde_json::to_string(&opened.reply).unwrap(),
            };
            writeln!(encoder, "{line}").unwrap();
        }
        let mut page = encoder.finish().unwrap();
        if form == PageForm::Results {
            let signature = self.signer.key_pair().sign(&page).to_bytes();
            page.extend_from_slice(&signature);
        }
        page
    }
}

/// What a caller knows to read pages.
pub(crate) struct PageReader<'a> {
    pub(crate) trust: &'a AccountTrust,
    pub(crate) cache: &'a TokenCache,
    /// Tokens of nodes, by key; filled by the first pages of messages.
    pub(crate) tokens: &'a RefCell<HashMap<String, String>>,
    /// Whether tokens are still unknown.
    pub(crate) learns_tokens: bool,
    pub(crate) gatherers: &'a HashMap<String, Signer>,
    pub(crate) expected: ExpectedAnswer<'a>,
}

impl PageReader<'_> {
    /// The verified replies of a page, and whether it is the region's last page.
    pub(crate) fn read(&self, message: &BusMessage, form: PageForm) -> (Vec<Reply>, bool) {
        let bytes = match form {
            PageForm::Results => self.verify_page(message),
            PageForm::Messages | PageForm::Signatures => message.payload(),
        };
        let (flag, compressed) = bytes.split_first().unwrap();
        let mut text = String::new();
        DeflateDecoder::new(compressed).read_to_string(&mut text).unwrap();
        let replies = match form {
            PageForm::Results => {
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
            }
            PageForm::Messages => self.verify(&text.lines().collect::<Vec<_>>()),
            PageForm::Signatures => {
                let messages: Vec<String> =
                    text.lines().map(|line| self.restore_token(line)).collect();
                self.verify(&messages)
            }
        };
        (replies, *flag == 1)
    }

    fn verify<M: AsRef<[u8]>>(&self, messages: &[M]) -> Vec<Reply> {
        let now = muster_tests::now();
        let opened = open_replies(messages, &self.expected, self.trust, self.cache, now);
        let opened: Vec<OpenReply> = opened.into_iter().map(Result::unwrap).collect();
        if self.learns_tokens {
            for (message, opened) in messages.iter().zip(&opened) {
                let envelope = Envelope::decode(EnvelopeKind::Reply, message.as_ref()).unwrap();
                let key = opened.sender.key.to_string();
                self.tokens.borrow_mut().insert(key, envelope.token().to_owned());
            }
        }
        opened.into_iter().map(|opened| opened.reply).collect()
    }

    fn restore_token(&self, line: &str) -> String {
        let envelope: Key<'_> = serde_json::from_str(line).unwrap();
        line.replacen(envelope.token, self.tokens.borrow().get(envelope.token).unwrap(), 1)
    }

    /// The page without its signature, which must be that of the region's gatherer.
    fn verify_page<'m>(&self, message: &'m BusMessage) -> &'m [u8] {
        let region = message.subject().rsplit('.').next().unwrap();
        let (page, signature) = message.payload().split_last_chunk::<64>().unwrap();
        let key = self.gatherers.get(region).unwrap().public_key().verifying_key().unwrap();
        key.verify_strict(page, &ed25519_dalek::Signature::from_bytes(signature)).unwrap();
        page
    }
}

/// The part of a message without a token that names the node's key.
#[derive(serde::Deserialize)]
struct Key<'a> {
    token: &'a str,
}
