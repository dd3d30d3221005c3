//! Claims of the accounts. The tokens of the fleet and bootstrap accounts are signed again at each change.

use std::path::Path;

use muster_files::files::{self, FileAccessError};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::subject;
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, PermissionTemplate, ScopedKey, SigningKeyEntry,
    SubjectPermissions,
};
use muster_wire::token::encode::{self, TokenIssueError, TokenValidity};
use muster_wire::token::leaf_scope::{LEAF_ROLE, leaf_template};
use muster_wire::token::scope::{self, ADMINISTRATOR_ROLE};
use muster_wire::token::storage::{fleet_imports, storage_exports};
use muster_wire::token::{AccountTrust, KeyPair, PublicKey, Seconds, TokenError, UserRole};
use serde_json::{Map, Value};

use crate::services::services_by_right;
use crate::{
    AccountRealm, Organisation, OrganisationError, OrganisationKey, OrganisationLock, prune,
};

/// Name of the key that signs users of the system account, in the account's token.
pub(crate) const SYSTEM_ROLE: &str = "system";

/// Claims of a new account of this realm: for each role the key that signs for it and its permissions at the broker.
pub(crate) fn account_claims(
    realm: AccountRealm,
    role_keys: &[(UserRole, PublicKey)],
    collectives: &[SubjectName],
) -> AccountClaims {
    let signing_key = |(role, key): &(UserRole, PublicKey)| {
        let template = permission_template(realm, *role, collectives)?;
        Some(SigningKeyEntry::Scoped(Box::new(ScopedKey::new(*key, *role, template))))
    };
    let signing_keys = role_keys.iter().filter_map(signing_key).collect();
    AccountClaims::new(AccountLimits::default(), signing_keys)
}

/// The entry of a key that signs administrators of the fleet.
pub(crate) fn administrator_entry(key: PublicKey) -> SigningKeyEntry {
    let template = scope::administrator_template();
    SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(key, ADMINISTRATOR_ROLE, template)))
}

/// The entry of a key that signs users of the system account.
pub(crate) fn system_entry(key: PublicKey) -> SigningKeyEntry {
    SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(
        key,
        SYSTEM_ROLE,
        system_template(),
    )))
}

/// Claims of the system account.
pub(crate) fn system_claims(role_key: PublicKey) -> AccountClaims {
    AccountClaims::new(AccountLimits::default(), vec![system_entry(role_key)])
}

/// Permissions of users of the system account: they update account tokens, send server and account requests, and read their events.
fn system_template() -> PermissionTemplate {
    let allowing = |subjects: &[&str]| SubjectPermissions {
        allow: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        deny: Vec::new(),
    };
    PermissionTemplate {
        publish: allowing(&[
            "$SYS.REQ.CLAIMS.UPDATE",
            "$SYS.REQ.SERVER.>",
            "$SYS.REQ.ACCOUNT.>",
            subject::CONFIRM_SUBJECT,
        ]),
        subscribe: allowing(&["_INBOX.{{subject()}}.>", "$SYS.ACCOUNT.>", "$SYS.SERVER.>"]),
        resp: None,
        subs: -1,
        data: -1,
        payload: -1,
        rest: Map::new(),
    }
}

/// Replaces the file of a token.
pub(crate) fn write_token(path: &Path, token: &str) -> Result<(), FileAccessError> {
    files::replace_public(path, format!("{token}\n").as_bytes())
}

impl Organisation {
    /// Revokes these keys in their account: signs the account token again and saves it for nodes, clients and the next start of the broker.
    /// Each key comes with the instant at which its newest token was issued. Returns the new account trusts, to be pushed to a running broker.
    pub fn revoke_keys(
        &self,
        lock: &OrganisationLock,
        realm: AccountRealm,
        keys: &[(PublicKey, Seconds)],
        now: Millis,
    ) -> Result<AccountTrust, OrganisationError> {
        let mut account = self.realm_trust(realm)?.claims().nats.clone();
        for (key, issued_at) in keys {
            // The issuing clock may have been ahead of this one; the revocation must still cover that token.
            account.revoke_user(key, (now / 1000).max(*issued_at));
        }
        self.sign_account(lock, realm, account, now)
    }

    /// Replaces permissions in the account tokens that differ from those of this version, and the lists of services and brokers if they have changed. An organisation
    /// made by an older version keeps its keys and gets the permissions that this version needs. Returns the accounts that were signed again.
    pub fn refresh_scopes(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<Vec<AccountRealm>, OrganisationError> {
        let mut signed = Vec::new();
        for realm in self.realms() {
            let mut account = self.realm_trust(realm)?.claims().nats.clone();
            let mut is_changed = self.refresh_account(&mut account, realm)?;
            if realm == self.stores_realm() {
                is_changed |= self.add_administrator_key(&mut account)?;
            }
            if realm == AccountRealm::Fleet {
                let listed = services_by_right(&self.read_records()?, &account, now / 1000);
                is_changed |= account.services != listed;
                is_changed |= account.broker != self.broker_record()?;
            }
            if is_changed {
                self.sign_account(lock, realm, account, now)?;
                signed.push(realm);
            }
        }
        Ok(signed)
    }

    /// Signs an account token with these claims, with a later issue time than the one in force, and saves it.
    pub(crate) fn sign_account(
        &self,
        lock: &OrganisationLock,
        realm: AccountRealm,
        account: AccountClaims,
        now: Millis,
    ) -> Result<AccountTrust, OrganisationError> {
        let operator = self.load_key(OrganisationKey::Operator)?;
        self.sign_account_with(lock, &operator, (realm, account), now)
    }

    /// The same with the key of another operator, which the present one named as its successor.
    pub(crate) fn sign_account_with(
        &self,
        _lock: &OrganisationLock,
        operator: &KeyPair,
        (realm, mut account): (AccountRealm, AccountClaims),
        now: Millis,
    ) -> Result<AccountTrust, OrganisationError> {
        let trust = self.realm_trust(realm)?;
        let records = self.read_records()?;
        prune::remove_expired(&mut account, &records, now / 1000);
        if realm == AccountRealm::Fleet {
            account.services = services_by_right(&records, &account, now / 1000);
            account.broker = self.broker_record()?;
        }
        let revocations = account.revocations.len();
        let validity = TokenValidity::without_end_after(trust.issued_at(), now);
        let name = &trust.claims().name;
        let token =
            encode::issue_account_token(name, trust.account_key(), account, validity, operator);
        let token = token.map_err(|error| match error {
            TokenIssueError::Unacceptable(TokenError::Oversized { limit, .. }) => {
                OrganisationError::TooManyRevocations { revocations, limit }
            }
            error => error.into(),
        })?;
        let path = self.layout().realm_token(realm);
        let updated_trust = trust
            .update(&token)
            .map_err(|source| OrganisationError::Token(path.clone(), source))?;
        self.record_known(trust.account_token())?;
        write_token(&path, &token)?;
        self.write_broker_accounts()?;
        Ok(updated_trust)
    }

    /// Sets role permissions, limits, exports and imports to those of this version. Returns whether anything changed. Keeps keys of other roles,
    /// revocations, and limits that this version does not define.
    pub(crate) fn refresh_account(
        &self,
        account: &mut AccountClaims,
        realm: AccountRealm,
    ) -> Result<bool, OrganisationError> {
        let before = account.clone();
        let collectives = &self.profile().collectives;
        for entry in &mut account.signing_keys {
            let SigningKeyEntry::Scoped(scope) = entry else {
                continue;
            };
            let template = match scope.role.parse::<UserRole>() {
                Ok(role) => permission_template(realm, role, collectives),
                Err(_) if scope.role == ADMINISTRATOR_ROLE => Some(scope::administrator_template()),
                Err(_) if scope.role == LEAF_ROLE => Some(leaf_template(collectives)),
                Err(_) => None,
            };
            if let Some(mut template) = template {
                keep_unknown_fields(&mut template.rest, &scope.template.rest);
                scope.template = template;
            }
        }
        let mut limits = self.account_limits(realm)?;
        keep_unknown_fields(&mut limits.rest, &account.limits.rest);
        account.limits = limits;
        match (realm, self.profile().storage_account) {
            (AccountRealm::Fleet, Some(storage)) => account.rest.extend(fleet_imports(&storage)),
            (AccountRealm::Storage, _) => account.rest.extend(storage_exports()),
            _ => {}
        }
        Ok(*account != before)
    }

    /// The limits that this version sets: the account of the stores has space for them.
    fn account_limits(&self, realm: AccountRealm) -> Result<AccountLimits, OrganisationError> {
        if realm == self.stores_realm() {
            Ok(AccountLimits::with_jetstream(&self.store_uses()?))
        } else {
            Ok(AccountLimits::default())
        }
    }
}

/// The permissions of a role in this account; `None` if the account does not have the role.
pub(crate) fn permission_template(
    realm: AccountRealm,
    role: UserRole,
    collectives: &[SubjectName],
) -> Option<PermissionTemplate> {
    match realm {
        AccountRealm::Fleet => Some(role.permission_template(collectives)),
        AccountRealm::Storage => None,
        AccountRealm::Newcomers => role.newcomers_account_template(),
    }
}

fn keep_unknown_fields(fields: &mut Map<String, Value>, earlier: &Map<String, Value>) {
    for (name, value) in earlier {
        fields.entry(name).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::token::claims::SigningKeyEntry;

    use super::{ADMINISTRATOR_ROLE, UserRole, scope};
    use crate::AccountRealm;
    use crate::testing::{NOW, organisation};

    #[test]
    fn older_organisation_gets_the_permissions_of_this_version() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        assert_eq!(organisation.refresh_scopes(&lock, NOW).unwrap(), []);
        let mut older = organisation.fleet_trust().unwrap().claims().nats.clone();
        for entry in &mut older.signing_keys {
            if let SigningKeyEntry::Scoped(scope) = entry {
                scope.template.publish.allow.push("older.subject".to_owned());
            }
        }
        older.revocations.insert("*".to_owned(), 1);
        organisation.sign_account(&lock, AccountRealm::Fleet, older.clone(), NOW).unwrap();
        let (fleet, before) = (AccountRealm::Fleet, organisation.fleet_trust().unwrap());
        assert_eq!(organisation.refresh_scopes(&lock, NOW).unwrap(), [fleet]);
        let after = organisation.fleet_trust().unwrap();
        assert!(after.issued_at() > before.issued_at());
        assert_eq!(after.claims().nats.revocations, older.revocations);
        for entry in &after.claims().nats.signing_keys {
            let SigningKeyEntry::Scoped(scope) = entry else {
                panic!("the role has no scope");
            };
            let expected = match scope.role.as_str() {
                ADMINISTRATOR_ROLE => scope::administrator_template(),
                role => role
                    .parse::<UserRole>()
                    .unwrap()
                    .permission_template(&organisation.profile().collectives),
            };
            assert_eq!(scope.template, expected);
        }
        assert_eq!(organisation.refresh_scopes(&lock, NOW).unwrap(), []);
    }
}
