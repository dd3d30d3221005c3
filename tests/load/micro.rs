//! The parts that every request and reply passes through: filters, envelopes, tokens. Each is compared with the minimum
//! for the same result.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use muster_agent::commands::virtual_nodes::VirtualNode;
use muster_filter::NodeFilter;
use muster_filter::state::NodeView;
use muster_tests::organisation::Organisation;
use muster_tests::requests::unsigned_request;
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
use serde_json::{Value, json};
use uuid::Uuid;

use crate::report::{Figure, Section, Table, median};

const FILTERS: &str = "Nanoseconds per node, for 10,000 different nodes, median of the rounds; the closures are hand-written for exactly this \
condition, with the same facts.";
const SIGNATURES: &str = "Microseconds each, median of the rounds. Bare verification is ed25519 strict verification of a message of the \
same size with a decoded key; opening a message also parses its envelope and body, and compares them with the expected \
values. Many together are 1000 replies of as many nodes.";

/// Number of nodes that a filter is evaluated for.
const NODES: usize = 10_000;
/// Number of messages that are opened together.
const BATCH_SIZE: usize = 1000;

type FilterCase = (&'static str, fn() -> NodeFilter, fn(&VirtualNode) -> bool);

const FILTER_CASES: [FilterCase; 5] = [
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

/// Filters compared with closures.
pub(crate) fn bench_filters(rounds: usize) -> Section {
    let mut section = Section::of("Matching a filter", FILTERS);
    let fleet: Vec<VirtualNode> =
        (0..NODES).map(|n| VirtualNode::from_number(n).unwrap()).collect();
    let agents = ["package", "puppetral", "rpcutil", "service"].map(str::to_owned);
    let collectives = ["muster".to_owned()];
    let mut table = Table::new(["filter", "matching", "ns per node", "by hand", "x by hand"]);
    for (name, filter, by_hand) in FILTER_CASES {
        let filter = filter();
        let matches = |node: &VirtualNode| {
            filter.matches(
                &NodeView::new(node.name.as_str(), &node.facts)
                    .with_classes(Some(&node.classes))
                    .with_agents(&agents)
                    .with_collectives(&collectives),
            )
        };
        let expected = fleet.iter().filter(|node| by_hand(node)).count();
        let found = fleet.iter().filter(|node| matches(node)).count();
        assert_eq!(found, expected, "{name} does not match the closure");
        let [filter_ns, closure_ns] = time_in_turns(
            rounds,
            [&|| fleet.iter().filter(|node| matches(black_box(node))).count(), &|| {
                fleet.iter().filter(|node| by_hand(black_box(node))).count()
            }],
        )
        .map(|elapsed| elapsed.as_secs_f64() * 1e9 / f64::from(u32::try_from(NODES).unwrap()));
        let numbers =
            [filter_ns, closure_ns, filter_ns / closure_ns].map(|number| format!("{number:.1}"));
        let row = [name.to_owned(), expected.to_string()];
        table.rows.push(row.into_iter().chain(numbers).collect());
        let figure = Figure::ratio(format!("filter {name} x by hand"), filter_ns / closure_ns);
        section.figures.push(figure.within(0.6));
    }
    section.tables.push(table);
    section
}

/// The median time of each closure; the closures take turns.
fn time_in_turns<const N: usize>(rounds: usize, work: [&dyn Fn() -> usize; N]) -> [Duration; N] {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for (work, samples) in work.iter().zip(&mut samples) {
            let started = Instant::now();
            black_box(work());
            let elapsed = started.elapsed();
            if round > 0 {
                samples.push(elapsed.as_secs_f64());
            }
        }
    }
    samples.map(|samples| Duration::from_secs_f64(median(&samples)))
}

/// Messages as they arrive, and the keys for their verification.
struct Messages {
    trust: AccountTrust,
    now: Millis,
    request: Vec<u8>,
    subject: RequestAddress,
    replies: Vec<Vec<u8>>,
    id: Uuid,
    agent: SubjectName,
    action: SubjectName,
}

impl Messages {
    fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let (agent, action) =
            (SubjectName::parse("rpcutil").unwrap(), SubjectName::parse("ping").unwrap());
        let collective = organisation.collective().clone();
        let caller = organisation.caller("regular");
        let (id, now) = (Uuid::now_v7(), muster_tests::now());
        let request = Request {
            id,
            issued_at: now,
            ..unsigned_request(
                caller.identity(),
                [collective.as_str(), agent.as_str(), action.as_str()],
                RequestTarget::Filter(NodeFilter::default()),
            )
        };
        let reply = |number: usize| {
            let node = VirtualNode::from_number(number).unwrap();
            let signer = organisation.node(node.name.as_str());
            signed_reply(&signer, &node.name, id, now)
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
            replies: (0..BATCH_SIZE).map(reply).collect(),
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

fn signed_reply(node: &Signer, name: &Identity, request: Uuid, now: Millis) -> Vec<u8> {
    let data = json!({"pong": now});
    let reply = Reply {
        request,
        sender: name.clone(),
        agent: SubjectName::parse("rpcutil").unwrap(),
        action: SubjectName::parse("ping").unwrap(),
        statuscode: ReplyStatus::Ok,
        statusmsg: "OK".into(),
        reason: None,
        data: data.as_object().unwrap().clone(),
        time: now,
        took: 0,
        stages: Vec::new(),
        progress: None,
        cloned: false,
    };
    sign_envelope(EnvelopeKind::Reply, &reply, node).unwrap()
}

/// Messages compared with bare signatures.
pub(crate) fn bench_signatures(rounds: usize) -> Section {
    let mut section = Section::of("Verifying a message", SIGNATURES);
    let messages = Messages::new();
    let key = SigningKey::from_bytes(&[7; 32]);
    let signed = key.sign(&messages.request);
    let known = TokenCache::default();
    messages.open_request(&known);
    messages.open_replies(&known);
    let many = u32::try_from(BATCH_SIZE).unwrap();
    let work: [(&str, u32, &dyn Fn() -> usize); 6] = [
        ("bare verification", 1, &|| verify_bare(&key.verifying_key(), &messages.request, &signed)),
        ("bare signature", 1, &|| {
            usize::from(key.sign(black_box(&messages.request)).to_bytes()[0])
        }),
        ("a request of a caller who is known", 1, &|| messages.open_request(&known)),
        ("a request of a new caller, token included", 1, &|| {
            messages.open_request(&TokenCache::default())
        }),
        ("a reply among many, of nodes that are known", many, &|| messages.open_replies(&known)),
        ("a reply among many, of new nodes, tokens included", many, &|| {
            messages.open_replies(&TokenCache::default())
        }),
    ];
    let names: Vec<&str> = work.iter().map(|(name, ..)| *name).collect();
    // A single operation is too short for the clock.
    let repeated = work.map(|(_, at_once, work)| {
        let times = (many / at_once).max(1);
        move || (0..times).map(|_| work()).sum()
    });
    let each: Vec<&dyn Fn() -> usize> = repeated.iter().map(|work| work as _).collect();
    let each: [&dyn Fn() -> usize; 6] = each.try_into().unwrap_or_else(|_| panic!("there are six"));
    let micros =
        time_in_turns(rounds, each).map(|elapsed| elapsed.as_secs_f64() * 1e6 / f64::from(many));
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

fn verify_bare(key: &VerifyingKey, message: &[u8], signature: &Signature) -> usize {
    key.verify_strict(black_box(message), signature).unwrap();
    1
}

#[cfg(test)]
mod tests {
    use muster_wire::token::TokenCache;

    use super::{BATCH_SIZE, Messages, bench_filters};

    #[test]
    fn messages_verify_and_filters_match_the_closures() {
        let messages = Messages::new();
        assert_eq!(messages.open_request(&TokenCache::default()), 1);
        assert_eq!(messages.open_replies(&TokenCache::default()), BATCH_SIZE);
        // The bench compares the results of both before it measures.
        assert_eq!(bench_filters(1).figures.len(), 5);
    }
}
