//! The small pieces that every request and reply goes through: filters, envelopes, tokens. Each beside the least that does the same.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use muster_agent::virtual_nodes::VirtualNode;
use muster_filter::NodeFilter;
use muster_filter::state::NodeView;
use muster_tests::organisation::Organisation;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{
    EnvelopeKind, ExpectedAnswer, Signer, open_replies, open_request, sign_envelope,
};
use muster_wire::status::ReplyStatus;
use muster_wire::subject::RequestAddress;
use muster_wire::token::{AccountTrust, TokenCache};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::report::{Figure, Section, Table, median};

const FILTERS: &str = "Nanoseconds for one node, over ten thousand that differ, in the median of the rounds; the closures are written by hand for \
exactly this question, on the same facts.";
const SIGNATURES: &str = "Microseconds each, in the median of the rounds. Bare verification is ed25519 strict verification of a message of the \
same size, with a key that is decoded already; opening a message reads its envelope and body besides, and holds them against what was \
expected. Many together are a thousand replies of as many nodes.";

/// Nodes that a filter is held against.
const NODES: usize = 10_000;
/// Messages that are opened together.
const TOGETHER: usize = 1000;

type Question = (&'static str, fn() -> NodeFilter, fn(&VirtualNode) -> bool);

const QUESTIONS: [Question; 5] = [
    (
        "-F country=de",
        || NodeFilter::default().with_fact("country=de").unwrap(),
        |node| text(node, "/country") == "de",
    ),
    (
        "-F processors.count>=8",
        || NodeFilter::default().with_fact("processors.count>=8").unwrap(),
        |node| value(node, "/processors/count").as_u64() >= Some(8),
    ),
    (
        "-W \"environment=development customer=acme mysql::master\"",
        || {
            NodeFilter::default()
                .with_words("environment=development customer=acme mysql::master")
                .unwrap()
        },
        |node| {
            text(node, "/environment") == "development"
                && text(node, "/customer") == "acme"
                && node.classes.iter().any(|class| class == "mysql::master")
        },
    ),
    (
        "-S \"apache and not (customer=initech or os.family=Suse)\"",
        || {
            NodeFilter::default()
                .with_select("apache and not (customer=initech or os.family=Suse)")
                .unwrap()
        },
        |node| {
            node.classes.iter().any(|class| class == "apache")
                && !(text(node, "/customer") == "initech" || text(node, "/os/family") == "Suse")
        },
    ),
    (
        "-I db3999.dev.acme.net",
        || NodeFilter::default().with_identity("db3999.dev.acme.net").unwrap(),
        |node| node.name.as_str() == "db3999.dev.acme.net",
    ),
];

fn value<'a>(node: &'a VirtualNode, pointer: &str) -> &'a Value {
    let mut names = pointer.split('/').skip(1);
    let first = node.facts.as_map().get(names.next().unwrap()).unwrap();
    names.fold(first, |value, name| value.get(name).unwrap())
}

fn text<'a>(node: &'a VirtualNode, pointer: &str) -> &'a str {
    value(node, pointer).as_str().unwrap()
}

/// Filters beside closures.
pub(crate) fn filters(rounds: usize) -> Section {
    let mut section = Section::of("Whether a node is meant", FILTERS);
    let fleet: Vec<VirtualNode> =
        (0..NODES).map(|n| VirtualNode::from_number(n).unwrap()).collect();
    let agents = ["package", "puppetral", "rpcutil", "service"].map(str::to_owned);
    let collectives = ["muster".to_owned()];
    let mut table = Table::new(["filter", "matching", "ns a node", "by hand", "x by hand"]);
    for (name, filter, by_hand) in QUESTIONS {
        let filter = filter();
        let matches = |node: &VirtualNode| {
            filter.matches(&NodeView {
                identity: node.name.as_str(),
                facts: &node.facts,
                classes: &node.classes,
                classes_known: true,
                agents: &agents,
                collectives: &collectives,
            })
        };
        let expected = fleet.iter().filter(|node| by_hand(node)).count();
        let found = fleet.iter().filter(|node| matches(node)).count();
        assert_eq!(found, expected, "{name} is not what the closure asks");
        let [ours, theirs] = turns(
            rounds,
            [&|| fleet.iter().filter(|node| matches(black_box(node))).count(), &|| {
                fleet.iter().filter(|node| by_hand(black_box(node))).count()
            }],
        )
        .map(|took| took.as_secs_f64() * 1e9 / f64::from(u32::try_from(NODES).unwrap()));
        let numbers = [ours, theirs, ours / theirs].map(|number| format!("{number:.1}"));
        let row = [name.to_owned(), expected.to_string()];
        table.rows.push(row.into_iter().chain(numbers).collect());
        let figure = Figure::ratio(format!("filter {name} x by hand"), ours / theirs);
        section.figures.push(figure.within(0.6));
    }
    section.tables.push(table);
    section
}

/// The median time of each, which take turns.
fn turns<const N: usize>(rounds: usize, work: [&dyn Fn() -> usize; N]) -> [Duration; N] {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for (work, samples) in work.iter().zip(&mut samples) {
            let begun = Instant::now();
            black_box(work());
            let took = begun.elapsed();
            if round > 0 {
                samples.push(took.as_secs_f64());
            }
        }
    }
    samples.map(|samples| Duration::from_secs_f64(median(&samples)))
}

/// Messages as they come, and whom they come from.
struct Mail {
    trust: AccountTrust,
    now: Millis,
    request: Vec<u8>,
    subject: RequestAddress,
    replies: Vec<Vec<u8>>,
    id: Uuid,
    agent: SubjectName,
    action: SubjectName,
}

impl Mail {
    fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let (agent, action) =
            (SubjectName::parse("rpcutil").unwrap(), SubjectName::parse("ping").unwrap());
        let collective = organisation.collective().clone();
        let caller = organisation.caller("regular");
        let (id, now) = (Uuid::now_v7(), muster_tests::now());
        let request = Request {
            id,
            caller: caller.identity().clone(),
            collective: collective.clone(),
            agent: agent.clone(),
            action: action.clone(),
            target: RequestTarget::Filter(NodeFilter::default()),
            issued_at: now,
            ttl: 60_000,
            timeout: None,
            reply: true,
            trace: false,
            traceparent: None,
            stream: false,
            approval: None,
            data: Map::new(),
            sealed: None,
        };
        let reply = |number: usize| {
            let member = VirtualNode::from_number(number).unwrap();
            let node = organisation.node(member.name.as_str());
            sealed_reply(&node, &member.name, id, now)
        };
        Self {
            trust: organisation.trust(),
            now,
            request: sign_envelope(EnvelopeKind::Request, &request, &caller).unwrap(),
            subject: RequestAddress {
                collective,
                agent: agent.clone(),
                action: action.clone(),
                node: None,
            },
            replies: (0..TOGETHER).map(reply).collect(),
            id,
            agent,
            action,
        }
    }

    fn open_request(&self, cache: &TokenCache) -> usize {
        let opened = open_request(&self.request, &self.subject, &self.trust, cache, self.now);
        usize::from(opened.unwrap().request.reply)
    }

    fn open_replies(&self, cache: &TokenCache) -> usize {
        let expected =
            ExpectedAnswer { request: Some(self.id), agent: &self.agent, action: &self.action };
        let opened = open_replies(&self.replies, &expected, &self.trust, cache, self.now);
        assert!(opened.iter().all(Result::is_ok));
        opened.len()
    }
}

fn sealed_reply(node: &Signer, name: &Identity, request: Uuid, now: Millis) -> Vec<u8> {
    let data = json!({"pong": now});
    let reply = Reply {
        request,
        sender: name.clone(),
        agent: SubjectName::parse("rpcutil").unwrap(),
        action: SubjectName::parse("ping").unwrap(),
        statuscode: ReplyStatus::Ok,
        statusmsg: "OK".to_owned(),
        reason: None,
        data: data.as_object().unwrap().clone(),
        time: now,
        took: 0,
        stages: Vec::new(),
        progress: None,
    };
    sign_envelope(EnvelopeKind::Reply, &reply, node).unwrap()
}

/// Messages beside bare signatures.
pub(crate) fn signatures(rounds: usize) -> Section {
    let mut section = Section::of("Whether a message is believed", SIGNATURES);
    let mail = Mail::new();
    let key = SigningKey::from_bytes(&[7; 32]);
    let signed = key.sign(&mail.request);
    let known = TokenCache::default();
    mail.open_request(&known);
    mail.open_replies(&known);
    let many = u32::try_from(TOGETHER).unwrap();
    let work: [(&str, u32, &dyn Fn() -> usize); 6] = [
        ("bare verification", 1, &|| bare(&key.verifying_key(), &mail.request, &signed)),
        ("bare signature", 1, &|| usize::from(key.sign(black_box(&mail.request)).to_bytes()[0])),
        ("a request of a caller who is known", 1, &|| mail.open_request(&known)),
        ("a request of a new caller, token included", 1, &|| {
            mail.open_request(&TokenCache::default())
        }),
        ("a reply among many, of nodes that are known", many, &|| mail.open_replies(&known)),
        ("a reply among many, of new nodes, tokens included", many, &|| {
            mail.open_replies(&TokenCache::default())
        }),
    ];
    let names: Vec<&str> = work.iter().map(|(name, ..)| *name).collect();
    // A single one is too short for the clock.
    let repeated = work.map(|(_, at_once, work)| {
        let times = (many / at_once).max(1);
        move || (0..times).map(|_| work()).sum()
    });
    let each: Vec<&dyn Fn() -> usize> = repeated.iter().map(|work| work as _).collect();
    let each: [&dyn Fn() -> usize; 6] = each.try_into().unwrap_or_else(|_| panic!("there are six"));
    let micros = turns(rounds, each).map(|took| took.as_secs_f64() * 1e6 / f64::from(many));
    let [verification, ..] = micros;
    let mut table = Table::new(["", "us each", "x bare verification"]);
    for (name, us) in names.into_iter().zip(micros) {
        let ratio = us / verification;
        table.rows.push(vec![name.to_owned(), format!("{us:.1}"), format!("{ratio:.2}")]);
        if !name.starts_with("bare") {
            let figure = Figure::ratio(format!("{name} x bare verification"), ratio);
            section.figures.push(figure.within(0.25));
        }
    }
    section.tables.push(table);
    section
}

fn bare(key: &VerifyingKey, message: &[u8], signature: &Signature) -> usize {
    key.verify_strict(black_box(message), signature).unwrap();
    1
}

#[cfg(test)]
mod tests {
    use muster_wire::token::TokenCache;

    use super::{Mail, TOGETHER, filters};

    #[test]
    fn messages_are_believed_and_filters_ask_what_the_closures_ask() {
        let mail = Mail::new();
        assert_eq!(mail.open_request(&TokenCache::default()), 1);
        assert_eq!(mail.open_replies(&TokenCache::default()), TOGETHER);
        // It compares what both find before it measures.
        assert_eq!(filters(1).figures.len(), 5);
    }
}
