//! Forged, replayed, stale, misdirected and foreign messages are refused, and the daemon keeps running.

use muster_bus::{BusEvent, Bytes};
use muster_node::ground::clock::WallClock;
use muster_tests::command::RpcCommand;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::{Broker, Organisation, connect, options};
use muster_tests::{await_state, now};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::subject;
use muster_wire::token::{TokenCache, UserRole};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::broadcast;

use crate::fake_node::{FakeNodeFixture, pong_reply, reply_subject};
use crate::node_fixture::{NodeFixture, SHORT_WAIT, TestCaller};

/// Messages that must get no reply; each is counted and audited with its reason.
#[tokio::test]
async fn unauthentic_messages_get_no_reply() {
    let fixture = NodeFixture::new(|_| {}).await;
    let caller = &fixture.caller;
    let good = caller.ping_request();
    let signed = caller.sign_request(&good);
    let subject = TestCaller::request_subject(&good);
    let text = String::from_utf8(signed.to_vec()).unwrap();

    let foreign_caller = Organisation::new(&["muster"]).caller("rip");
    let forged = sign_envelope(EnvelopeKind::Request, &good, &foreign_caller).unwrap();
    let other_caller = fixture.organisation.caller("anna");
    let with_wrong_sender = sign_envelope(EnvelopeKind::Request, &good, &other_caller).unwrap();
    let node_key = fixture.organisation.node("node2.example.net");
    let signed_by_node = sign_envelope(
        EnvelopeKind::Request,
        &Request { caller: node_key.identity().clone(), ..good.clone() },
        &node_key,
    )
    .unwrap();
    let expired_token =
        fixture.organisation.user_until(UserRole::Caller, "rip", &["agent:*"], Some(1_700_000_000));
    let with_expired_token = sign_envelope(EnvelopeKind::Request, &good, &expired_token).unwrap();
    let with_other_action = caller.sign_request(&Request {
        action: SubjectName::parse("inventory").unwrap(),
        ..good.clone()
    });
    let with_other_collective = caller.sign_request(&Request {
        collective: SubjectName::parse("other").unwrap(),
        ..good.clone()
    });
    let huge = Bytes::from(vec![b' '; caller.bus.max_payload()]);

    let cases: Vec<(&str, Bytes)> = vec![
        ("unknown_issuer", forged.into()),
        ("wrong_sender", with_wrong_sender.into()),
        ("wrong_role", signed_by_node.into()),
        ("token_expired", with_expired_token.into()),
        ("bad_signature", text.replace("\"ttl\":60000", "\"ttl\":60001").into()),
        ("malformed", Bytes::from_static(b"{\"protocol\":")),
        ("malformed", Bytes::from_static(b"")),
        ("malformed", Bytes::from_static(b"\xff\xfe\x00")),
        ("malformed", huge),
        ("unknown_protocol", text.replace("muster.request.v1", "muster.request.v9").into()),
        ("subject_mismatch", with_other_action),
        ("subject_mismatch", with_other_collective),
    ];
    for (reason, payload) in cases {
        assert_eq!(caller.count_replies(&subject, payload).await, 0, "{reason} was answered");
        let audited = fixture.node.audit_records();
        assert!(
            audited.iter().any(|record| record["reason"] == reason),
            "{reason} is not in {audited:#?}"
        );
    }
    assert_eq!(fixture.node.core.snapshot_counters().unvalidated, 12);
}

#[tokio::test]
async fn a10_10_replayed_request_runs_once_even_after_a_restart() {
    let fixture = NodeFixture::new(|_| {}).await;
    let request = Request {
        agent: SubjectName::parse("puppetral").unwrap(),
        action: SubjectName::parse("do").unwrap(),
        data: crate::node_fixture::to_object(
            json!({"type": "exec", "name": "/bin/sh -c 'echo x >> /tmp/ran'"}),
        ),
        ..fixture.caller.ping_request()
    };
    let (subject, captured) =
        (TestCaller::request_subject(&request), fixture.caller.sign_request(&request));
    let (inbox, mut replies) = fixture.caller.subscribe_inbox(&request).await;
    fixture.caller.bus.publish_with_reply(&subject, &inbox, captured.clone()).await.unwrap();
    let reply = replies.next().await.unwrap();
    let reply = fixture.caller.verify_reply(&request, reply.payload());
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg.raw());
    assert_eq!(fixture.caller.count_replies(&subject, captured.clone()).await, 0);
    assert_eq!(fixture.node.core.snapshot_counters().replayed, 1);

    let NodeFixture { organisation, server, node, caller } = fixture;
    let signer = node.core.trust.signer.clone();
    let directory = node.stop_and_wait().await;
    let restarted =
        TestNode::start_in(directory, &organisation, &server, NodeSetup::new(signer)).await;
    assert_eq!(caller.count_replies(&subject, captured).await, 0);
    assert_eq!(restarted.core.snapshot_counters().replayed, 1);
    assert_eq!(std::fs::read_to_string(restarted.root().join("tmp/ran")).unwrap(), "x\n");
}

#[tokio::test]
async fn stale_request_is_answered_once_with_its_age() {
    let fixture = NodeFixture::new(|_| {}).await;
    let old = Request { issued_at: now() - 600_000, ..fixture.caller.ping_request() };
    let reply = fixture.caller.send(&old).await;
    assert_eq!(reply.statuscode, ReplyStatus::Other);
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { age_ms: 600_000.. })), "{reply:?}");
    let again = fixture.caller.sign_request(&old);
    assert_eq!(fixture.caller.count_replies(&TestCaller::request_subject(&old), again).await, 0);

    let future_request = Request { issued_at: now() + 600_000, ..fixture.caller.ping_request() };
    let reply = fixture.caller.send(&future_request).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { age_ms: ..-500_000 })), "{reply:?}");
    assert_eq!(fixture.node.core.snapshot_counters().ttlexpired, 2);
    let audited = fixture.node.audit_records();
    assert_eq!(
        audited.iter().filter(|record| record["reason"] == "expired").count(),
        2,
        "{audited:#?}"
    );
}

#[tokio::test]
async fn clocks_may_differ_by_at_most_the_allowed_skew() {
    for (offset, status) in [(25_000, ReplyStatus::Ok), (120_000, ReplyStatus::Other)] {
        let fixture = NodeFixture::new(|setup| {
            setup.clock = WallClock::new(move || now() + offset);
        })
        .await;
        let short = Request { ttl: 1_000, ..fixture.caller.ping_request() };
        assert_eq!(fixture.caller.send(&short).await.statuscode, status, "{offset} ms ahead");
    }
}

#[tokio::test]
async fn broker_restricts_users_to_their_subjects() {
    let fixture = NodeFixture::new(|_| {}).await;
    let limited = fixture.organisation.user(UserRole::Caller, "limited", &["agent:rpcutil"]);
    let node = fixture.organisation.node("node2.example.net");
    let inbox = subject::inbox_prefix(&fixture.caller.signer.public_key().to_string());
    let request_subject = "muster.rpcutil.ping.all";
    for (user, subject, publishes) in [
        (&limited, "muster.puppetral.do.all", true),
        (&limited, "_W.TRUST.head", true),
        (&limited, &*format!("{inbox}.x"), true),
        (&limited, &*format!("{inbox}.>"), false),
        (&limited, "muster.*.*.all", false),
        (&node, request_subject, true),
        (&node, &*format!("{inbox}.x"), true),
        (&node, "muster.*.*.node.node1.example.net", false),
        (&node, &*format!("{inbox}.>"), false),
    ] {
        let bus = connect(&fixture.server, user).await;
        let events = bus.subscribe_events();
        if publishes {
            bus.publish(subject, Bytes::from_static(b"x")).await.unwrap();
        } else {
            let _subscription = bus.subscribe(subject).await.unwrap();
        }
        bus.flush().await.unwrap();
        let refused = await_refusal(events).await;
        assert!(
            refused.to_lowercase().contains("permissions violation"),
            "{} {subject}: {refused}",
            user.identity()
        );
    }
    let audited = fixture.node.audit_records();
    assert!(audited.is_empty(), "a message arrived: {audited:#?}");
}

pub(crate) async fn await_refusal(mut events: broadcast::Receiver<BusEvent>) -> String {
    loop {
        if let BusEvent::Refused(reason) =
            tokio::time::timeout(SHORT_WAIT * 10, events.recv()).await.unwrap().unwrap()
        {
            return reason;
        }
    }
}

/// A node that received a request may reply, but only in its own name and only to that request.
#[tokio::test]
async fn node_cannot_reply_for_another() {
    let organisation = Organisation::new(&["muster"]);
    let impostor = organisation.node("liar.example.net");
    let mut fixture = FakeNodeFixture::start(organisation, &impostor, SHORT_WAIT).await;
    let send_replies = async {
        let message = fixture.requests.next().await.unwrap();
        let victim = Identity::parse("victim.example.net").unwrap();
        let forged =
            sign_envelope(EnvelopeKind::Reply, &pong_reply(&message, &victim, 1), &impostor)
                .unwrap();
        let to = reply_subject(&message, impostor.identity());
        fixture.bus.publish(&to, forged.into()).await.unwrap();
    };
    let ((answers, stats), ()) = tokio::join!(fixture.caller.call(fixture.call), send_replies);
    assert!(answers.is_empty(), "{answers:?}");
    assert_eq!(stats.rejected, 1);
}

/// A large batch is verified on several processors; each reply keeps its own sender.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_forged_replies_of_a_large_batch_are_rejected() {
    const NODE_COUNT: usize = 1024;
    let organisation = Organisation::new(&["muster"]);
    let answerers: Vec<Signer> =
        (0..NODE_COUNT).map(|n| organisation.node(&format!("node{n}.example.net"))).collect();
    let mut fixture = FakeNodeFixture::start(organisation, &answerers[0], SHORT_WAIT * 10).await;
    let send_replies = async {
        let message = fixture.requests.next().await.unwrap();
        let to = reply_subject(&message, answerers[0].identity());
        for (n, answerer) in answerers.iter().enumerate() {
            let reply = pong_reply(&message, answerer.identity(), n);
            let mut signed =
                String::from_utf8(sign_envelope(EnvelopeKind::Reply, &reply, answerer).unwrap())
                    .unwrap();
            if n % 7 == 3 {
                signed = signed.replace("\"took\":0", "\"took\":1");
            }
            fixture.bus.publish(&to, signed.into()).await.unwrap();
        }
        fixture.bus.flush().await.unwrap();
    };
    let ((answers, stats), ()) = tokio::join!(fixture.caller.call(fixture.call), send_replies);
    let forged = (0..NODE_COUNT).filter(|n| n % 7 == 3).count();
    assert_eq!((stats.rejected, answers.len()), (forged, NODE_COUNT - forged));
    for (sender, answer) in answers {
        let line = answer.reply.data["pong"].as_u64().unwrap();
        assert_eq!(sender.to_string(), format!("node{line}.example.net"));
        assert_ne!(line % 7, 3);
    }
}

#[tokio::test]
async fn request_for_other_nodes_is_ignored() {
    let fixture = NodeFixture::new(|_| {}).await;
    let others = [Identity::parse("node2.example.net").unwrap()].into();
    let request = Request { target: RequestTarget::Nodes(others), ..fixture.caller.ping_request() };
    let signed = fixture.caller.sign_request(&request);
    assert_eq!(
        fixture.caller.count_replies(&TestCaller::request_subject(&request), signed.clone()).await,
        0
    );
    assert_eq!(fixture.node.core.snapshot_counters().filtered, 1);
    // Published to the node's own subject, the request still names another node.
    assert_eq!(
        fixture.caller.count_replies("muster.rpcutil.ping.node.node1.example.net", signed).await,
        0
    );
}

/// Revocation is enforced twice: the broker disconnects a revoked user, and a node with the new account token refuses
/// its requests.
#[tokio::test]
async fn revoked_user_is_refused_by_broker_and_node() {
    let NodeFixture { mut organisation, server, node, caller } =
        NodeFixture::with_stores(|_| {}).await;
    assert_eq!(caller.send(&caller.ping_request()).await.statuscode, ReplyStatus::Ok);
    let captured = caller.ping_request();
    let signed = caller.sign_request(&captured);
    let events = caller.bus.subscribe_events();

    let token = organisation.revoke_user(&caller.signer);
    organisation.publish_account(&server, &token).await;
    await_state("the node applies the revocation", || {
        node.core.trust.account.get().account_token() == token
    })
    .await;
    // The broker does not have the revocation yet: the message arrives, and the node refuses it.
    let before = node.core.snapshot_counters().unvalidated;
    caller.bus.publish(&TestCaller::request_subject(&captured), signed).await.unwrap();
    await_state("the node refuses the revoked caller", || {
        node.core.snapshot_counters().unvalidated > before
    })
    .await;
    assert!(node.audit_records().iter().any(|record| record["reason"] == "revoked"));

    organisation.push_account(&server, &token).await;
    let reason = await_refusal(events).await;
    assert!(reason.to_lowercase().contains("auth"), "{reason}");
    let other = TestCaller::connect(&organisation, &server, organisation.caller("anna")).await;
    assert_eq!(other.send(&other.ping_request()).await.statuscode, ReplyStatus::Ok);
}

/// Address of a fake broker that sends one greeting and reads one line.
struct FakeBroker(u16);

impl Broker for FakeBroker {
    fn port(&self) -> u16 {
        self.0
    }
}

/// Returns the line that a client sends to a broker with this nonce.
async fn connect_line(nonce: &str, user: &Signer) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let options = options(&FakeBroker(listener.local_addr().unwrap().port()), user);
    let connecting = tokio::spawn(async move { options.connect().await.map(drop) });
    let (mut stream, _) = listener.accept().await.unwrap();
    let info =
        json!({"server_id": "liar", "max_payload": 1_048_576, "headers": true, "nonce": nonce});
    let info = format!("INFO {info}\r\n");
    stream.write_all(info.as_bytes()).await.unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    connecting.abort();
    line
}

/// The key that signs the broker's nonce is also the key that signs messages.
#[tokio::test]
async fn broker_gets_only_nonces_signed() {
    let organisation = Organisation::new(&["muster"]);
    let caller = organisation.caller("rip");
    let signature = |line: &str| {
        let connect: serde_json::Value =
            serde_json::from_str(line.strip_prefix("CONNECT ")?).ok()?;
        Some(connect["sig"].as_str()?.to_owned())
    };
    let line = connect_line("Z3VkZW4gdGFnIQ", &caller).await;
    assert!(signature(&line).is_some(), "{line}");

    let forged =
        String::from_utf8(EnvelopeKind::Request.signed_bytes(br#"{"agent":"shell"}"#)).unwrap();
    let token = caller.token().rsplit_once('.').unwrap().0.to_owned();
    for nonce in [forged, token, "a".repeat(65), "muster.request.v1".to_owned()] {
        let line = connect_line(&nonce, &caller).await;
        assert!(signature(&line).is_none(), "{nonce:?} was signed: {line}");
    }
}

/// Tokens that a command has verified are cached for the next one; only a cache that the caller signed is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_uses_only_its_own_cache_of_verified_tokens() {
    use std::os::unix::fs::PermissionsExt as _;

    let fixture = NodeFixture::new(|_| {}).await;
    let signer = fixture.organisation.caller("anna");
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &signer, "");
    let cache_file = rpc.path(&format!(".cache/muster/vouched/{}", signer.public_key()));
    let ping_and_read_cache = async || {
        let (document, code) = rpc.run_json(&["rpcutil", "ping"]).await;
        assert_eq!(code, 0, "{document:#}");
        std::fs::read(&cache_file).unwrap()
    };
    let first = ping_and_read_cache().await;
    assert_eq!(cache_file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let trust = fixture.organisation.trust();
    let count_imported = |bytes: &[u8]| {
        TokenCache::default().import_verified(&trust, signer.public_key(), bytes, now())
    };
    // The node's token, and the caller's own.
    assert_eq!(count_imported(&first), 2);
    // No new token was verified, so the cache was not written.
    let written = cache_file.metadata().unwrap().modified().unwrap();
    assert_eq!(ping_and_read_cache().await, first);
    assert_eq!(cache_file.metadata().unwrap().modified().unwrap(), written);

    // A cache of another signer is ignored, and replaced when a new token is verified.
    let node = fixture.organisation.node("somebody.example.net");
    let others = TokenCache::default();
    others.verify_user(&trust, &node.token(), now()).unwrap();
    let others = others.export_verified(&trust, node.key_pair(), now()).unwrap();
    for foreign in [others, b"nonsense".to_vec(), Vec::new()] {
        assert_eq!(count_imported(&foreign), 0);
        std::fs::write(&cache_file, foreign).unwrap();
        assert_eq!(count_imported(&ping_and_read_cache().await), 2);
    }
}
