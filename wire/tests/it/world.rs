//! A test organisation with keys from fixed seeds: its signatures are the same in every run.

use std::collections::BTreeSet;

use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::{NodeFilter, Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, ExpectedAnswer, Signer, sign_envelope};
use muster_wire::status::ReplyStatus;
use muster_wire::stores::StoreUse;
use muster_wire::subject::RequestAddress;
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry, UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, UserCredentials, UserRole};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The current time in the tests, in milliseconds.
pub(crate) const NOW: Millis = 1_800_000_000_000;

/// The issue time of its tokens in seconds: an hour before `NOW`.
pub(crate) const ISSUED: u64 = NOW / 1000 - 3600;

/// Operator, account and the signing keys of the roles.
pub(crate) struct TestOrganisation {
    pub(crate) operator: KeyPair,
    pub(crate) account: KeyPair,
    roles: Vec<(UserRole, KeyPair)>,
    pub(crate) trust: AccountTrust,
}

/// The key pair with this seed.
pub(crate) fn key(kind: KeyKind, seed: u8) -> KeyPair {
    KeyPair::from_raw(kind, &[seed; 32])
}

impl TestOrganisation {
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    /// A seed identifies an organisation; seeds are at least ten apart.
    pub(crate) fn with_seed(seed: u8) -> Self {
        let operator = key(KeyKind::Operator, seed);
        let account = key(KeyKind::Account, seed + 1);
        let numbered = (seed + 2..).zip(UserRole::ALL);
        let roles: Vec<_> = numbered.map(|(n, r)| (r, key(KeyKind::Account, n))).collect();
        let token = account_token(&operator, &account, &roles, ISSUED, |_| {});
        let trust = AccountTrust::new(operator.public_key(), &token).unwrap();
        Self { operator, account, roles, trust }
    }

    /// A token of the account with changed claims.
    pub(crate) fn account_token(
        &self,
        issued_at: u64,
        change: impl FnOnce(&mut AccountClaims),
    ) -> String {
        account_token(&self.operator, &self.account, &self.roles, issued_at, change)
    }

    /// The signing key of a role.
    pub(crate) fn role_key(&self, role: UserRole) -> &KeyPair {
        &self.roles.iter().find(|(known, _)| *known == role).unwrap().1
    }

    /// A token of a user.
    pub(crate) fn token(
        &self,
        role: UserRole,
        name: &str,
        key: &KeyPair,
        validity: TokenValidity,
    ) -> String {
        let nats = UserClaims::new(self.account.public_key(), vec!["agent:puppetral".to_owned()]);
        let name = Identity::parse(name).unwrap();
        encode::issue_user_token(&name, key.public_key(), nats, validity, self.role_key(role))
            .unwrap()
    }

    /// A user that can sign.
    pub(crate) fn signer(&self, role: UserRole, name: &str, seed: u8) -> Signer {
        self.signer_for(role, name, seed, TokenValidity::without_end(ISSUED))
    }

    pub(crate) fn signer_for(
        &self,
        role: UserRole,
        name: &str,
        seed: u8,
        validity: TokenValidity,
    ) -> Signer {
        let key = key(KeyKind::User, seed);
        let token = self.token(role, name, &key, validity);
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    /// A user whose token has these tags.
    pub(crate) fn signer_tagged(
        &self,
        role: UserRole,
        name: &str,
        seed: u8,
        tags: &[&str],
    ) -> Signer {
        let key = key(KeyKind::User, seed);
        let tags = tags.iter().map(ToString::to_string).collect();
        let nats = UserClaims::new(self.account.public_key(), tags);
        let validity = TokenValidity::without_end(ISSUED);
        let issuer = self.role_key(role);
        let token =
            encode::issue_user_token(&identity(name), key.public_key(), nats, validity, issuer)
                .unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }

    pub(crate) fn caller(&self) -> Signer {
        self.signer(UserRole::Caller, "alice", 100)
    }

    pub(crate) fn node(&self) -> Signer {
        self.signer(UserRole::Node, "db1.acme.net", 101)
    }
}

fn account_token(
    operator: &KeyPair,
    account: &KeyPair,
    roles: &[(UserRole, KeyPair)],
    issued_at: u64,
    change: impl FnOnce(&mut AccountClaims),
) -> String {
    let collectives = [name("fleet")];
    let scoped = |(role, key): &(UserRole, KeyPair)| {
        let scope = ScopedKey::new(key.public_key(), *role, role.permission_template(&collectives));
        SigningKeyEntry::Scoped(Box::new(scope))
    };
    let mut claims = AccountClaims::new(
        AccountLimits::with_jetstream(&StoreUse::ALL),
        roles.iter().map(scoped).collect(),
    );
    change(&mut claims);
    let validity = TokenValidity::without_end(issued_at);
    encode::issue_account_token("fleet", account.public_key(), claims, validity, operator).unwrap()
}

pub(crate) fn name(text: &str) -> SubjectName {
    SubjectName::parse(text).unwrap()
}

pub(crate) fn identity(text: &str) -> Identity {
    Identity::parse(text).unwrap()
}

pub(crate) fn id() -> Uuid {
    "019b0000-0000-7000-8000-000000000001".parse().unwrap()
}

pub(crate) fn data(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// A request by alice to `puppetral do` on these nodes.
pub(crate) fn request(nodes: &[&str]) -> Request {
    let nodes: BTreeSet<_> = nodes.iter().map(|node| identity(node)).collect();
    Request {
        id: id(),
        caller: identity("alice"),
        collective: name("fleet"),
        agent: name("puppetral"),
        action: name("do"),
        target: RequestTarget::Nodes(nodes),
        filter: NodeFilter::default(),
        issued_at: NOW,
        ttl: 60_000,
        timeout: None,
        reply: true,
        trace: false,
        traceparent: None,
        stream: false,
        approval: None,
        grant: None,
        data: data(json!({"type": "user", "name": "rip"})),
        sealed: None,
    }
}

/// The reply of db1 to `request`.
pub(crate) fn reply() -> Reply {
    Reply {
        request: id(),
        sender: identity("db1.acme.net"),
        agent: name("puppetral"),
        action: name("do"),
        statuscode: ReplyStatus::Ok,
        statusmsg: "OK".into(),
        reason: None,
        data: data(json!({"ensure": "present", "uid": 1001})),
        time: NOW + 250,
        took: 200,
        stages: Vec::new(),
        progress: None,
        cloned: false,
    }
}

/// The fields that a reply to [`request`] must have.
pub(crate) fn expected(request: &Request) -> ExpectedAnswer<'_> {
    ExpectedAnswer { request: Some(request.id), agent: &request.agent, action: &request.action }
}

pub(crate) fn broadcast() -> RequestAddress {
    RequestAddress::parse("fleet.puppetral.do.all").unwrap()
}

pub(crate) fn sealed(kind: EnvelopeKind, body: &impl Serialize, signer: &Signer) -> Vec<u8> {
    sign_envelope(kind, body, signer).unwrap()
}
