//! Register of names in the broker's store: names are reserved when issued, marked when revoked, and repaired by a push.

use std::fs;
use std::time::Duration;

use muster_bus::{Bus, NameStore};
use muster_wire::enrolment::{NameEntry, issue_node_token};
use muster_wire::identity::Identity;
use muster_wire::limits::MAX_NODE_TOKEN_SECONDS;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::{NODES_BUCKET, PROVISION_BUCKET, TOKENS_BUCKET};
use muster_wire::token::claims::{TokenClaims, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, PublicKey, UserCredentials};
use serde_json::json;

use super::broker::{Broker, nats_server};
use super::files::more_options;
use super::mass_revocation::{await_state, start_daemon};
use super::world::{World, pair, talk};

const PATIENCE: Duration = Duration::from_secs(20);

/// An organisation with an enroller, its broker, and a service that reads the register of names.
struct Fleet {
    world: World,
    broker: Broker,
    bus: Bus,
    names: NameStore,
}

impl Fleet {
    async fn new() -> Self {
        let world = World::new(&["--no-tls", "--port", "1"]);
        world.ok(&["org", "add", "node", "web1.acme.net"]);
        world.ok(&["org", "add", "user", "rip"]);
        world.ok(&["org", "add", "service", "directory", "--serve", "provision"]);
        let program = nats_server();
        let broker = Broker::start(&program, &world, true).await;
        world.ok(&["org", "add", "enroller", "provisioner"]);
        let service = "creds/services/directory.creds";
        let bus = broker.connect(&world, service).await.unwrap();
        let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
        Self { world, broker, bus, names }
    }

    async fn entry(&self, name: &str) -> Option<NameEntry> {
        self.names.get(&identity(name)).await.unwrap()
    }

    /// Writes an entry as the enroller does.
    async fn enrol(&self, name: &str) -> PublicKey {
        let key = KeyPair::generate(KeyKind::User).unwrap().public_key();
        let entry = NameEntry {
            identity: identity(name),
            key,
            credential: Some(KeyPair::generate(KeyKind::User).unwrap().public_key()),
            at: now(),
            released: false,
            revoked: false,
            former: Vec::new(),
        };
        self.put(&entry).await;
        key
    }

    /// The claims of the renewed token that a node of this name fetches.
    async fn token(&self, name: &str) -> Option<TokenClaims<UserClaims>> {
        let tokens = self.bus.bucket(TOKENS_BUCKET.name);
        let entry = tokens.get(name).await.unwrap();
        let token = String::from_utf8(entry?.value?.to_vec()).unwrap();
        let decoded = decode_token::<UserClaims>(&token).unwrap();
        Some(decoded.unverified_claims().clone())
    }

    async fn put(&self, entry: &NameEntry) {
        let write = |_| (Some(entry.clone()), ());
        self.names.edit_entry(&entry.identity, write).await.unwrap();
    }

    fn trust(&self) -> AccountTrust {
        let read = |file: &str| fs::read_to_string(self.world.org().join(file)).unwrap();
        let profile: toml::Table = toml::from_str(&read("organisation.toml")).unwrap();
        let operator = PublicKey::parse(profile["operator"].as_str().unwrap()).unwrap();
        AccountTrust::new(operator, read("account.jwt").trim()).unwrap()
    }

    fn refused(&self, args: &[&str], words: &str) {
        let refused = self.world.rpc(args);
        let told = talk(&refused);
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
}

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

fn now() -> u64 {
    u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn names_are_stored_before_credentials_are_issued() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    for name in ["web1.acme.net", "rip", "directory"] {
        let entry = fleet.entry(name).await.unwrap();
        assert!(!entry.is_enrolled() && !entry.revoked, "{entry:?}");
    }
    assert!(fleet.names.issued_at().await.unwrap().is_some());
    for kind in ["node", "user", "service"] {
        let name = format!("{kind}-2");
        fleet.world.ok(&[&["org", "add", kind, &name], more_options(kind)].concat());
        assert!(fleet.entry(&name).await.is_some(), "{name}");
    }
    // A push restores entries that the store lost.
    let bucket = fleet.bus.bucket(PROVISION_BUCKET.name);
    bucket.delete("name.web1.acme.net").await.unwrap();
    assert_eq!(fleet.entry("web1.acme.net").await, None);
    fleet.world.ok(&["org", "push"]);
    assert!(fleet.entry("web1.acme.net").await.is_some());
}

#[tokio::test]
async fn no_credentials_are_issued_for_an_unreserved_name() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let enrolled = fleet.enrol("web2.acme.net").await;
    for kind in ["node", "user", "service"] {
        let add = [&["org", "add", kind, "web2.acme.net"], more_options(kind)].concat();
        fleet.refused(&add, &enrolled.to_string());
    }
    let before = fleet.world.states();
    fleet.bus.close().await.unwrap();
    let Fleet { world, broker, .. } = fleet;
    drop(broker);
    let refused = world.rpc(&["org", "add", "node", "web3.acme.net"]);
    assert!(talk(&refused).contains("no credentials were issued"), "{}", talk(&refused));
    assert_eq!(world.states(), before);
}

#[tokio::test]
async fn enrolled_node_is_revoked_by_name_until_the_name_is_released() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let (first, second) = (fleet.enrol("web2.acme.net").await, fleet.enrol("web3.acme.net").await);
    let release = ["provision", "release", "web2.acme.net"];
    fleet.refused(&release, "is not revoked");

    let by_name = fleet.world.rpc(&["org", "revoke", "web2.acme.net", "--yes"]);
    let by_key = fleet.world.rpc(&["org", "revoke", &second.to_string(), "--yes"]);
    for (revoked, key, name) in
        [(by_name, first, "web2.acme.net"), (by_key, second, "web3.acme.net")]
    {
        let told = talk(&revoked);
        assert_eq!(revoked.status.code(), Some(0), "{told}");
        assert!(told.contains(&format!("node {name} (key {key})")), "{told}");
        assert!(!told.contains("neither here"), "{told}");
        assert!(fleet.trust().has_revocation(&key));
        let entry = fleet.entry(name).await.unwrap();
        assert!(entry.revoked && !entry.released, "{entry:?}");
    }
    fleet.world.ok(&release);
    let entry = fleet.entry("web2.acme.net").await.unwrap();
    assert!(entry.released && entry.revoked, "a release must not end the revocation of the key");

    // The same applies to a node whose credentials the organisation issued.
    fleet.world.ok(&["org", "revoke", "web1.acme.net", "--yes"]);
    assert!(fleet.entry("web1.acme.net").await.unwrap().revoked);
    fleet.world.ok(&["org", "add", "node", "web1.acme.net"]);
    assert!(!fleet.entry("web1.acme.net").await.unwrap().revoked);
    let states = fleet.world.states();
    assert!(states.contains(&pair("web1.acme.net", "revoked")), "{states:?}");
    assert!(states.contains(&pair("web1.acme.net", "valid")), "{states:?}");
}

/// `rpc provision retire` revokes the token with the organisation's keys, and the service frees the name.
#[tokio::test]
async fn retire_revokes_the_token_of_the_node() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let key = fleet.enrol("web2.acme.net").await;
    let world = &fleet.world;
    let credentials = world.org().join("creds/services/directory.creds");
    let more = format!(
        "[plugins.provisioner]\nenabled = true\ndiscover_seconds = 0\ncredentials = {credentials:?}\n"
    );
    let _daemon = start_daemon(world, "prov1.acme.net", &more);
    let user = world.scratch.path().join("anna");
    world.ok(&["org", "add", "user", "anna", "--bundle", user.to_str().unwrap()]);
    let config = user.join("rpc.toml");
    let config = ["--config", config.to_str().unwrap()];
    let status = [&config[..], &["provision", "status"]].concat();
    await_state("the service replies", || world.rpc(&status).status.code() == Some(0)).await;
    let retire = [&config[..], &["provision", "retire", "web2.acme.net", "--yes"]].concat();
    let retired = world.rpc(&retire);
    assert_eq!(retired.status.code(), Some(0), "{}", talk(&retired));
    assert!(talk(&retired).contains("revoked node web2.acme.net"), "{}", talk(&retired));
    assert!(fleet.trust().has_revocation(&key));
    assert!(fleet.entry("web2.acme.net").await.unwrap().revoked);
}

/// The revocation was signed while the broker was down, and the enroller, without it, signed another token for that key.
#[tokio::test]
async fn push_marks_revoked_names_and_revokes_later_tokens_of_their_keys() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let key = fleet.enrol("web2.acme.net").await;
    fleet.world.ok(&["org", "revoke", &key.to_string(), "--yes"]);
    let until = |fleet: &Fleet| fleet.trust().claims().nats.revocations[&key.to_string()];
    let revoked = until(&fleet);
    let mut entry = fleet.entry("web2.acme.net").await.unwrap();
    (entry.revoked, entry.at) = (false, (revoked + 5) * 1000);
    fleet.put(&entry).await;
    fleet.world.ok(&["org", "push"]);
    assert!(fleet.entry("web2.acme.net").await.unwrap().revoked);
    assert!(until(&fleet) >= revoked + 5, "the later token is not revoked");
}

/// Pushes until the output names this node.
async fn push_until(fleet: &Fleet, node: &str) {
    let pushed = async {
        while !talk(&fleet.world.rpc(&["org", "push"])).contains(node) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, pushed).await.unwrap();
}

#[tokio::test]
async fn push_renews_due_tokens_and_a_revocation_covers_renewed_tokens() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let name = "web2.acme.net";
    fleet.world.ok(&["org", "add", "node", name, "--expires", "9s"]);
    let first = fleet.entry(name).await.unwrap();
    let issued = fleet.token(name).await.unwrap();
    // A push republishes tokens that the bucket lost.
    let tokens = fleet.bus.bucket(TOKENS_BUCKET.name);
    tokens.delete(name).await.unwrap();
    push_until(&fleet, name).await;
    let renewed = fleet.token(name).await.unwrap();
    assert_eq!(renewed.sub, first.key);
    assert!(renewed.exp > issued.exp, "{renewed:?}");
    // One line for the key, with its newest token.
    let states = fleet.world.states();
    let listed = states.iter().filter(|row| **row == pair(name, "valid"));
    assert_eq!(listed.count(), 1, "{states:?}");
    // An enroller with a fast clock has renewed the token since.
    let entry = fleet.entry(name).await.unwrap();
    let entry = NameEntry { at: entry.at + 60_000, ..entry };
    fleet.put(&entry).await;
    fleet.world.ok(&["org", "revoke", name, "--yes"]);
    let until = fleet.trust().claims().nats.revocations[&first.key.to_string()];
    assert!(until >= entry.at / 1000, "{until}");

    // Tokens of nodes expire by default if an enroller renews them.
    fleet.world.ok(&["org", "add", "node", "web3.acme.net"]);
    let add = ["org", "add", "node", "web4.acme.net", "--expires", "never"];
    fleet.world.ok(&add);
    let token = fleet.token("web3.acme.net").await.unwrap();
    assert_eq!(token.exp - token.iat, MAX_NODE_TOKEN_SECONDS);
    assert!(fleet.token("web4.acme.net").await.is_none());
}

/// The holder of a stolen service key writes that key into the register of names, and its token into the bucket of tokens.
#[tokio::test]
async fn push_signs_no_node_token_for_a_stolen_service_key() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let add = ["org", "add", "service", "thief", "--serve", "provision", "--expires", "9s"];
    fleet.world.ok(&add);
    let creds = fs::read_to_string(fleet.world.org().join("creds/services/thief.creds")).unwrap();
    let creds = UserCredentials::parse(&creds).unwrap();
    let names = fleet.bus.bucket(PROVISION_BUCKET.name);
    let tokens = fleet.bus.bucket(TOKENS_BUCKET.name);
    for name in ["web8.acme.net", "web9.acme.net"] {
        let entry = json!({
            "identity": name,
            "key": creds.key_pair().public_key(),
            "at": now() - 40_000,
            "life": {"expires": now() / 1000 + 50, "lifetime": 90},
        });
        let entry = serde_json::to_vec(&entry).unwrap().into();
        names.put(&format!("name.{name}"), entry).await.unwrap();
    }
    // Under the name of a node, and under its own.
    let own = creds.jwt().to_owned();
    let keys = ["web9.acme.net", "thief"];
    for key in &keys {
        tokens.put(key, own.clone().into()).await.unwrap();
    }

    let node = "web2.acme.net";
    let add = ["org", "add", "node", node, "--expires", "9s"];
    fleet.world.ok(&add);
    push_until(&fleet, node).await;
    assert!(fleet.token("web8.acme.net").await.is_none());
    for key in &keys {
        let stored = tokens.get(key).await.unwrap().unwrap().value.unwrap();
        assert_eq!(stored, own.as_bytes(), "{key}");
    }
}

/// A machine that an enroller admitted: its token is in no file of the organisation.
fn enrolled_machine(fleet: &Fleet, name: &str, issued_at: u64) -> UserCredentials {
    let seed = fs::read_to_string(fleet.world.org().join("keys/role-node.nk")).unwrap();
    let role = KeyPair::from_seed(seed.trim()).unwrap();
    let key = KeyPair::generate(KeyKind::User).unwrap();
    let (name, account) = (identity(name), fleet.trust().account_key());
    let life = TokenLife::from_now(90 * 24 * 60 * 60, issued_at);
    let token =
        issue_node_token(&name, key.public_key(), account, Some(life), &role, issued_at).unwrap();
    UserCredentials::new(&token, key).unwrap()
}

/// Writes a record as this node, with the token of another one or its own.
async fn put_record(fleet: &Fleet, node: &UserCredentials, signer: &UserCredentials) {
    let name = &node.claims().name;
    let signer = Signer::new(signer.clone()).unwrap();
    let record = sign_envelope(EnvelopeKind::Record, &json!({"sender": name}), &signer).unwrap();
    let bus = fleet.broker.connect_as(&fleet.world, node).await.unwrap();
    bus.bucket(NODES_BUCKET.name).put(name, record.into()).await.unwrap();
}

/// The store of names is empty. Without a restoration, the tokens of the machines expire, and other machines can enrol with their names.
#[tokio::test]
async fn push_restores_the_names_of_enrolled_machines() {
    let fleet = Fleet::new().await;
    fleet.world.ok(&["org", "push"]);
    let machine = |name: &str| enrolled_machine(&fleet, name, now() - 1000);
    let [renewed, recorded, revoked] =
        ["web2.acme.net", "web3.acme.net", "web4.acme.net"].map(machine);
    let tokens = fleet.bus.bucket(TOKENS_BUCKET.name);
    for creds in [&renewed, &revoked] {
        tokens.put(&creds.claims().name, creds.jwt().to_owned().into()).await.unwrap();
    }
    let revoked_key = revoked.key_pair().public_key().to_string();
    fleet.world.ok(&["org", "revoke", &revoked_key, "--yes"]);
    // A record with the token of the node itself, and one with that of another node.
    let liar = machine("web5.acme.net");
    put_record(&fleet, &recorded, &recorded).await;
    put_record(&fleet, &liar, &recorded).await;

    let told = talk(&fleet.world.rpc(&["org", "push"]));
    assert!(
        told.contains("had lost 2 names of enrolled machines")
            && told.contains("web2.acme.net, web3.acme.net"),
        "{told}"
    );
    for creds in [&renewed, &recorded] {
        let entry = fleet.entry(&creds.claims().name).await.unwrap();
        assert_eq!(entry.key, creds.key_pair().public_key());
        assert!(entry.is_enrolled() && entry.is_renewable(), "{entry:?}");
        let stored = tokens.get(&creds.claims().name).await.unwrap().unwrap().value.unwrap();
        assert_eq!(stored, creds.jwt().as_bytes());
    }
    for name in ["web4.acme.net", "web5.acme.net"] {
        assert_eq!(fleet.entry(name).await, None, "{name}");
    }
    let again = talk(&fleet.world.rpc(&["org", "push"]));
    assert!(!again.contains("had lost"), "{again}");
    // The register is older than a day: a removed entry is not restored.
    let names = fleet.bus.bucket(PROVISION_BUCKET.name);
    names.put("issued", json!({"at": now(), "first": 1}).to_string().into()).await.unwrap();
    names.delete("name.web2.acme.net").await.unwrap();
    fleet.world.ok(&["org", "push"]);
    assert_eq!(fleet.entry("web2.acme.net").await, None);
}
