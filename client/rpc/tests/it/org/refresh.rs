//! Organisations of older versions get the permissions of this version, with a real nats-server.

use std::fs;
use std::time::UNIX_EPOCH;

use muster_bus::{BucketReplicas, Bytes};
use muster_organisation::Organisation;
use muster_wire::stores::{self, SCHEDULES_BUCKET, TOKENS_BUCKET, TRUST_BUCKET};
use muster_wire::token::claims::{AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry};
use muster_wire::token::decode::decode_token;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::scope::{self, ADMINISTRATOR_ROLE};
use muster_wire::token::{AccountTrust, KeyPair, UserCredentials, UserRole};
use serde_json::Value;

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

/// The fleet's account token in force.
fn account(world: &World) -> AccountTrust {
    let text = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let operator = decode_token::<AccountClaims>(text.trim()).unwrap().unverified_claims().iss;
    AccountTrust::new(operator, text.trim()).unwrap()
}

/// The role of a signing key.
fn role(entry: &SigningKeyEntry) -> String {
    match entry {
        SigningKeyEntry::Scoped(scope) => scope.role.clone(),
        SigningKeyEntry::Plain(_) => String::new(),
    }
}

/// The entry of the administrators' key in an account token of a version without the stores TOKENS and FORGOTTEN, which removed no stores.
fn older_administrators(world: &World) -> SigningKeyEntry {
    let seed = fs::read_to_string(world.org().join("keys/role-admin.nk")).unwrap();
    let key = KeyPair::from_seed(seed.trim()).unwrap().public_key();
    let mut template = scope::administrator_template();
    let later = ["TOKENS", "FORGOTTEN", ".DELETE."];
    template.publish.allow.retain(|subject| !later.iter().any(|part| subject.contains(part)));
    SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(key, ADMINISTRATOR_ROLE, template)))
}

/// Signs the fleet's account token with permissions that allow no publications and with the stores. The key for administrators is that of these entries; without
/// one, it is removed.
fn make_older(world: &World, administrators: Vec<SigningKeyEntry>) {
    let trust = account(world);
    let mut older = trust.claims().nats.clone();
    older.limits = AccountLimits::with_jetstream(&[]);
    older.rest.clear();
    let stores = fs::read_to_string(world.org().join("storage.jwt")).unwrap();
    let profile = world.org().join("organisation.toml");
    let text = fs::read_to_string(&profile).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("storage_account")).collect();
    fs::write(&profile, lines.join("\n")).unwrap();
    for file in ["keys/storage.nk", "storage.jwt"] {
        fs::remove_file(world.org().join(file)).unwrap();
    }
    if administrators.is_empty() {
        fs::remove_file(world.org().join("keys/role-admin.nk")).unwrap();
    }
    for entry in &mut older.signing_keys {
        if let SigningKeyEntry::Scoped(scope) = entry {
            scope.template.publish.allow = vec!["older.subject".to_owned()];
        }
    }
    older.signing_keys.extend(administrators);
    let seed = fs::read_to_string(world.org().join("keys/operator.nk")).unwrap();
    let operator = KeyPair::from_seed(seed.trim()).unwrap();
    let validity = TokenValidity::without_end(trust.issued_at() + 1);
    let name = &trust.claims().name;
    let token =
        encode::issue_account_token(name, trust.account_key(), older, validity, &operator).unwrap();
    fs::write(world.org().join("account.jwt"), format!("{token}\n")).unwrap();
    let preload = world.org().join("broker/accounts.conf");
    let text = fs::read_to_string(&preload).unwrap();
    let text = text.replace(trust.account_token(), &token);
    let stores = decode_token::<AccountClaims>(stores.trim()).unwrap().unverified_claims().sub;
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.contains(&stores.to_string())).collect();
    fs::write(&preload, lines.join("\n")).unwrap();
}

/// Stores a schedule as the earlier version did. The push moves it.
async fn push_moves_a_schedule(world: &World, broker: &Broker) {
    let administrator = async || {
        let organisation = Organisation::open(&world.org()).unwrap();
        let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let creds = organisation.administrator_credentials(now).unwrap();
        broker.connect_as(world, &creds).await.unwrap()
    };
    let older = administrator().await;
    older.declare_bucket(&SCHEDULES_BUCKET, BucketReplicas::Exactly(1)).await.unwrap();
    older.bucket(SCHEDULES_BUCKET.name).put("nightly", "kept".into()).await.unwrap();
    let pushed = world.rpc(&["org", "push"]);
    assert!(
        talk(&pushed).contains("moved the stores to an account of their own, with 1 key"),
        "{pushed:?}"
    );
    let moved = administrator().await.bucket(SCHEDULES_BUCKET.name).get("nightly").await;
    assert_eq!(moved.unwrap().unwrap().value.unwrap(), "kept");
    assert!(!world.org().join("stores.moved.json").exists());
}

/// The administrators of the earlier version may neither find the later stores nor remove any.
#[tokio::test]
async fn push_moves_the_stores_with_the_administrators_key_of_an_older_organisation() {
    let program = nats_server();
    let world = World::new(&[]);
    let administrators = older_administrators(&world);
    make_older(&world, vec![administrators]);
    let broker = Broker::start(&program, &world, true).await;
    push_moves_a_schedule(&world, &broker).await;
}

#[tokio::test]
async fn push_updates_the_permissions_of_an_older_organisation() {
    let program = nats_server();
    let world = World::new(&[]);
    world.ok(&["org", "add", "user", "rip"]);
    make_older(&world, Vec::new());
    let broker = Broker::start(&program, &world, true).await;
    push_moves_a_schedule(&world, &broker).await;
    for entry in &account(&world).claims().nats.signing_keys {
        let SigningKeyEntry::Scoped(scope) = entry else {
            panic!("the role has no scope");
        };
        let expected = match scope.role.as_str() {
            ADMINISTRATOR_ROLE => scope::administrator_template(),
            role => {
                role.parse::<UserRole>().unwrap().permission_template(&["muster".parse().unwrap()])
            }
        };
        assert_eq!(scope.template, expected, "{}", scope.role);
    }
    // Administrators have a key of their own now, in the account of the stores, so the account's own key is not needed.
    let roles: Vec<_> = account(&world).claims().nats.signing_keys.iter().map(role).collect();
    assert_eq!(roles, ["node", "caller", "service"]);
    fs::remove_file(world.org().join("keys/account.nk")).unwrap();
    // The broker applies the token: the publication is allowed now, and has no subscriber.
    let rip = broker.connect(&world, "creds/users/rip.creds").await.unwrap();
    let answer =
        rip.request("muster.rpcutil.ping.all", Bytes::new()).await.unwrap_err().to_string();
    assert!(answer.contains("no responders"), "{answer}");
    let pushed = account(&world);
    world.ok(&["org", "push"]);
    assert_eq!(
        account(&world).account_token(),
        pushed.account_token(),
        "a second push changed the token"
    );
}

/// Earlier versions kept tokens of nodes in the bucket of the account token, where a stolen service key could fill it. A push repairs it.
#[tokio::test]
async fn push_moves_tokens_of_nodes_and_empties_a_full_bucket() {
    const FORMER_BYTES: u64 = 96 * 1024 * 1024;
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "node", "web1.acme.net"]);
    world.ok(&["org", "add", "user", "rip"]);
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    let organisation = Organisation::open(&world.org()).unwrap();
    let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let administrator = organisation.administrator_credentials(now).unwrap();
    let bus = broker.connect_as(&world, &administrator).await.unwrap();
    let stream = stores::stream_name(TRUST_BUCKET.name);
    let info = bus.request(&format!("$JS.API.STREAM.INFO.{stream}"), Bytes::new()).await.unwrap();
    let mut config = serde_json::from_slice::<Value>(info.payload()).unwrap()["config"].take();
    assert_eq!(config["max_bytes"], TRUST_BUCKET.max_bytes);
    config["max_bytes"] = FORMER_BYTES.into();
    let update = format!("$JS.API.STREAM.UPDATE.{stream}");
    let updated = bus.request(&update, config.to_string().into()).await.unwrap();
    let updated: Value = serde_json::from_slice(updated.payload()).unwrap();
    assert_eq!(updated["config"]["max_bytes"], FORMER_BYTES, "{updated}");
    let trust = bus.bucket(TRUST_BUCKET.name);
    let creds = fs::read_to_string(world.org().join("creds/nodes/web1.acme.net.creds")).unwrap();
    let token = UserCredentials::parse(&creds).unwrap().jwt().to_owned();
    trust.put("token.web1.acme.net", token.clone().into()).await.unwrap();
    let junk = Bytes::from(vec![b'x'; 1_000_000]);
    for number in 0_u64.. {
        if trust.put_once(&format!("token.x{number}"), junk.clone()).await.is_err() {
            assert!(number * 1_000_000 > FORMER_BYTES / 2, "{number}");
            break;
        }
    }

    world.ok(&["org", "push"]);
    world.ok(&["org", "revoke", "rip", "--yes"]);
    let mut keys: Vec<String> =
        trust.list(">").await.unwrap().into_iter().map(|entry| entry.key).collect();
    keys.sort();
    assert_eq!(keys, ["account", "head"]);
    let moved = bus.bucket(TOKENS_BUCKET.name).get("web1.acme.net").await.unwrap().unwrap();
    assert_eq!(moved.value.unwrap(), token.as_bytes());
}
