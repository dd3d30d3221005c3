//! Tokens of nodes expire, and the enroller's service renews them before, unless the node is revoked or released.

use std::time::Duration;

use muster_bus::{Bus, Bytes, NameStore, TokenRenewal};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::enrolment::{NameEntry, issue_node_token};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use muster_wire::stores::{PROVISION_BUCKET, TOKENS_BUCKET};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{KeyKind, KeyPair, PublicKey, ServiceRight, UserCredentials, UserRole};
use serde_json::json;

use crate::enrolled_names::{EnrolledFleet, await_log, name_entry};
use crate::node_fixture::TestCaller;

/// Lifetime of the tokens of this fleet in seconds.
const TOKEN_LIFETIME_SECONDS: u64 = 9;
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(30);

fn expiry(token: &str) -> u64 {
    decode_token::<UserClaims>(token.trim()).unwrap().unverified_claims().exp
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_keeps_running_with_renewed_tokens() {
    let fleet = EnrolledFleet::start_with(&format!("lifetime = {TOKEN_LIFETIME_SECONDS}\n")).await;
    fleet.mark_names_as_written().await;
    let mut machine = fleet.create_machine("web-1.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let home = machine.home().clone();
    let text = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    let first = expiry(UserCredentials::parse(&text).unwrap().jwt());
    let stored = home.path("state/token.jwt");
    poll_until_ok("a renewed token is stored", RENEWAL_TIMEOUT, async || {
        let stored = std::fs::read_to_string(&stored).map_or(0, |token| expiry(&token));
        (stored > first).then_some(()).ok_or(stored)
    })
    .await;

    // The broker closes connections with an expired token, and refuses expired tokens.
    let signer = fleet.organisation.caller("rip");
    let caller = TestCaller::connect(&fleet.organisation, &fleet.server, signer).await;
    let ping = async || {
        let reply = caller.call_action("web-1.example.com", "rpcutil", "ping", json!({}));
        reply.await.reply
    };
    poll_until_ok("the node comes back with the renewed token", RENEWAL_TIMEOUT, async || {
        let log = machine.log();
        let connections = log.matches("connected to the broker").count();
        // For the enrolment, as a node, and after the first token has expired.
        (connections > 2).then_some(()).ok_or(log)
    })
    .await;
    assert!(muster_tests::now() / 1000 >= first);
    assert!(ping().await.statuscode == ReplyStatus::Ok, "{}", machine.log());
    assert!(machine.log().contains("renewed the node's token"));

    // After a restart the daemon uses the stored token, and does not enrol again.
    drop(machine);
    let mut again = home.clone().start();
    await_log(&mut again, "ready identity=").await;
    assert!(ping().await.statuscode == ReplyStatus::Ok, "{}", again.log());
    let after = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    assert_eq!(after, text);
}

/// A node token with a lifetime of 90 s, signed with this role's key `age` seconds ago.
pub(crate) fn issue_token(
    organisation: &Organisation,
    role: UserRole,
    name: &Identity,
    key: PublicKey,
    age: u64,
) -> String {
    let at = muster_tests::now() - age * 1000;
    let account = organisation.trust().account_key();
    let life = Some(TokenLife::from_now(90, at));
    issue_node_token(name, key, account, life, organisation.role_key(role), at).unwrap()
}

pub(crate) async fn put_token(bus: &Bus, node: &Identity, token: &str) {
    let token = Bytes::from(token.to_owned());
    bus.bucket(TOKENS_BUCKET.name).put(node.as_str(), token).await.unwrap();
}

async fn stored_token(bus: &Bus, node: &Identity) -> Option<String> {
    let entry = bus.bucket(TOKENS_BUCKET.name).get(node.as_str()).await.unwrap();
    let value = entry.and_then(|entry| entry.value)?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

async fn write_entry(names: &NameStore, entry: &NameEntry) {
    let write = |_| (Some(entry.clone()), ());
    names.edit_entry(&entry.identity, write).await.unwrap();
}

#[tokio::test]
async fn renews_only_due_tokens_of_keys_that_are_not_revoked() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let bus = connect(&server, &organisation.service(ServiceRight::Provision, "enroller")).await;
    let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
    let now = muster_tests::now();
    let node = |name: &str| organisation.node(name);
    let (due, late, expired) = (node("due"), node("late"), node("over"));
    let (fresh, unlimited, unknown) = (node("fresh"), node("endless"), node("unknown"));
    let (marked, released, rekeyed) = (node("marked"), node("released"), node("rekeyed"));
    let revoked = node("revoked");
    let aged = [
        (&due, 40),
        (&late, 80),
        (&expired, 100),
        (&fresh, 20),
        (&unknown, 40),
        (&marked, 40),
        (&released, 40),
        (&rekeyed, 40),
        (&revoked, 40),
    ];
    for (node_signer, age) in aged {
        let name = node_signer.identity();
        let token = issue_token(&organisation, UserRole::Node, name, node_signer.public_key(), age);
        put_token(&bus, name, &token).await;
    }
    put_token(&bus, unlimited.identity(), &unlimited.token()).await;
    for node_signer in [&due, &late, &expired, &fresh, &unlimited, &revoked] {
        write_entry(&names, &name_entry(node_signer)).await;
    }
    let mut entry = name_entry(&marked);
    entry.revoked = true;
    write_entry(&names, &entry).await;
    let mut entry = name_entry(&released);
    entry.released = true;
    write_entry(&names, &entry).await;
    let mut entry = name_entry(&rekeyed);
    entry.key = node("rekeyed").public_key();
    write_entry(&names, &entry).await;
    organisation.revoke_user(&revoked);

    let trust = organisation.trust();
    let tokens = bus.bucket(TOKENS_BUCKET.name);
    let renewal = TokenRenewal {
        names: &names,
        tokens: &tokens,
        trust: &trust,
        node_role: organisation.role_key(UserRole::Node),
    };
    let mut renewed = renewal.renew_due(now).await.unwrap();
    renewed.sort();
    assert_eq!(renewed, [due.identity().clone(), late.identity().clone()]);
    for node_signer in [&due, &late] {
        let token = stored_token(&bus, node_signer.identity()).await.unwrap();
        let verified = trust.verify_user(&token, now).unwrap();
        assert_eq!((verified.key, verified.role), (node_signer.public_key(), UserRole::Node));
        assert_eq!(expiry(&token), now / 1000 + 90);
        let entry = names.get(node_signer.identity()).await.unwrap().unwrap();
        assert!(entry.at >= now, "the entry must state when the token was issued");
    }
    assert!(renewal.renew_due(now).await.unwrap().is_empty());

    // The node can read its own renewed token, and not those of other nodes.
    let bus = connect(&server, &due).await;
    let own = bus.bucket(TOKENS_BUCKET.name);
    let get = async |name: &str| own.get_once(name).await;
    assert!(get("due").await.unwrap().is_some());
    assert!(get("late").await.is_err());
    await_state("the connection is open", || bus.is_connected()).await;
}

/// A stolen service key can write the register of names and the bucket of tokens. A real provisioner, which renews a
/// node's token at the same time, signs no node token for the stolen key or for another name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stolen_service_key_gets_no_node_token() {
    let fleet = EnrolledFleet::start_with(&format!("lifetime = {TOKEN_LIFETIME_SECONDS}\n")).await;
    fleet.mark_names_as_written().await;
    let organisation = &fleet.organisation;
    let stolen = organisation.service(ServiceRight::Provision, "provisioner2");
    let stolen_node = organisation.node("web-8.example.com");
    let bus = connect(&fleet.server, &stolen).await;
    let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
    let now = muster_tests::now();
    let key = stolen.public_key();
    let entry = |name: &Identity, key: PublicKey| NameEntry {
        identity: name.clone(),
        key,
        at: now - 40_000,
        ..name_entry(&stolen)
    };
    let name = |number: u32| Identity::parse(&format!("web-{number}.example.com")).unwrap();

    // An entry without a token, with the field `life` of earlier versions.
    let without_token = name(10);
    let mut written = serde_json::to_value(entry(&without_token, key)).unwrap();
    written["life"] = json!({"expires": now / 1000 + 50, "lifetime": 90});
    let bytes = Bytes::from(serde_json::to_vec(&written).unwrap());
    let bucket = bus.bucket(PROVISION_BUCKET.name);
    bucket.put(&format!("name.{without_token}"), bytes).await.unwrap();
    // A token of a service, a token that the attacker signed, the token of a stolen node under another name, and
    // invalid text.
    let own = issue_token(organisation, UserRole::Service, &name(11), key, 40);
    let attacker = KeyPair::generate(KeyKind::Account).unwrap();
    let account = organisation.trust().account_key();
    let at = now - 40_000;
    let life = Some(TokenLife::from_now(90, at));
    let forged = issue_node_token(&name(12), key, account, life, &attacker, at).unwrap();
    let node_key = stolen_node.public_key();
    let other = issue_token(organisation, UserRole::Node, stolen_node.identity(), node_key, 40);
    let attempts = [
        (name(11), key, own),
        (name(12), key, forged),
        (name(13), node_key, other),
        (name(14), key, "no token".to_owned()),
    ];
    for (name, key, token) in &attempts {
        write_entry(&names, &entry(name, *key)).await;
        put_token(&bus, name, token).await;
    }

    // After two renewals of a real node, the provisioner has processed all entries.
    let mut machine = fleet.create_machine("web-1.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let renewed = name(1);
    let mut last = stored_token(&bus, &renewed).await.map_or(0, |t| expiry(&t));
    for _ in 0..2 {
        last = poll_until_ok("a renewed token", RENEWAL_TIMEOUT, async || {
            let now = stored_token(&bus, &renewed).await.map_or(0, |t| expiry(&t));
            (now > last).then_some(now).ok_or(now)
        })
        .await;
    }
    assert_eq!(stored_token(&bus, &without_token).await, None);
    for (name, _, token) in attempts {
        assert_eq!(stored_token(&bus, &name).await, Some(token), "{name}");
    }
}
