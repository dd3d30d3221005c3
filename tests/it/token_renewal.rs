//! Tokens of nodes end, and are renewed before: by the enroller's service, for nodes that are neither revoked nor released.

use std::time::Duration;

use muster_bus::TokenRenewal;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::{await_answer, await_state};
use muster_wire::Millis;
use muster_wire::enrol::NameEntry;
use muster_wire::sign::Signer;
use muster_wire::status::ReplyStatus;
use muster_wire::stores::{PROVISION_BUCKET, TRUST_BUCKET, renewed_token_key};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{UserCredentials, UserRole};
use serde_json::json;

use crate::ask::Caller;
use crate::enrolled_names::{Fleet, await_log, issued};

/// How long the tokens of this fleet live, in seconds.
const LIFETIME: u64 = 9;
const PATIENCE: Duration = Duration::from_secs(30);

fn expires(token: &str) -> u64 {
    decode_token::<UserClaims>(token.trim())
        .unwrap()
        .unverified_claims()
        .exp
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
    await_answer("a renewed token is kept", PATIENCE, async || {
        let kept = std::fs::read_to_string(&kept).map_or(0, |token| expires(&token));
        (kept > first).then_some(()).ok_or(kept)
    })
    .await;

    // The broker ends connections whose token is over, and takes no such token.
    let asker = fleet.organisation.caller("rip");
    let caller = Caller::connect(&fleet.organisation, &fleet.server, asker).await;
    let ping = async || {
        let reply = caller.ask("web-1.example.com", "rpcutil", "ping", json!({}));
        reply.await.reply
    };
    await_answer(
        "the node comes back with the renewed token",
        PATIENCE,
        async || {
            let log = machine.log();
            let connections = log.matches("connected to the broker").count();
            // To be enrolled, as a node, and after the end of the first token.
            (connections > 2).then_some(()).ok_or(log)
        },
    )
    .await;
    assert!(muster_tests::now() / 1000 >= first);
    assert!(
        ping().await.statuscode == ReplyStatus::Ok,
        "{}",
        machine.log()
    );
    assert!(machine.log().contains("renewed the node's token"));

    // Started again, it uses the token that it kept, and is not enrolled anew.
    drop(machine);
    let mut again = home.clone().start();
    await_log(&mut again, "ready identity=").await;
    assert!(
        ping().await.statuscode == ReplyStatus::Ok,
        "{}",
        again.log()
    );
    let after = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    assert_eq!(after, text);
}

/// An entry whose token was issued a while ago.
fn aged(party: &Signer, age: u64, now: Millis) -> NameEntry {
    let at = now - age * 1000;
    NameEntry {
        at,
        life: Some(TokenLife::from_now(90, at)),
        ..issued(party)
    }
}

#[tokio::test]
async fn only_tokens_that_are_due_are_renewed_and_never_those_of_revoked_keys() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.storing_broker().await;
    let bus = connect(&server, &organisation.service("enroller")).await;
    let names = muster_bus::NameStore::new(bus.bucket(PROVISION_BUCKET.name));
    let now = muster_tests::now();
    let node = |name: &str| organisation.node(name);
    let (due, over, marked) = (node("due"), node("over"), node("marked"));
    let (fresh, endless, released) = (node("fresh"), node("endless"), node("released"));
    let revoked = node("revoked");
    let entries = [
        aged(&due, 40, now),
        aged(&over, 100, now),
        aged(&fresh, 20, now),
        issued(&endless),
        NameEntry {
            revoked: true,
            ..aged(&marked, 40, now)
        },
        NameEntry {
            released: true,
            ..aged(&released, 40, now)
        },
        aged(&revoked, 40, now),
    ];
    for entry in &entries {
        let write = |_| (Some(entry.clone()), ());
        names.edit_entry(&entry.identity, write).await.unwrap();
    }
    organisation.revoke(&revoked);
    let trust = organisation.trust();
    let tokens = bus.bucket(TRUST_BUCKET.name);
    let missing = bus.bucket("NONE");
    let role = organisation.role_key(UserRole::Node);
    let renewal = |tokens| TokenRenewal {
        names: &names,
        tokens,
        trust: &trust,
        node_role: role,
    };

    // What cannot be written is due at the next look, too.
    renewal(&missing).renew_due(now).await.unwrap_err();
    let mut renewed = renewal(&tokens).renew_due(now).await.unwrap();
    renewed.sort();
    assert_eq!(renewed, [due.identity().clone(), over.identity().clone()]);
    for party in [&due, &over] {
        let key = renewed_token_key(party.identity().as_str());
        let entry = tokens.get(&key).await.unwrap().unwrap();
        let token = String::from_utf8(entry.value.unwrap().to_vec()).unwrap();
        let verified = trust.verify_user(&token, now).unwrap();
        assert_eq!(
            (verified.key, verified.role),
            (party.public_key(), UserRole::Node)
        );
        assert_eq!(expires(&token), now / 1000 + 90);
        let held = names.get(party.identity()).await.unwrap().unwrap();
        assert_eq!(held.at, now, "a revocation sees when the token was issued");
    }
    assert_eq!(tokens.list(&renewed_token_key(">")).await.unwrap().len(), 2);
    assert!(renewal(&tokens).renew_due(now).await.unwrap().is_empty());

    // The node itself takes it, and reads that of no other node.
    let bus = connect(&server, &due).await;
    let own = bus.bucket(TRUST_BUCKET.name);
    let get = async |name: &str| own.get_once(&renewed_token_key(name)).await;
    assert!(get("due").await.unwrap().is_some());
    assert!(get("over").await.is_err());
    await_state("the connection stands", || bus.is_connected()).await;
}
