//! An organisation in memory: keys and tokens as `rpc org` creates them, and the broker's configuration for it.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use muster_bus::content::ContentStore;
use muster_bus::{BrokerAddress, BucketReplicas, Bus, BusOptions};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::limits::MAX_CONNECT_BYTES;
use muster_wire::sign::Signer;
use muster_wire::stores::{self, StoreUse};
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, OperatorClaims, ScopedKey, SigningKeyEntry, SubjectPermissions,
    UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::head::AccountHead;
use muster_wire::token::storage::{fleet_imports, storage_exports};
use muster_wire::token::{
    AccountTrust, ApprovedProgram, KeyKind, KeyPair, ServiceRight, UserCredentials, UserRole,
    leaf_scope, scope,
};
use tokio::time::Instant;

use crate::bootstrap::BootstrapAccount;
use crate::nats_server::{NETWORK_TIMEOUT, NatsServer};

/// The part of the broker's configuration that enables stores.
pub const JETSTREAM_CONFIG: &str =
    "jetstream: { store_dir: \"@DIRECTORY@/jetstream\", max_file: 6GB }\n";

/// An address to connect to: a broker on loopback, a cluster, or a proxy in front of one.
pub trait Broker {
    /// Port of the first server.
    fn port(&self) -> u16;

    /// URLs for clients.
    fn urls(&self) -> Vec<String> {
        vec![format!("nats://127.0.0.1:{}", self.port())]
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Keys and tokens of one fleet.
#[derive(Debug)]
pub struct Organisation {
    operator: KeyPair,
    account: KeyPair,
    /// Identity key of the account of the stores.
    storage: Box<KeyPair>,
    system: KeyPair,
    /// Signs users of the system account, who may push account tokens.
    pusher: KeyPair,
    roles: Vec<(UserRole, KeyPair)>,
    claims: AccountClaims,
    issued_at: u64,
    collectives: Vec<SubjectName>,
    /// Signs users who may publish and subscribe to everything, as an attacker who controls the broker can.
    unrestricted: KeyPair,
    bootstrap_account: BootstrapAccount,
    /// Signs leaf nodes.
    leaf: KeyPair,
}

impl Organisation {
    /// An organisation with these collectives.
    pub fn new(collectives: &[&str]) -> Self {
        let collectives: Vec<SubjectName> =
            collectives.iter().map(|name| SubjectName::parse(name).unwrap()).collect();
        let key = |kind| KeyPair::generate(kind).unwrap();
        let roles = [UserRole::Node, UserRole::Caller, UserRole::Service]
            .map(|role| (role, key(KeyKind::Account)));
        let scoped = |(role, key): &(UserRole, KeyPair)| {
            let template = role.permission_template(&collectives);
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key.public_key(), *role, template)))
        };
        let unrestricted = key(KeyKind::Account);
        let mut template = UserRole::Caller.permission_template(&[]);
        let all = SubjectPermissions { allow: vec![">".to_owned()], deny: Vec::new() };
        template.publish = all.clone();
        // A subscriber of confirmations would answer them in place of the broker.
        template.subscribe = SubjectPermissions {
            deny: vec![muster_wire::subject::CONFIRM_SUBJECT.to_owned()],
            ..all
        };
        let everything = SigningKeyEntry::Scoped(Box::new(ScopedKey {
            kind: "user_scope".to_owned(),
            key: unrestricted.public_key(),
            role: "spy".to_owned(),
            template,
        }));
        let leaf = key(KeyKind::Account);
        let leaf_entry = SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(
            leaf.public_key(),
            leaf_scope::LEAF_ROLE,
            leaf_scope::leaf_template(&collectives),
        )));
        let signing_keys = roles.iter().map(scoped).chain([everything, leaf_entry]).collect();
        // One minute ago, so that later revocations have a later time.
        let issued_at = crate::now() / 1000 - 60;
        let operator = key(KeyKind::Operator);
        let storage = Box::new(key(KeyKind::Account));
        let mut claims = AccountClaims::new(AccountLimits::default(), signing_keys);
        claims.rest.extend(fleet_imports(&storage.public_key()));
        Self {
            claims,
            storage,
            unrestricted,
            leaf,
            bootstrap_account: BootstrapAccount::new(&operator, issued_at),
            operator,
            account: key(KeyKind::Account),
            system: key(KeyKind::Account),
            pusher: key(KeyKind::Account),
            roles: roles.into(),
            issued_at,
            collectives,
        }
    }

    /// The first collective.
    pub fn collective(&self) -> &SubjectName {
        self.collectives.first().unwrap()
    }

    /// The account of bootstrapping nodes.
    pub fn bootstrap_account(&self) -> &BootstrapAccount {
        &self.bootstrap_account
    }

    /// The key that signs users of this role.
    pub fn role_key(&self, role: UserRole) -> &KeyPair {
        let (_, key) = self.roles.iter().find(|(known, _)| *known == role).unwrap();
        key
    }

    /// The account's token.
    pub fn account_token(&self) -> String {
        let validity = TokenValidity::without_end(self.issued_at);
        encode::issue_account_token(
            "fleet",
            self.account.public_key(),
            self.claims.clone(),
            validity,
            &self.operator,
        )
        .unwrap()
    }

    /// The trust anchor of all users of the organisation.
    pub fn trust(&self) -> AccountTrust {
        AccountTrust::new(self.operator.public_key(), &self.account_token()).unwrap()
    }

    /// The broker's configuration: operator mode, with a resolver that accepts updates.
    pub fn broker_configuration(&self) -> String {
        let validity = TokenValidity::without_end(self.issued_at);
        let system = encode::issue_account_token(
            "system",
            self.system.public_key(),
            AccountClaims::new(AccountLimits::default(), vec![self.pusher_scope()]),
            validity,
            &self.operator,
        )
        .unwrap();
        let mut storage =
            AccountClaims::new(AccountLimits::with_jetstream(&StoreUse::ALL), Vec::new());
        storage.rest.extend(storage_exports());
        let key = self.storage.public_key();
        let storage =
            encode::issue_account_token("storage", key, storage, validity, &self.operator);
        let operator = OperatorClaims::new(Some(self.system.public_key()));
        let operator =
            encode::issue_operator_token("test", operator, validity, &self.operator).unwrap();
        let mut text = String::new();
        writeln!(text, "max_control_line: {MAX_CONNECT_BYTES}").unwrap();
        writeln!(text, "operator: {operator}").unwrap();
        writeln!(text, "system_account: {}", self.system.public_key()).unwrap();
        writeln!(text, "resolver: {{ type: full, dir: \"@DIRECTORY@/accounts\" }}").unwrap();
        writeln!(text, "resolver_preload: {{").unwrap();
        writeln!(text, "  {}: {}", self.account.public_key(), self.account_token()).unwrap();
        writeln!(text, "  {}: {}", self.storage.public_key(), storage.unwrap()).unwrap();
        let bootstrap_account = &self.bootstrap_account;
        writeln!(text, "  {}: {}", bootstrap_account.account(), bootstrap_account.token()).unwrap();
        writeln!(text, "  {}: {system}\n}}", self.system.public_key()).unwrap();
        text
    }

    fn pusher_scope(&self) -> SigningKeyEntry {
        let subject_list = |subjects: &[&str]| SubjectPermissions {
            allow: subjects.iter().map(|&subject| subject.to_owned()).collect(),
            deny: Vec::new(),
        };
        let mut template = UserRole::Caller.permission_template(&[]);
        template.publish =
            subject_list(&["$SYS.REQ.CLAIMS.UPDATE", muster_wire::subject::CONFIRM_SUBJECT]);
        template.subscribe = subject_list(&["_INBOX.>"]);
        SigningKeyEntry::Scoped(Box::new(ScopedKey {
            kind: "user_scope".to_owned(),
            key: self.pusher.public_key(),
            role: "system".to_owned(),
            template,
        }))
    }

    /// Starts a broker for this organisation.
    pub async fn start_broker(&self) -> NatsServer {
        NatsServer::start(&self.broker_configuration()).await
    }

    /// Starts a broker with the fleet's stores.
    pub async fn start_broker_with_stores(&self) -> NatsServer {
        let configuration = format!("{}{JETSTREAM_CONFIG}", self.broker_configuration());
        let server = NatsServer::start(&configuration).await;
        self.declare_stores(&server, 1).await;
        server
    }

    /// Declares the fleet's stores with this number of replicas.
    pub async fn declare_stores(&self, broker: &impl Broker, copies: usize) {
        let bus = connect(broker, &self.administrator()).await;
        for store in &stores::ALL_BUCKETS {
            // A cluster on a busy machine may exceed the timeout of a request.
            let deadline = Instant::now() + NETWORK_TIMEOUT;
            while let Err(error) = bus.declare_bucket(store, BucketReplicas::Exactly(copies)).await
            {
                assert!(Instant::now() < deadline, "{error}");
            }
        }
    }

    /// Writes the account's token into the trust bucket, as `rpc org push` does.
    pub async fn publish_account(&self, broker: &impl Broker, account_token: &str) {
        let trust = AccountTrust::new(self.operator.public_key(), account_token).unwrap();
        let bus = connect(broker, &self.administrator()).await;
        let bucket = bus.bucket(stores::TRUST_BUCKET.name);
        let token = account_token.to_owned().into();
        bucket.put(stores::TRUST_ACCOUNT_KEY, token).await.unwrap();
        let head = AccountHead::of_trust(&trust).to_json().unwrap();
        bucket.put(stores::TRUST_HEAD_KEY, head.into()).await.unwrap();
    }

    /// An administrator of the account of the stores, who declares them.
    pub fn administrator(&self) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let (publish, subscribe) = scope::administrator_permissions(&key.public_key().to_string());
        let claims = UserClaims::new_administrator(publish, subscribe);
        let name = Identity::parse("administrator").unwrap();
        let validity = TokenValidity::without_end(self.issued_at);
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, &self.storage)
                .unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// Key and token of a node.
    pub fn node(&self, name: &str) -> Signer {
        self.user(UserRole::Node, name, &[])
    }

    /// A caller who may call every agent.
    pub fn caller(&self, name: &str) -> Signer {
        self.user(UserRole::Caller, name, &["agent:*"])
    }

    /// Lists these services in the account token, as `rpc org` does, before the broker starts.
    pub fn list_services(&mut self, right: ServiceRight, names: &[&str]) {
        let names = names.iter().map(|name| Identity::parse(name).unwrap()).collect();
        self.claims.services.insert(right.to_string(), names);
    }

    /// Lists a program for this kind of machine, as `rpc org program add` does, before the broker starts. Returns its compressed bytes.
    pub fn approve_program(&mut self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let compressed = compress(bytes);
        self.claims.programs.push(ApprovedProgram {
            name: name.to_owned(),
            machine: std::env::consts::ARCH.to_owned(),
            bytes: bytes.len() as u64,
            sha256: ContentAddress::of(bytes),
            content: ContentAddress::of(&compressed),
        });
        compressed
    }

    /// Lets the content of a listed program be other bytes than those that were approved. Returns them compressed.
    pub fn replace_program(&mut self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let compressed = compress(bytes);
        self.program(name).content = ContentAddress::of(&compressed);
        compressed
    }

    /// Lets a listed program be for another kind of machine.
    pub fn set_program_machine(&mut self, name: &str, machine: &str) {
        machine.clone_into(&mut self.program(name).machine);
    }

    fn program(&mut self, name: &str) -> &mut ApprovedProgram {
        self.claims.programs.iter_mut().find(|program| program.name == name).unwrap()
    }

    /// Stores compressed programs at the broker.
    pub async fn store_programs(&self, broker: &impl Broker, programs: &[Vec<u8>]) {
        let bus = connect(broker, &self.administrator()).await;
        let store = ContentStore::new(bus.bucket(stores::PROGRAMS_BUCKET.name));
        for program in programs {
            store.put_file(program.as_slice(), None).await.unwrap();
        }
    }

    /// Key and token of a service with this right.
    pub fn service(&self, right: ServiceRight, name: &str) -> Signer {
        let tags = ServiceRight::tags(&[right]);
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        self.user(UserRole::Service, name, &tags)
    }

    /// Key and token of a leaf node.
    pub fn leaf(&self, name: &str) -> Signer {
        self.leaf_of_nodes(name, &["nodes:>"])
    }

    /// Key and token of a leaf node that has nodes with the names in these tags.
    pub fn leaf_of_nodes(&self, name: &str, tags: &[&str]) -> Signer {
        self.sign_user(&self.leaf, name, tags, None)
    }

    /// A user of any role, with these tags.
    pub fn user(&self, role: UserRole, name: &str, tags: &[&str]) -> Signer {
        self.user_until(role, name, tags, None)
    }

    /// A user whose token expires at this Unix time in seconds.
    pub fn user_until(
        &self,
        role: UserRole,
        name: &str,
        tags: &[&str],
        expires: Option<u64>,
    ) -> Signer {
        self.sign_user(self.role_key(role), name, tags, expires)
    }

    fn sign_user(
        &self,
        role_key: &KeyPair,
        name: &str,
        tags: &[&str],
        expires: Option<u64>,
    ) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let claims = UserClaims::new(
            self.account.public_key(),
            tags.iter().map(ToString::to_string).collect(),
        );
        let validity = TokenValidity { issued_at: self.issued_at, expires };
        let name = Identity::parse(name).unwrap();
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, role_key).unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// A user whose connection may carry everyone's messages, but whose own signatures are not trusted.
    pub fn unrestricted_user(&self, name: &str) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let name = Identity::parse(name).unwrap();
        let claims = UserClaims::new(self.account.public_key(), Vec::new());
        let validity = TokenValidity::without_end(self.issued_at);
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, &self.unrestricted)
                .unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// Subscribes to everything that the broker carries; the returned connection may publish to any subject.
    pub async fn subscribe_all(&self, server: &impl Broker) -> (Bus, muster_bus::BusSubscription) {
        let spy = self.unrestricted_user("spy");
        let bus = connect_without_inbox(server, &spy).await;
        let everything = bus.subscribe(">").await.unwrap();
        bus.flush().await.unwrap();
        (bus, everything)
    }

    /// Adds a key that signs SSH user certificates, before those that exist.
    pub fn add_ssh_authority(&mut self) -> KeyPair {
        let key = KeyPair::generate(KeyKind::Account).unwrap();
        self.claims.ssh_authorities.insert(0, key.public_key());
        self.issued_at += 1;
        key
    }

    /// Revokes a user's tokens. Returns the account's new token, which is not distributed yet.
    pub fn revoke_user(&mut self, user: &Signer) -> String {
        let now = crate::now() / 1000;
        self.claims.revoke_user(&user.public_key(), now);
        // Two account tokens of one second would have the same serial number.
        self.issued_at = now.max(self.issued_at + 1);
        self.account_token()
    }

    /// Pushes a changed account token to the broker, as `rpc org push` does.
    pub async fn push_account(&self, server: &impl Broker, account_token: &str) {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let name = Identity::parse("system").unwrap();
        let claims = UserClaims::new(self.system.public_key(), Vec::new());
        let validity = TokenValidity::without_end(self.issued_at);
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, &self.pusher)
                .unwrap();
        let system = Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap();
        let bus = connect_without_inbox(server, &system).await;
        let answer =
            bus.request("$SYS.REQ.CLAIMS.UPDATE", account_token.to_owned().into()).await.unwrap();
        let text = String::from_utf8_lossy(answer.payload()).into_owned();
        assert!(text.contains("\"code\":200"), "the broker rejected the account's token: {text}");
    }
}

/// Connects as this user, with a private inbox.
pub async fn connect(server: &impl Broker, user: &Signer) -> Bus {
    let mut options = options(server, user);
    options.inbox_prefix = Some(muster_wire::subject::inbox_prefix(&user.public_key().to_string()));
    // A broker on a busy machine may exceed its own timeout for the greeting.
    let deadline = Instant::now() + NETWORK_TIMEOUT;
    loop {
        match options.clone().connect().await {
            Ok(bus) => return bus,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

async fn connect_without_inbox(server: &impl Broker, user: &Signer) -> Bus {
    options(server, user).connect().await.unwrap()
}

/// Options for a connection of this user to a test's broker.
pub fn options(server: &impl Broker, user: &Signer) -> BusOptions {
    let parse = |url: &String| BrokerAddress::parse(url, true).unwrap();
    let addresses = server.urls().iter().map(parse).collect();
    let mut options = BusOptions::for_command(user.identity().as_str(), addresses);
    options.credentials = Some(muster_bus::BrokerCredentials::from_signer(user));
    options
}
