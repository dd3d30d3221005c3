//! An organisation in memory: keys and tokens as `rpc org` makes them, and the broker's configuration for it.

use std::fmt::Write as _;

use muster_bus::{BrokerAddress, Bus, BusOptions};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::stores;
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, OperatorClaims, ScopedKey, SigningKeyEntry, SubjectPermissions,
    UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::head::AccountHead;
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, UserCredentials, UserRole, scope};

use crate::nats_server::{NatsServer, PATIENCE};
use crate::newcomers::Newcomers;

/// What a broker that keeps stores has in its configuration.
pub(crate) const STORING: &str = "jetstream: { store_dir: \"@DIRECTORY@/jetstream\" }\n";

/// Where parties connect to: a broker on loopback, several that are one, or what stands before them.
pub trait Broker {
    /// The port of the first.
    fn port(&self) -> u16;

    /// The addresses, as a client writes them.
    fn urls(&self) -> Vec<String> {
        vec![format!("nats://127.0.0.1:{}", self.port())]
    }
}

/// Keys and tokens of one fleet.
#[derive(Debug)]
pub struct Organisation {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
    /// Signs users of the system account; they may push account tokens.
    pusher: KeyPair,
    roles: Vec<(UserRole, KeyPair)>,
    claims: AccountClaims,
    issued_at: u64,
    collectives: Vec<SubjectName>,
    /// Signs users who may read and say everything, as whoever has the broker can.
    spies: KeyPair,
    newcomers: Newcomers,
}

impl Organisation {
    /// An organisation whose fleet is in these collectives.
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
        let spies = key(KeyKind::Account);
        let mut template = UserRole::Caller.permission_template(&[]);
        let all = SubjectPermissions { allow: vec![">".to_owned()], deny: Vec::new() };
        template.publish = all.clone();
        // Who hears confirmations answers them: the broker would not.
        template.subscribe = SubjectPermissions {
            deny: vec![muster_wire::subject::CONFIRM_SUBJECT.to_owned()],
            ..all
        };
        let everything = SigningKeyEntry::Scoped(Box::new(ScopedKey {
            kind: "user_scope".to_owned(),
            key: spies.public_key(),
            role: "spy".to_owned(),
            template,
        }));
        let signing_keys = roles.iter().map(scoped).chain([everything]).collect();
        // A minute ago, so that what is revoked later is later.
        let issued_at = crate::now() / 1000 - 60;
        let operator = key(KeyKind::Operator);
        Self {
            claims: AccountClaims::new(AccountLimits::with_jetstream(), signing_keys),
            spies,
            newcomers: Newcomers::new(&operator, issued_at),
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

    /// The account of machines that are nobody yet.
    pub fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    /// The key that signs parties of this role.
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

    /// What everybody trusts.
    pub fn trust(&self) -> AccountTrust {
        AccountTrust::new(self.operator.public_key(), &self.account_token()).unwrap()
    }

    /// The broker's configuration: operator mode, with a resolver that takes updates.
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
        let operator = OperatorClaims::new(Some(self.system.public_key()));
        let operator =
            encode::issue_operator_token("test", operator, validity, &self.operator).unwrap();
        let mut text = String::new();
        writeln!(text, "operator: {operator}").unwrap();
        writeln!(text, "system_account: {}", self.system.public_key()).unwrap();
        writeln!(text, "resolver: {{ type: full, dir: \"@DIRECTORY@/accounts\" }}").unwrap();
        writeln!(text, "resolver_preload: {{").unwrap();
        writeln!(text, "  {}: {}", self.account.public_key(), self.account_token()).unwrap();
        let newcomers = &self.newcomers;
        writeln!(text, "  {}: {}", newcomers.account(), newcomers.token()).unwrap();
        writeln!(text, "  {}: {system}\n}}", self.system.public_key()).unwrap();
        text
    }

    fn pusher_scope(&self) -> SigningKeyEntry {
        let some = |subjects: &[&str]| SubjectPermissions {
            allow: subjects.iter().map(|&subject| subject.to_owned()).collect(),
            deny: Vec::new(),
        };
        let mut template = UserRole::Caller.permission_template(&[]);
        template.publish = some(&["$SYS.REQ.CLAIMS.UPDATE", muster_wire::subject::CONFIRM_SUBJECT]);
        template.subscribe = some(&["_INBOX.>"]);
        SigningKeyEntry::Scoped(Box::new(ScopedKey {
            kind: "user_scope".to_owned(),
            key: self.pusher.public_key(),
            role: "system".to_owned(),
            template,
        }))
    }

    /// A running broker for this organisation.
    pub async fn broker(&self) -> NatsServer {
        NatsServer::start(&self.broker_configuration()).await
    }

    /// A running broker that has the fleet's stores.
    pub async fn storing_broker(&self) -> NatsServer {
        let configuration = format!("{}{STORING}", self.broker_configuration());
        let server = NatsServer::start(&configuration).await;
        self.declare_stores(&server, 1).await;
        server
    }

    /// Makes the fleet's stores, with so many copies.
    pub async fn declare_stores(&self, broker: &impl Broker, copies: usize) {
        let bus = connect(broker, &self.administrator()).await;
        for store in &stores::ALL_BUCKETS {
            bus.declare_bucket(store, copies).await.unwrap();
        }
    }

    /// Writes the account's token into the bucket of trust, as `rpc org push` does.
    pub async fn publish_account(&self, broker: &impl Broker, account_token: &str) {
        let trust = AccountTrust::new(self.operator.public_key(), account_token).unwrap();
        let bus = connect(broker, &self.administrator()).await;
        let bucket = bus.bucket(stores::TRUST_BUCKET.name);
        let token = account_token.to_owned().into();
        bucket.put(stores::TRUST_ACCOUNT_KEY, token).await.unwrap();
        let head = AccountHead::of_trust(&trust).to_json().unwrap();
        bucket.put(stores::TRUST_HEAD_KEY, head.into()).await.unwrap();
    }

    /// The account's administrator, who makes the stores.
    pub fn administrator(&self) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let claims = UserClaims::new_administrator(scope::administrator_permissions(
            &key.public_key().to_string(),
        ));
        let name = Identity::parse("administrator").unwrap();
        let validity = TokenValidity::without_end(self.issued_at);
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, &self.account)
                .unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// A node's key and token.
    pub fn node(&self, name: &str) -> Signer {
        self.user(UserRole::Node, name, &[])
    }

    /// A caller who may ask every agent.
    pub fn caller(&self, name: &str) -> Signer {
        self.user(UserRole::Caller, name, &["agent:*"])
    }

    /// A service.
    pub fn service(&self, name: &str) -> Signer {
        self.user(UserRole::Service, name, &[])
    }

    /// A party of any role, with these tags.
    pub fn user(&self, role: UserRole, name: &str, tags: &[&str]) -> Signer {
        self.user_until(role, name, tags, None)
    }

    /// A party whose token ends at this second.
    pub fn user_until(
        &self,
        role: UserRole,
        name: &str,
        tags: &[&str],
        expires: Option<u64>,
    ) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let claims = UserClaims::new(
            self.account.public_key(),
            tags.iter().map(ToString::to_string).collect(),
        );
        let role_key = self.role_key(role);
        let validity = TokenValidity { issued_at: self.issued_at, expires };
        let name = Identity::parse(name).unwrap();
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, role_key).unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// A party whose connection may carry everybody's messages; nobody believes what it signs itself.
    pub fn carrier(&self, name: &str) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let name = Identity::parse(name).unwrap();
        let claims = UserClaims::new(self.account.public_key(), Vec::new());
        let validity = TokenValidity::without_end(self.issued_at);
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, &self.spies)
                .unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// Everything that the broker carries from now on; what is published on the connection may go everywhere.
    pub async fn spy(&self, server: &impl Broker) -> (Bus, muster_bus::BusSubscription) {
        let spy = self.carrier("spy");
        let bus = connect_without_inbox(server, &spy).await;
        let everything = bus.subscribe(">").await.unwrap();
        (bus, everything)
    }

    /// Voids a party's tokens. Returns the account's new token; nobody was told yet.
    pub fn revoke(&mut self, party: &Signer) -> String {
        let now = crate::now() / 1000;
        self.claims.revoke_user(&party.public_key(), now);
        // Two tokens of one second have the same serial number.
        self.issued_at = now.max(self.issued_at + 1);
        self.account_token()
    }

    /// Tells the broker about a changed account token, as `rpc org push` does.
    pub async fn push(&self, server: &impl Broker, account_token: &str) {
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
        assert!(
            text.contains("\"code\":200"),
            "the broker did not take the account's token: {text}"
        );
    }
}

/// A connection as this party, with its private inbox.
pub async fn connect(server: &impl Broker, party: &Signer) -> Bus {
    let mut options = options(server, party);
    options.inbox_prefix =
        Some(muster_wire::subject::inbox_prefix(&party.public_key().to_string()));
    // A broker on a busy machine may take longer to greet than it is willing to wait itself.
    let latest = tokio::time::Instant::now() + PATIENCE;
    loop {
        match options.clone().connect().await {
            Ok(bus) => return bus,
            Err(error) => assert!(tokio::time::Instant::now() < latest, "{error}"),
        }
    }
}

async fn connect_without_inbox(server: &impl Broker, party: &Signer) -> Bus {
    options(server, party).connect().await.unwrap()
}

/// How this party connects to a test's broker.
pub fn options(server: &impl Broker, party: &Signer) -> BusOptions {
    let parse = |url: &String| BrokerAddress::parse(url, true).unwrap();
    let addresses = server.urls().iter().map(parse).collect();
    let mut options = BusOptions::for_command(party.identity().as_str(), addresses);
    options.credentials = Some(muster_bus::BrokerCredentials::from_signer(party));
    options
}
