//! What is refused: forged, replayed, stale, misdirected and foreign messages; and that the daemon lives on.

use muster_agent::clock::WallClock;
use muster_bus::{BusEvent, Bytes};
use muster_tests::command::Command;
use muster_tests::fleet::{Blueprint, TestNode};
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

use crate::answerer::{Answerer, answer_subject, pong};
use crate::ask::{Caller, MOMENT, World};

/// Everything that must be met with silence, counted and audited under its word.
#[tokio::test]
async fn what_is_not_authentic_is_met_with_silence() {
    let world = World::new(|_| {}).await;
    let caller = &world.caller;
    let good = caller.request();
    let sealed = caller.seal(&good);
    let subject = Caller::subject(&good);
    let text = String::from_utf8(sealed.to_vec()).unwrap();

    let stranger = Organisation::new(&["muster"]).caller("rip");
    let forged = sign_envelope(EnvelopeKind::Request, &good, &stranger).unwrap();
    let somebody = world.organisation.caller("anna");
    let in_anothers_name = sign_envelope(EnvelopeKind::Request, &good, &somebody).unwrap();
    let node_key = world.organisation.node("node2.example.net");
    let by_a_node = sign_envelope(
        EnvelopeKind::Request,
        &Request { caller: node_key.identity().clone(), ..good.clone() },
        &node_key,
    )
    .unwrap();
    let expired_token =
        world.organisation.user_until(UserRole::Caller, "rip", &["agent:*"], Some(1_700_000_000));
    let with_expired_token = sign_envelope(EnvelopeKind::Request, &good, &expired_token).unwrap();
    let moved =
        caller.seal(&Request { action: SubjectName::parse("inventory").unwrap(), ..good.clone() });
    let elsewhere =
        caller.seal(&Request { collective: SubjectName::parse("other").unwrap(), ..good.clone() });
    let huge = Bytes::from(vec![b' '; caller.bus.max_payload()]);

    let table: Vec<(&str, Bytes)> = vec![
        ("unknown_issuer", forged.into()),
        ("wrong_sender", in_anothers_name.into()),
        ("wrong_role", by_a_node.into()),
        ("token_expired", with_expired_token.into()),
        ("bad_signature", text.replace("\"ttl\":60000", "\"ttl\":60001").into()),
        ("malformed", Bytes::from_static(b"{\"protocol\":")),
        ("malformed", Bytes::from_static(b"")),
        ("malformed", Bytes::from_static(b"\xff\xfe\x00")),
        ("malformed", huge),
        ("unknown_protocol", text.replace("muster.request.v1", "muster.request.v9").into()),
        ("subject_mismatch", moved),
        ("subject_mismatch", elsewhere),
    ];
    for (word, payload) in table {
        assert_eq!(caller.answers_to(&subject, payload).await, 0, "{word} was answered");
        let audited = world.node.audit();
        assert!(
            audited.iter().any(|record| record["reason"] == word),
            "{word} is not in {audited:#?}"
        );
    }
    assert_eq!(world.node.core.snapshot_counters().unvalidated, 12);
}

#[tokio::test]
async fn captured_bytes_run_once_even_after_a_restart() {
    let world = World::new(|_| {}).await;
    let request = Request {
        agent: SubjectName::parse("puppetral").unwrap(),
        action: SubjectName::parse("do").unwrap(),
        data: crate::ask::object(
            json!({"type": "exec", "name": "/bin/sh -c 'echo x >> /tmp/ran'"}),
        ),
        ..world.caller.request()
    };
    let (subject, captured) = (Caller::subject(&request), world.caller.seal(&request));
    let (inbox, mut replies) = world.caller.inbox(&request).await;
    world.caller.bus.publish_with_reply(&subject, &inbox, captured.clone()).await.unwrap();
    let reply = replies.next().await.unwrap();
    let reply = world.caller.open(&request, reply.payload());
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg);
    assert_eq!(world.caller.answers_to(&subject, captured.clone()).await, 0);
    assert_eq!(world.node.core.snapshot_counters().replayed, 1);

    let World { organisation, server, node, caller } = world;
    let signer = node.core.signer.clone();
    let directory = node.stopped().await;
    let reborn =
        TestNode::start_in(directory, &organisation, &server, Blueprint::new(signer)).await;
    assert_eq!(caller.answers_to(&subject, captured).await, 0);
    assert_eq!(reborn.core.snapshot_counters().replayed, 1);
    assert_eq!(std::fs::read_to_string(reborn.root().join("tmp/ran")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_stale_request_is_told_its_age_once() {
    let world = World::new(|_| {}).await;
    let old = Request { issued_at: now() - 600_000, ..world.caller.request() };
    let reply = world.caller.send(&old).await;
    assert_eq!(reply.statuscode, ReplyStatus::Other);
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { age_ms: 600_000.. })), "{reply:?}");
    let again = world.caller.seal(&old);
    assert_eq!(world.caller.answers_to(&Caller::subject(&old), again).await, 0);

    let early = Request { issued_at: now() + 600_000, ..world.caller.request() };
    let reply = world.caller.send(&early).await;
    assert!(matches!(reply.reason, Some(ReplyReason::Expired { age_ms: ..-500_000 })), "{reply:?}");
    assert_eq!(world.node.core.snapshot_counters().ttlexpired, 2);
    let audited = world.node.audit();
    assert_eq!(
        audited.iter().filter(|record| record["reason"] == "expired").count(),
        2,
        "{audited:#?}"
    );
}

#[tokio::test]
async fn clocks_may_differ_by_the_skew_and_no_more() {
    for (ahead, status) in [(25_000, ReplyStatus::Ok), (120_000, ReplyStatus::Other)] {
        let world = World::new(|blueprint| {
            blueprint.clock = WallClock::new(move || now() + ahead);
        })
        .await;
        let short = Request { ttl: 1_000, ..world.caller.request() };
        assert_eq!(world.caller.send(&short).await.statuscode, status, "{ahead} ms ahead");
    }
}

#[tokio::test]
async fn the_broker_keeps_everybody_to_their_subjects() {
    let world = World::new(|_| {}).await;
    let limited = world.organisation.user(UserRole::Caller, "limited", &["agent:rpcutil"]);
    let node = world.organisation.node("node2.example.net");
    let inbox = subject::inbox_prefix(&world.caller.signer.public_key().to_string());
    let asks = "muster.rpcutil.ping.all";
    for (who, subject, publishes) in [
        (&limited, "muster.puppetral.do.all", true),
        (&limited, "_W.TRUST.head", true),
        (&limited, &*format!("{inbox}.x"), true),
        (&limited, &*format!("{inbox}.>"), false),
        (&limited, "muster.*.*.all", false),
        (&node, asks, true),
        (&node, &*format!("{inbox}.x"), true),
        (&node, "muster.*.*.node.node1.example.net", false),
        (&node, &*format!("{inbox}.>"), false),
    ] {
        let bus = connect(&world.server, who).await;
        let events = bus.subscribe_events();
        if publishes {
            bus.publish(subject, Bytes::from_static(b"x")).await.unwrap();
        } else {
            let _subscription = bus.subscribe(subject).await.unwrap();
        }
        bus.flush().await.unwrap();
        let refused = permission_refused(events).await;
        assert!(
            refused.to_lowercase().contains("permissions violation"),
            "{} {subject}: {refused}",
            who.identity()
        );
    }
    let audited = world.node.audit();
    assert!(audited.is_empty(), "something came through: {audited:#?}");
}

pub(crate) async fn permission_refused(mut events: broadcast::Receiver<BusEvent>) -> String {
    loop {
        if let BusEvent::Refused(why) =
            tokio::time::timeout(MOMENT * 10, events.recv()).await.unwrap().unwrap()
        {
            return why;
        }
    }
}

/// A node that was asked may answer, but only as itself, and only what was asked.
#[tokio::test]
async fn a_node_cannot_answer_for_another() {
    let organisation = Organisation::new(&["muster"]);
    let liar = organisation.node("liar.example.net");
    let mut world = Answerer::of(organisation, &liar, MOMENT).await;
    let answering = async {
        let message = world.requests.next().await.unwrap();
        let victim = Identity::parse("victim.example.net").unwrap();
        let forged =
            sign_envelope(EnvelopeKind::Reply, &pong(&message, &victim, 1), &liar).unwrap();
        let to = answer_subject(&message, liar.identity());
        world.bus.publish(&to, forged.into()).await.unwrap();
    };
    let ((answers, stats), ()) = tokio::join!(world.caller.call(world.call), answering);
    assert!(answers.is_empty(), "{answers:?}");
    assert_eq!(stats.rejected, 1);
}

/// A large handful is opened on several processors: everybody's answer is still everybody's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_only_the_forged_are_not_believed() {
    const MANY: usize = 1024;
    let organisation = Organisation::new(&["muster"]);
    let answerers: Vec<Signer> =
        (0..MANY).map(|n| organisation.node(&format!("node{n}.example.net"))).collect();
    let mut world = Answerer::of(organisation, &answerers[0], MOMENT * 10).await;
    let answering = async {
        let message = world.requests.next().await.unwrap();
        let to = answer_subject(&message, answerers[0].identity());
        for (n, answerer) in answerers.iter().enumerate() {
            let reply = pong(&message, answerer.identity(), n);
            let mut sealed =
                String::from_utf8(sign_envelope(EnvelopeKind::Reply, &reply, answerer).unwrap())
                    .unwrap();
            if n % 7 == 3 {
                sealed = sealed.replace("\"took\":0", "\"took\":1");
            }
            world.bus.publish(&to, sealed.into()).await.unwrap();
        }
        world.bus.flush().await.unwrap();
    };
    let ((answers, stats), ()) = tokio::join!(world.caller.call(world.call), answering);
    let forged = (0..MANY).filter(|n| n % 7 == 3).count();
    assert_eq!((stats.rejected, answers.len()), (forged, MANY - forged));
    for (sender, answer) in answers {
        let said = answer.reply.data["pong"].as_u64().unwrap();
        assert_eq!(sender.to_string(), format!("node{said}.example.net"));
        assert_ne!(said % 7, 3);
    }
}

#[tokio::test]
async fn a_request_that_names_others_is_not_ours() {
    let world = World::new(|_| {}).await;
    let others = [Identity::parse("node2.example.net").unwrap()].into();
    let request = Request { target: RequestTarget::Nodes(others), ..world.caller.request() };
    let sealed = world.caller.seal(&request);
    assert_eq!(world.caller.answers_to(&Caller::subject(&request), sealed.clone()).await, 0);
    assert_eq!(world.node.core.snapshot_counters().filtered, 1);
    // Moved to our own subject, it still names another.
    assert_eq!(
        world.caller.answers_to("muster.rpcutil.ping.node.node1.example.net", sealed).await,
        0
    );
}

/// Both locks: the broker throws a revoked user out, and a node that was told does not believe it either.
#[tokio::test]
async fn a_revoked_user_is_refused_by_broker_and_node() {
    let World { mut organisation, server, node, caller } = World::storing(|_| {}).await;
    assert_eq!(caller.send(&caller.request()).await.statuscode, ReplyStatus::Ok);
    let captured = caller.request();
    let sealed = caller.seal(&captured);
    let events = caller.bus.subscribe_events();

    let token = organisation.revoke(&caller.signer);
    organisation.publish_account(&server, &token).await;
    await_state("the node takes over the revocation", || {
        node.core.trust.get().account_token() == token
    })
    .await;
    // The broker does not know yet: the message arrives, and the node refuses it.
    let before = node.core.snapshot_counters().unvalidated;
    caller.bus.publish(&Caller::subject(&captured), sealed).await.unwrap();
    await_state("the node refuses the revoked caller", || {
        node.core.snapshot_counters().unvalidated > before
    })
    .await;
    assert!(node.audit().iter().any(|record| record["reason"] == "revoked"));

    organisation.push(&server, &token).await;
    let why = permission_refused(events).await;
    assert!(why.to_lowercase().contains("auth"), "{why}");
    let other = Caller::connect(&organisation, &server, organisation.caller("anna")).await;
    assert_eq!(other.send(&other.request()).await.statuscode, ReplyStatus::Ok);
}

/// A broker that says one thing, and hears how it is answered.
struct Liar(u16);

impl Broker for Liar {
    fn port(&self) -> u16 {
        self.0
    }
}

/// What a party says to a broker with this nonce.
async fn answer_to(nonce: &str, party: &Signer) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let options = options(&Liar(listener.local_addr().unwrap().port()), party);
    let connecting = tokio::spawn(async move { options.connect().await.map(drop) });
    let (mut stream, _) = listener.accept().await.unwrap();
    let info =
        json!({"server_id": "liar", "max_payload": 1_048_576, "headers": true, "nonce": nonce});
    let info = format!("INFO {info}\r\n");
    stream.write_all(info.as_bytes()).await.unwrap();
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said).await.unwrap();
    connecting.abort();
    said
}

/// The key that answers a broker is the key that signs messages.
#[tokio::test]
async fn a_broker_gets_a_nonce_signed_and_nothing_else() {
    let organisation = Organisation::new(&["muster"]);
    let caller = organisation.caller("rip");
    let signature = |said: &str| {
        let connect: serde_json::Value =
            serde_json::from_str(said.strip_prefix("CONNECT ")?).ok()?;
        Some(connect["sig"].as_str()?.to_owned())
    };
    let said = answer_to("Z3VkZW4gdGFnIQ", &caller).await;
    assert!(signature(&said).is_some(), "{said}");

    let forged =
        String::from_utf8(EnvelopeKind::Request.signed_bytes(br#"{"agent":"shell"}"#)).unwrap();
    let token = caller.token().rsplit_once('.').unwrap().0.to_owned();
    for nonce in [forged, token, "a".repeat(65), "muster.request.v1".to_owned()] {
        let said = answer_to(&nonce, &caller).await;
        assert!(signature(&said).is_none(), "{nonce:?} was signed: {said}");
    }
}

/// What one command has verified the next one need not, and only its own word counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_believes_its_own_memory_of_tokens_and_nobody_elses() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new(|_| {}).await;
    let signer = world.organisation.caller("anna");
    let desk = Command::new(&world.server, &world.organisation, &signer, "");
    let memory = desk.path(&format!(".cache/muster/vouched/{}", signer.public_key()));
    let pinged = async || {
        let (document, code) = desk.document(&["rpcutil", "ping"]).await;
        assert_eq!(code, 0, "{document:#}");
        std::fs::read(&memory).unwrap()
    };
    let first = pinged().await;
    assert_eq!(memory.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let trust = world.organisation.trust();
    let known = |bytes: &[u8]| {
        TokenCache::default().import_verified(&trust, signer.public_key(), bytes, now())
    };
    // The node's, and the caller's own.
    assert_eq!(known(&first), 2);
    // Nothing new was learnt, so nothing was written.
    let written = memory.metadata().unwrap().modified().unwrap();
    assert_eq!(pinged().await, first);
    assert_eq!(memory.metadata().unwrap().modified().unwrap(), written);

    // Somebody else's word is ignored, and replaced when there is something to say.
    let node = world.organisation.node("somebody.example.net");
    let others = TokenCache::default();
    others.verify_user(&trust, &node.token(), now()).unwrap();
    let others = others.export_verified(&trust, node.key_pair(), now()).unwrap();
    for strange in [others, b"nonsense".to_vec(), Vec::new()] {
        assert_eq!(known(&strange), 0);
        std::fs::write(&memory, strange).unwrap();
        assert_eq!(known(&pinged().await), 2);
    }
}
