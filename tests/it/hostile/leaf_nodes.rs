//! What stolen credentials of a leaf node permit: over the raw protocol of leaf nodes, also from a side that claims to be the hub.

use std::collections::BTreeSet;

use muster_tests::cluster::free_ports;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect, options};
use muster_tests::raw_nats::RawNats;
use muster_wire::sign::Signer;
use muster_wire::stores;
use muster_wire::token::UserRole;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

/// Subjects that nodes and callers publish, so a leaf node may.
const PERMITTED_PUBLISH: [&str; 6] = [
    "muster.rpcutil.ping.all",
    "muster.rpcutil.ping.node.web1.example.net",
    "_R.UKEY.0123.web1.example.net",
    "_E.0123.web1.example.net",
    "_T.UKEY.0123.web1.example.net",
    "$KV.PERMITS.claim.1.web1.example.net",
];

/// Subjects that neither nodes nor callers publish.
const REFUSED_PUBLISH: [&str; 23] = [
    "$SYS.REQ.CLAIMS.UPDATE",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.EVIL",
    "$JS.API.STREAM.UPDATE.KV_TRUST",
    "$JS.API.STREAM.DELETE.KV_TRUST",
    "$JS.API.STREAM.PURGE.KV_PERMITS",
    "$JS.API.STREAM.MSG.GET.KV_PROVISION",
    "$JS.API.CONSUMER.CREATE.KV_TRUST",
    "$JS.API.DIRECT.GET.KV_PROVISION",
    "$JS.API.DIRECT.GET.KV_TRUST",
    "$KV.TRUST.account",
    "$KV.TRUST.head",
    "$KV.TRUST.token.web1.example.net",
    "$KV.PROVISION.leader",
    "$KV.TOKENS.web1.example.net",
    "$KV.SCHEDULES.x",
    "$KV.FORGOTTEN.web1.example.net",
    "_W.TRUST.head",
    "_W.PERMITS.claim.2.web1.example.net",
    "_INBOX.UKEY.x",
    "foreign.rpcutil.ping.all",
];

/// Subjects that nodes and callers subscribe to.
const PERMITTED_SUBSCRIBE: [&str; 6] = [
    "muster.rpcutil.ping.all",
    "muster.rpcutil.ping.node.web1.example.net",
    "_W.TRUST.head",
    "_T.UKEY.0123.web1.example.net",
    "_R.UKEY.0123.web1.example.net",
    "_INBOX.UKEY.x",
];

/// Subjects that neither nodes nor callers subscribe to, and the subscriptions that would include them.
const REFUSED_SUBSCRIBE: [(&str, &str); 9] = [
    (">", "evil.x"),
    ("$JS.API.>", "$JS.API.STREAM.NAMES"),
    ("$KV.PROVISION.>", "$KV.PROVISION.x"),
    ("$KV.>", "$KV.OTHER.x"),
    ("_W.PROVISION.>", "_W.PROVISION.x"),
    ("_W.TRUST.token.>", "_W.TRUST.token.web1.example.net"),
    ("$SYS.>", "$SYS.REQ.x"),
    ("_CONFIRM", "_CONFIRM"),
    ("foreign.>", "foreign.rpcutil.ping.all"),
];

/// A broker that accepts leaf nodes.
struct LeafBroker {
    server: NatsServer,
    port: u16,
    /// The certificate of the port for leaf nodes, if it has one.
    certificate: Option<CertificateDer<'static>>,
    _files: TempDir,
}

impl LeafBroker {
    /// Starts a broker whose port for leaf nodes needs TLS, or does not.
    async fn start(organisation: &Organisation, with_tls: bool) -> Self {
        let ([port], files) = (free_ports(), TempDir::new().unwrap());
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let (mut tls, mut certificate) = (String::new(), None);
        if with_tls {
            let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            std::fs::write(path("broker.pem"), issued.cert.pem()).unwrap();
            std::fs::write(path("broker.key"), issued.signing_key.serialize_pem()).unwrap();
            certificate = Some(issued.cert.der().clone());
            let (file, key) = (path("broker.pem"), path("broker.key"));
            tls = format!(", tls: {{ cert_file: \"{file}\", key_file: \"{key}\", timeout: 5 }}");
        }
        // As in the generated configuration: the server itself denies nothing on the connection.
        let account = organisation.trust().account_key();
        let text = format!(
            "{}jetstream: {{ store_dir: \"@DIRECTORY@/jetstream\", max_file: 6GB }}\n\
             default_js_domain: {{ {account}: \"\" }}\n\
             leafnodes: {{ listen: \"127.0.0.1:{port}\"{tls} }}\n",
            organisation.broker_configuration()
        );
        let server = NatsServer::start(&text).await;
        organisation.declare_stores(&server, 1).await;
        Self { server, port, certificate, _files: files }
    }

    async fn connect(&self, thief: &Signer, is_hub: bool) -> RawNats {
        RawNats::connect_leaf(self.port, self.certificate.as_ref(), thief, is_hub).await
    }
}

#[tokio::test]
async fn stolen_leaf_credentials_publish_only_what_nodes_and_callers_publish() {
    publish_everything(false).await;
}

#[tokio::test]
async fn stolen_leaf_credentials_publish_no_more_over_tls() {
    publish_everything(true).await;
}

async fn publish_everything(with_tls: bool) {
    let organisation = Organisation::new(&["muster"]);
    let broker = LeafBroker::start(&organisation, with_tls).await;
    let thief = organisation.leaf("berlin");
    for is_hub in [false, true] {
        let (spy, mut everything) = organisation.subscribe_all(&broker.server).await;
        // The broker closes the connection of a leaf node that publishes something else, so each attempt has its own.
        for subject in REFUSED_PUBLISH.iter().chain(&PERMITTED_PUBLISH) {
            for reply in ["", "_INBOX.UKEY.reply"] {
                let mut leaf = broker.connect(&thief, is_hub).await;
                leaf.publish_leaf(subject, reply, "{}").await;
                let (output, is_closed) = leaf.sync_or_closed().await;
                let is_permitted = PERMITTED_PUBLISH.contains(subject);
                assert!(is_hub || is_closed != is_permitted, "{subject}: {output:?}");
            }
        }
        // What was sent before arrives before this.
        spy.publish("end.of.test", "".into()).await.unwrap();
        let mut arrived = BTreeSet::new();
        loop {
            let message = everything.next().await.unwrap();
            if message.subject() == "end.of.test" {
                break;
            }
            arrived.insert(message.subject().to_owned());
        }
        for subject in REFUSED_PUBLISH {
            assert!(!arrived.contains(subject), "is_hub {is_hub}: {subject} in {arrived:?}");
        }
        for subject in PERMITTED_PUBLISH.iter().filter(|_| !is_hub) {
            assert!(arrived.contains(*subject), "{subject} is not in {arrived:?}");
        }
    }
    let administrator = connect(&broker.server, &organisation.administrator()).await;
    let answer = administrator.request("$JS.API.INFO", "".into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(answer.payload()).unwrap();
    let count = |name: &str| info.get(name).and_then(serde_json::Value::as_u64).unwrap();
    assert_eq!((count("streams"), count("consumers")), (stores::ALL_BUCKETS.len() as u64, 0));
}

/// Records and permits, and whether a leaf node with nodes `*.berlin.example.net` and `hub.example.net` may write them.
const WRITES: [(&str, bool); 10] = [
    ("$KV.NODES.web1.berlin.example.net", true),
    ("$KV.NODES.hub.example.net", true),
    ("$KV.PERMITS.claim.1.web1.berlin.example.net", true),
    ("$KV.PERMITS.beat.4.hub.example.net", true),
    ("$KV.NODES.web1.paris.example.net", false),
    ("$KV.NODES.web1.x.berlin.example.net", false),
    ("$KV.NODES.berlin.example.net", false),
    ("$KV.PERMITS.claim.1.web1.paris.example.net", false),
    ("$KV.PERMITS.wait.1.example.net", false),
    ("$KV.PERMITS.other.1.web1.berlin.example.net", false),
];

#[tokio::test]
async fn stolen_leaf_credentials_write_records_and_permits_of_the_named_nodes_only() {
    let organisation = Organisation::new(&["muster"]);
    let broker = LeafBroker::start(&organisation, true).await;
    let tags = ["nodes:*.berlin.example.net", "nodes:hub.example.net"];
    let thief = organisation.leaf_of_nodes("berlin", &tags);
    let (spy, mut everything) = organisation.subscribe_all(&broker.server).await;
    for (subject, is_permitted) in WRITES {
        let mut leaf = broker.connect(&thief, false).await;
        leaf.publish_leaf(subject, "_INBOX.UKEY.reply", "{}").await;
        let (output, is_closed) = leaf.sync_or_closed().await;
        assert_eq!(is_closed, !is_permitted, "{subject}: {output:?}");
    }
    spy.publish("end.of.test", "".into()).await.unwrap();
    let mut arrived = BTreeSet::new();
    loop {
        let message = everything.next().await.unwrap();
        if message.subject() == "end.of.test" {
            break;
        }
        arrived.insert(message.subject().to_owned());
    }
    for (subject, is_permitted) in WRITES {
        assert_eq!(arrived.contains(subject), is_permitted, "{subject}");
    }
}

#[tokio::test]
async fn stolen_leaf_credentials_receive_only_what_nodes_and_callers_receive() {
    subscribe_to_everything(false).await;
}

#[tokio::test]
async fn stolen_leaf_credentials_receive_no_more_over_tls() {
    subscribe_to_everything(true).await;
}

async fn subscribe_to_everything(with_tls: bool) {
    let organisation = Organisation::new(&["muster"]);
    let broker = LeafBroker::start(&organisation, with_tls).await;
    let thief = organisation.leaf("berlin");
    let permitted = PERMITTED_SUBSCRIBE.map(|subject| (subject, subject));
    for is_hub in [false, true] {
        let publisher = connect(&broker.server, &organisation.unrestricted_user("publisher")).await;
        for (subscription, subject) in REFUSED_SUBSCRIBE.into_iter().chain(permitted) {
            let mut leaf = broker.connect(&thief, is_hub).await;
            leaf.subscribe_leaf(subscription).await;
            let (_, is_closed) = leaf.sync_or_closed().await;
            let is_permitted = PERMITTED_SUBSCRIBE.contains(&subject);
            assert!(is_hub || !(is_permitted && is_closed), "{subscription}");
            publisher.publish(subject, "secret".into()).await.unwrap();
            publisher.confirm_delivery().await.unwrap();
            if is_closed {
                continue;
            }
            let (output, _) = leaf.sync_or_closed().await;
            let is_received = output.messages.iter().any(|(received, _)| received == subject);
            assert!(is_permitted || !is_received, "is_hub {is_hub}: {subscription}: {output:?}");
            assert!(is_hub || is_received == is_permitted, "{subscription}: {output:?}");
        }
    }
}

#[tokio::test]
async fn stolen_leaf_credentials_are_no_credentials_of_a_client() {
    let organisation = Organisation::new(&["muster"]);
    let broker = LeafBroker::start(&organisation, false).await;
    let thief = organisation.leaf("berlin");
    let refused = options(&broker.server, &thief).connect().await;
    assert!(refused.is_err(), "a client connected with the credentials of a leaf node");
    // Nodes and callers accept no message that the leaf's key signs.
    let verified = organisation.trust().verify_user(&thief.token(), muster_tests::now());
    assert_eq!(verified.unwrap_err().reason_code(), "unknown_issuer");
    assert!("leaf".parse::<UserRole>().is_err());
}

/// Neither messages nor the token of a leaf node cross the network in plain text: the broker closes such a connection, and carries nothing from it.
#[tokio::test]
async fn leaf_port_with_tls_carries_nothing_in_plain_text() {
    let organisation = Organisation::new(&["muster"]);
    let broker = LeafBroker::start(&organisation, true).await;
    let thief = organisation.leaf("berlin");
    let (spy, mut everything) = organisation.subscribe_all(&broker.server).await;
    for subject in PERMITTED_PUBLISH {
        let mut leaf = RawNats::connect_leaf(broker.port, None, &thief, false).await;
        leaf.publish_leaf(subject, "", "{}").await;
        let (output, is_closed) = leaf.sync_or_closed().await;
        assert!(is_closed && output.messages.is_empty(), "{subject}: {output:?}");
    }
    spy.publish("end.of.test", "".into()).await.unwrap();
    assert_eq!(everything.next().await.unwrap().subject(), "end.of.test");
}
