//! Revocations and certificates of other authorities, with a real nats-server.

use std::fs;

use muster_wire::token::claims::AccountClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::head::AccountHead;
use muster_wire::token::{AccountTrust, PublicKey};
use muster_wire::{stores, subject};

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

/// The key that signed an account's token.
fn decode_operator(token: &str) -> PublicKey {
    decode_token::<AccountClaims>(token.trim()).unwrap().unverified_claims().iss
}

#[tokio::test]
async fn revoked_user_is_disconnected_and_the_revocation_is_published() {
    let program = nats_server();
    let world = World::new(&[]);
    for party in [["user", "rip"], ["user", "anna"], ["node", "web1.acme.net"]] {
        world.ok(&[&["org", "add"], &party[..]].concat());
    }
    // Clients that trust the authority must accept a renewed certificate.
    let authority = fs::read(world.org().join("ca.pem")).unwrap();
    world.ok(&["broker", "rename", "--host", "broker.acme.net"]);
    assert_eq!(fs::read(world.org().join("ca.pem")).unwrap(), authority);
    let broker = Broker::start(&program, &world, true).await;
    let rip = "creds/users/rip.creds";
    assert!(broker.url.starts_with("tls://"), "{}", broker.url);
    broker.connect(&world, rip).await.unwrap().close().await.unwrap();

    let node = broker.connect(&world, "creds/nodes/web1.acme.net.creds").await.unwrap();
    let pushed = world.rpc(&["org", "push"]);
    assert!(!talk(&pushed).contains("warning"), "{}", talk(&pushed));
    let heads = subject::bucket_changes(stores::TRUST_BUCKET.name, stores::TRUST_HEAD_KEY);
    let mut announcements = node.subscribe_all(&[heads]).await.unwrap();
    world.ok(&["org", "revoke", "rip", "--yes"]);
    let announced = announcements[0].next().await.unwrap();
    let announced = AccountHead::parse(announced.payload()).unwrap();
    let saved = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let bucket = node.bucket(stores::TRUST_BUCKET.name);
    let kept = bucket.get(stores::TRUST_ACCOUNT_KEY).await.unwrap().unwrap();
    assert_eq!(kept.value.unwrap(), saved.trim().as_bytes());
    let trust = AccountTrust::new(decode_operator(&saved), saved.trim()).unwrap();
    assert_eq!(announced, AccountHead::of_trust(&trust));

    let refused = broker.connect(&world, rip).await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("authorization"), "{refused}");
    broker.connect(&world, "creds/users/anna.creds").await.unwrap().close().await.unwrap();
    world.ok(&["org", "add", "user", "rip"]);
    broker.connect(&world, rip).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn broker_without_tls_uses_loopback_and_preloads_revocations() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    world.ok(&["org", "add", "user", "anna"]);
    assert_eq!(world.rpc(&["org", "revoke", "rip", "--yes"]).status.code(), Some(1));
    let broker = Broker::start(&program, &world, false).await;
    assert!(broker.url.starts_with("nats://127.0.0.1:"), "{}", broker.url);
    assert!(broker.connect(&world, "creds/users/rip.creds").await.is_err());
    broker.connect(&world, "creds/users/anna.creds").await.unwrap().close().await.unwrap();
    // Nodes read revocations in the stores, so a revocation creates these.
    let revoked = world.rpc(&["org", "revoke", "anna", "--yes"]);
    assert_eq!(revoked.status.code(), Some(0), "{}", talk(&revoked));
    assert!(talk(&revoked).contains("created the store TRUST"), "{}", talk(&revoked));
    world.ok(&["org", "push"]);
}

/// A thief of all service keys fills what these may write. Each bucket has its own space, so revocations, permits and records of nodes are still written.
#[tokio::test]
async fn full_buckets_of_services_stop_no_revocation() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    world.ok(&["org", "add", "node", "web1.acme.net"]);
    let rights = ["--serve", "directory", "--serve", "schedule", "--serve", "provision"];
    world.ok(&[&["org", "add", "service", "thief"], &rights[..]].concat());
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    let thief = broker.connect(&world, "creds/services/thief.creds").await.unwrap();
    for store in [stores::SCHEDULES_BUCKET, stores::PROVISION_BUCKET, stores::TOKENS_BUCKET] {
        let bucket = thief.bucket(store.name);
        let value = vec![b'x'; store.max_value_bytes as usize - 512];
        let fits = store.max_bytes / u64::from(store.max_value_bytes);
        let mut refused = None;
        for number in 0..2 * fits {
            let written = bucket.put_once(&format!("x{number}"), value.clone().into()).await;
            refused = written.err();
            if refused.is_some() {
                break;
            }
        }
        let refused = refused.expect(store.name).to_string();
        assert!(refused.contains("maximum bytes exceeded"), "{}: {refused}", store.name);
    }

    let node = broker.connect(&world, "creds/nodes/web1.acme.net.creds").await.unwrap();
    let permits = node.bucket(stores::PERMITS_BUCKET.name);
    permits.put_once(&stores::permit_key("wait", 1, "web1.acme.net"), "{}".into()).await.unwrap();
    let records = node.bucket(stores::NODES_BUCKET.name);
    records.put_once("web1.acme.net", "{}".into()).await.unwrap();
    world.ok(&["org", "revoke", "rip", "--yes"]);
    let saved = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let kept = node.bucket(stores::TRUST_BUCKET.name).get(stores::TRUST_ACCOUNT_KEY).await;
    assert_eq!(kept.unwrap().unwrap().value.unwrap(), saved.trim().as_bytes());
    world.ok(&["org", "revoke", "thief", "--yes"]);
}

/// TLS is always verified: connections to a broker with a certificate of another authority fail.
#[tokio::test]
async fn broker_certificate_of_another_authority_is_refused() {
    let program = nats_server();
    let (ours, theirs) = (World::new(&[]), World::new(&[]));
    ours.ok(&["org", "add", "user", "rip"]);
    let broker = Broker::start(&program, &theirs, false).await;
    let refused = broker.connect(&ours, "creds/users/rip.creds").await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
}
