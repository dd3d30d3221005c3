//! The tokens of the operator and its accounts: made once, and those of the fleet and of newcomers made anew at each revocation.

use muster_wire::Millis;
use muster_wire::identity::Name;
use muster_wire::token::claims::{
    Account, Limits, Operator, ScopedKey, SigningKeyEntry, Subjects, Template,
};
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{KeyPair, PublicKey, Role, Seconds, Trust};
use serde_json::Map;

use super::{Key, Lock, Organisation, OrganisationError, Realm};
use crate::files;

/// The public keys that sign for a role of the fleet.
#[derive(Debug, Clone, Copy)]
pub struct RoleKeys {
    /// Signs nodes.
    pub node: PublicKey,
    /// Signs users.
    pub caller: PublicKey,
    /// Signs services.
    pub service: PublicKey,
}

/// The organisation's own token.
pub fn operator_token(
    name: &str,
    system: PublicKey,
    operator: &KeyPair,
    at: Seconds,
) -> Result<String, OrganisationError> {
    Ok(encode::operator(
        name,
        Operator::new(Some(system)),
        Validity::from(at),
        operator,
    )?)
}

/// The fleet's first token: its roles, and what the broker allows each.
pub fn fleet_token(
    name: &str,
    account: PublicKey,
    roles: RoleKeys,
    collectives: &[Name],
    operator: &KeyPair,
    at: Seconds,
) -> Result<String, OrganisationError> {
    let entry = |key, role: Role| {
        SigningKeyEntry::Scoped(Box::new(ScopedKey::new(
            key,
            role,
            role.template(collectives),
        )))
    };
    let keys = vec![
        entry(roles.node, Role::Node),
        entry(roles.caller, Role::Caller),
        entry(roles.service, Role::Service),
    ];
    let claims = Account::new(Limits::with_jetstream(), keys);
    Ok(encode::account(
        name,
        account,
        claims,
        Validity::from(at),
        operator,
    )?)
}

/// The system account's token. Its users may ask the broker everything, and change nothing but account tokens.
pub fn system_token(
    account: PublicKey,
    role_key: PublicKey,
    operator: &KeyPair,
    at: Seconds,
) -> Result<String, OrganisationError> {
    let some = |subjects: &[&str]| Subjects {
        allow: subjects
            .iter()
            .map(|subject| (*subject).to_owned())
            .collect(),
        deny: Vec::new(),
    };
    let template = Template {
        publish: some(&[
            "$SYS.REQ.CLAIMS.UPDATE",
            "$SYS.REQ.SERVER.>",
            "$SYS.REQ.ACCOUNT.>",
            "_INBOX.{{subject()}}.echo.*",
        ]),
        subscribe: some(&["_INBOX.{{subject()}}.>", "$SYS.ACCOUNT.>", "$SYS.SERVER.>"]),
        resp: None,
        subs: -1,
        data: -1,
        payload: -1,
        rest: Map::new(),
    };
    let key = ScopedKey {
        kind: "user_scope".to_owned(),
        key: role_key,
        role: "system".to_owned(),
        template,
    };
    let keys = vec![SigningKeyEntry::Scoped(Box::new(key))];
    let claims = Account::new(Limits::default(), keys);
    Ok(encode::account(
        "system",
        account,
        claims,
        Validity::from(at),
        operator,
    )?)
}

/// The newcomers' account: who may wish to be enrolled, and who answers. It shares nothing with the fleet's.
pub fn newcomers_token(
    account: PublicKey,
    newcomer: PublicKey,
    enroller: PublicKey,
    operator: &KeyPair,
    at: Seconds,
) -> Result<String, OrganisationError> {
    let entry = |key, role: Role| {
        let template = role.template_among_newcomers()?;
        let scope = ScopedKey::new(key, role, template);
        Some(SigningKeyEntry::Scoped(Box::new(scope)))
    };
    let keys = [
        entry(newcomer, Role::Newcomer),
        entry(enroller, Role::Service),
    ];
    let claims = Account::new(Limits::default(), keys.into_iter().flatten().collect());
    Ok(encode::account(
        "newcomers",
        account,
        claims,
        Validity::from(at),
        operator,
    )?)
}

impl Organisation {
    /// Voids these keys in their account: signs its token anew, and saves it for nodes, clients and the broker's next start. Each
    /// comes with the instant at which its newest token was issued. Returns the new state of trust, to be pushed to a running
    /// broker.
    pub fn revoke(
        &self,
        _lock: &Lock,
        realm: Realm,
        keys: &[(PublicKey, Seconds)],
        now: Millis,
    ) -> Result<Trust, OrganisationError> {
        let trust = self.trust_of(realm)?;
        let mut account = trust.claims().nats.clone();
        for (key, issued_at) in keys {
            // A token from the future of this clock must not outlive its revocation.
            account.revoke(key, (now / 1000).max(*issued_at));
        }
        let validity = Validity::after(trust.issued_at(), now);
        let operator = self.key(Key::Operator)?;
        let name = &trust.claims().name;
        let token = encode::account(name, trust.account(), account, validity, &operator)?;
        let path = self.layout().token(realm);
        let new = trust
            .update(&token)
            .map_err(|source| OrganisationError::Token {
                path: path.clone(),
                source,
            })?;
        files::replace(&path, format!("{token}\n").as_bytes())?;
        self.write_broker_accounts()?;
        Ok(new)
    }
}
