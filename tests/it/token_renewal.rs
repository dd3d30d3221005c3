//! Tokens of nodes end, and are renewed before: by the enroller's service, for nodes that are neither revoked nor released.

use std::time::Duration;

use muster_bus::{Bus, Bytes, NameStore, TokenRenewal};
use muster_enrol::{NameEntry, issue_node_token};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use muster_wire::stores::{PROVISION_BUCKET, TRUST_BUCKET, renewed_token_key};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{KeyKind, KeyPair, PublicKey, UserCredentials, UserRole};
use serde_json::json;

use crate::ask::TestCaller;
use crate::enrolled_names::{Fleet, await_log, issued};

/// How long the tokens of this fleet live, in seconds.
const LIFETIME: u64 = 9;
const PATIENCE: Duration = Duration::from_secs(30);

fn expires(token: &str) -> u64 {
    decode_token::<UserClaims>(token.trim()).unwrap().unverified_claims().exp
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_outlives_its_first_token() {
    let fleet = Fleet::enrolling(&format!("lifetime = {LIFETIME}\n")).await;
    fleet.say_that_names_are_written().await;
    let mut machine = fleet.machine("web-1.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let home = machine.home().clone();
    let text = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    let first = expires(UserCredentials::parse(&text).unwrap().jwt());
    let kept = home.path("state/token.jwt");
    poll_until_ok("a renewed token is kept", PATIENCE, async || {
        let kept = std::fs::read_to_string(&kept).map_or(0, |token| expires(&token));
        (kept > first).then_some(()).ok_or(kept)
    })
    .await;

    // The broker ends connections whose token is over, and takes no such token.
    let asker = fleet.organisation.caller("rip");
    let caller = TestCaller::connect(&fleet.organisation, &fleet.server, asker).await;
    let ping = async || {
        let reply = caller.call_action("web-1.example.com", "rpcutil", "ping", json!({}));
        reply.await.reply
    };
    poll_until_ok("the node comes back with the renewed token", PATIENCE, async || {
        let log = machine.log();
        let connections = log.matches("connected to the broker").count();
        // To be enrolled, as a node, and after the end of the first token.
        (connections > 2).then_some(()).ok_or(log)
    })
    .await;
    assert!(muster_tests::now() / 1000 >= first);
    assert!(ping().await.statuscode == ReplyStatus::Ok, "{}", machine.log());
    assert!(machine.log().contains("renewed the node's token"));

    // Started again, it uses the token that it kept, and is not enrolled anew.
    drop(machine);
    let mut again = home.clone().start();
    await_log(&mut again, "ready identity=").await;
    assert!(ping().await.statuscode == ReplyStatus::Ok, "{}", again.log());
    let after = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    assert_eq!(after, text);
}

/// A token of 90 seconds that this role signed so many seconds ago.
fn signed(
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

async fn put_token(bus: &Bus, node: &Identity, token: &str) {
    let key = renewed_token_key(node.as_str());
    let token = Bytes::from(token.to_owned());
    bus.bucket(TRUST_BUCKET.name).put(&key, token).await.unwrap();
}

async fn stored_token(bus: &Bus, node: &Identity) -> Option<String> {
    let key = renewed_token_key(node.as_str());
    let entry = bus.bucket(TRUST_BUCKET.name).get(&key).await.unwrap();
    let value = entry.and_then(|entry| entry.value)?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

async fn write_entry(names: &NameStore, entry: &NameEntry) {
    let write = |_| (Some(entry.clone()), ());
    names.edit_entry(&entry.identity, write).await.unwrap();
}

#[tokio::test]
async fn only_tokens_that_are_due_are_renewed_and_never_those_of_revoked_keys() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let bus = connect(&server, &organisation.service("enroller")).await;
    let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
    let now = muster_tests::now();
    let node = |name: &str| organisation.node(name);
    let (due, late, over) = (node("due"), node("late"), node("over"));
    let (fresh, endless, unknown) = (node("fresh"), node("endless"), node("unknown"));
    let (marked, released, rekeyed) = (node("marked"), node("released"), node("rekeyed"));
    let revoked = node("revoked");
    let aged = [
        (&due, 40),
        (&late, 80),
        (&over, 100),
        (&fresh, 20),
        (&unknown, 40),
        (&marked, 40),
        (&released, 40),
        (&rekeyed, 40),
        (&revoked, 40),
    ];
    for (party, age) in aged {
        let name = party.identity();
        let token = signed(&organisation, UserRole::Node, name, party.public_key(), age);
        put_token(&bus, name, &token).await;
    }
    put_token(&bus, endless.identity(), &endless.token()).await;
    for party in [&due, &late, &over, &fresh, &endless, &revoked] {
        write_entry(&names, &issued(party)).await;
    }
    let mut entry = issued(&marked);
    entry.revoked = true;
    write_entry(&names, &entry).await;
    let mut entry = issued(&released);
    entry.released = true;
    write_entry(&names, &entry).await;
    let mut entry = issued(&rekeyed);
    entry.key = node("rekeyed").public_key();
    write_entry(&names, &entry).await;
    organisation.revoke_user(&revoked);

    let trust = organisation.trust();
    let tokens = bus.bucket(TRUST_BUCKET.name);
    let renewal = TokenRenewal {
        names: &names,
        tokens: &tokens,
        trust: &trust,
        node_role: organisation.role_key(UserRole::Node),
    };
    let mut renewed = renewal.renew_due(now).await.unwrap();
    renewed.sort();
    assert_eq!(renewed, [due.identity().clone(), late.identity().clone()]);
    for party in [&due, &late] {
        let token = stored_token(&bus, party.identity()).await.unwrap();
        let verified = trust.verify_user(&token, now).unwrap();
        assert_eq!((verified.key, verified.role), (party.public_key(), UserRole::Node));
        assert_eq!(expires(&token), now / 1000 + 90);
        let held = names.get(party.identity()).await.unwrap().unwrap();
        assert!(held.at >= now, "a revocation sees when it was issued");
    }
    assert!(renewal.renew_due(now).await.unwrap().is_empty());

    // The node itself takes it, and reads that of no other node.
    let bus = connect(&server, &due).await;
    let own = bus.bucket(TRUST_BUCKET.name);
    let get = async |name: &str| own.get_once(&renewed_token_key(name)).await;
    assert!(get("due").await.unwrap().is_some());
    assert!(get("late").await.is_err());
    await_state("the connection stands", || bus.is_connected()).await;
}

/// A stolen service key can write the register of names and the bucket of tokens. It gets no token of a node signed for its own key, and
/// none for another name, from a real provisioner that renews a node's token meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_service_key_gets_no_token_of_a_node() {
    let fleet = Fleet::enrolling(&format!("lifetime = {LIFETIME}\n")).await;
    fleet.say_that_names_are_written().await;
    let organisation = &fleet.organisation;
    let stolen = organisation.service("directory");
    let stolen_node = organisation.node("web-8.example.com");
    let bus = connect(&fleet.server, &stolen).await;
    let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
    let now = muster_tests::now();
    let key = stolen.public_key();
    let entry = |name: &Identity, key: PublicKey| NameEntry {
        identity: name.clone(),
        key,
        at: now - 40_000,
        ..issued(&stolen)
    };
    let name = |number: u32| Identity::parse(&format!("web-{number}.example.com")).unwrap();

    // An entry alone, with the life that entries once had.
    let alone = name(10);
    let mut written = serde_json::to_value(entry(&alone, key)).unwrap();
    written["life"] = json!({"expires": now / 1000 + 50, "lifetime": 90});
    let bytes = Bytes::from(serde_json::to_vec(&written).unwrap());
    let bucket = bus.bucket(PROVISION_BUCKET.name);
    bucket.put(&format!("name.{alone}"), bytes).await.unwrap();
    // A service's token, a token that the thief signed, a stolen node's token under another name, and what is no token.
    let own = signed(organisation, UserRole::Service, &name(11), key, 40);
    let thief = KeyPair::generate(KeyKind::Account).unwrap();
    let account = organisation.trust().account_key();
    let at = now - 40_000;
    let life = Some(TokenLife::from_now(90, at));
    let forged = issue_node_token(&name(12), key, account, life, &thief, at).unwrap();
    let node_key = stolen_node.public_key();
    let other = signed(organisation, UserRole::Node, stolen_node.identity(), node_key, 40);
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

    // Two renewals of a real node: the provisioner has seen all of them.
    let mut machine = fleet.machine("web-1.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let renewed = name(1);
    let mut last = stored_token(&bus, &renewed).await.map_or(0, |t| expires(&t));
    for _ in 0..2 {
        last = poll_until_ok("a renewed token", PATIENCE, async || {
            let now = stored_token(&bus, &renewed).await.map_or(0, |t| expires(&t));
            (now > last).then_some(now).ok_or(now)
        })
        .await;
    }
    assert_eq!(stored_token(&bus, &alone).await, None);
    for (name, _, token) in attempts {
        assert_eq!(stored_token(&bus, &name).await, Some(token), "{name}");
    }
}
