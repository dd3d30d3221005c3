//! The keys that sign users for administration: of the fleet's administrators (`role-admin.nk`), and of the system account (`role-system.nk`). Their
//! credentials are in this directory or in memory, so each rotation is one step.

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::UserCredentials;
use muster_wire::token::claims::{AccountClaims, SigningKeyEntry, UserClaims};
use muster_wire::token::encode::TokenValidity;
use muster_wire::token::scope::ADMINISTRATOR_ROLE;

use crate::account::{SYSTEM_ROLE, administrator_entry, system_entry};
use crate::push::PushError;
use crate::rotation::{role_key, role_keys};
use crate::{Organisation, OrganisationError, OrganisationKey, OrganisationLock, issue};

/// Name of the user of the system account.
const SYSTEM_USER_NAME: &str = "system";

impl Organisation {
    /// Replaces the key that signs administrators: signs an account token that lists a new key only. The broker and the nodes must get it.
    pub fn rotate_administrator_key(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let next = self.create_next_key(OrganisationKey::Administrator)?;
        let realm = self.stores_realm();
        let mut account = self.realm_trust(realm)?.claims().nats.clone();
        account.signing_keys.retain(|entry| role_key(entry, ADMINISTRATOR_ROLE).is_none());
        account.signing_keys.push(administrator_entry(next.public_key()));
        self.sign_account(lock, realm, account, now)?;
        self.install_next_key(OrganisationKey::Administrator, &next)?;
        self.remove_next_key(OrganisationKey::Administrator)
    }

    /// Replaces the key that signs users of the system account, and its credentials in `creds/system.creds`. Pushes the token of the system account
    /// twice: with both keys before the new credentials are used, and with the new key only.
    pub async fn rotate_system_key(
        &self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<(), PushError> {
        let key = OrganisationKey::SystemRole;
        let operator = self.load_key(OrganisationKey::Operator)?;
        let present = self.load_key(key)?.public_key();
        let next = self.create_next_key(key)?;
        let mut entries = vec![system_entry(present)];
        if present != next.public_key() {
            entries.push(system_entry(next.public_key()));
        }
        self.write_system_account(self.with_system_keys(entries)?, &operator, now)?;
        self.push_system_token().await?;
        self.install_next_key(key, &next)?;
        let creds = self.issue_system_user(now)?;
        issue::write_credentials(&self.layout().system_creds(), &creds)?;
        let entries = vec![system_entry(next.public_key())];
        self.write_system_account(self.with_system_keys(entries)?, &operator, now)?;
        self.push_system_token().await?;
        Ok(self.remove_next_key(key)?)
    }

    /// Issues a user of the system account.
    pub(crate) fn issue_system_user(
        &self,
        now: Millis,
    ) -> Result<UserCredentials, OrganisationError> {
        let account = self.profile().system_account;
        let name = Identity::parse(SYSTEM_USER_NAME)?;
        let claims = |_| UserClaims::new(account, Vec::new());
        let signing_key = OrganisationKey::SystemRole;
        self.issue_user(&name, signing_key, TokenValidity::without_end(now / 1000), claims)
    }

    /// Whether the account token lists the administrators' key of this directory.
    pub(crate) fn has_administrator_key(&self) -> Result<bool, OrganisationError> {
        if !self.layout().key_file(OrganisationKey::Administrator).exists() {
            return Ok(false);
        }
        let key = self.load_key(OrganisationKey::Administrator)?.public_key();
        let trust = self.realm_trust(self.stores_realm())?;
        Ok(role_keys(&trust.claims().nats, ADMINISTRATOR_ROLE).contains(&key))
    }

    /// Adds the administrators' key to claims that list none. Creates the key if it is missing. Returns whether it was added.
    pub(crate) fn add_administrator_key(
        &self,
        account: &mut AccountClaims,
    ) -> Result<bool, OrganisationError> {
        if !role_keys(account, ADMINISTRATOR_ROLE).is_empty() {
            return Ok(false);
        }
        let pair = self.load_or_create_key(OrganisationKey::Administrator)?;
        account.signing_keys.push(administrator_entry(pair.public_key()));
        Ok(true)
    }

    /// The claims of the system account with these keys in place of those that sign its users; the key of monitoring systems stays.
    fn with_system_keys(
        &self,
        entries: Vec<SigningKeyEntry>,
    ) -> Result<AccountClaims, OrganisationError> {
        let mut account = self.system_claims()?.nats;
        account.signing_keys.retain(|entry| role_key(entry, SYSTEM_ROLE).is_none());
        account.signing_keys.extend(entries);
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{NOW, organisation};
    use crate::{AccountRealm, OrganisationKey};

    #[test]
    fn administrators_have_a_key_of_their_own_that_rotates() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let key = || organisation.load_key(OrganisationKey::Administrator).unwrap().public_key();
        let issuer = || {
            let creds = organisation.administrator_credentials(NOW).unwrap();
            // Nodes and callers do not accept it.
            let refused = organisation.fleet_trust().unwrap().verify_user(creds.jwt(), NOW);
            assert_eq!(refused.unwrap_err().reason_code(), "unknown_issuer");
            creds.claims().iss
        };
        let old = key();
        assert_eq!(issuer(), old);
        organisation.rotate_administrator_key(&lock, NOW).unwrap();
        assert_ne!(key(), old);
        assert_eq!(issuer(), key());
        let account = organisation.fleet_trust().unwrap();
        assert_eq!(account.claims().nats.signing_keys.len(), 3);
        let stores = organisation.realm_trust(AccountRealm::Storage).unwrap();
        assert!(stores.template_of_key(&old).is_none());
        assert_eq!(stores.claims().nats.signing_keys.len(), 1);
        // The account's own key is not needed.
        std::fs::remove_file(organisation.layout().key_file(OrganisationKey::Storage)).unwrap();
        assert_eq!(issuer(), key());
    }

    #[test]
    fn older_organisation_gets_the_administrators_key_when_it_is_refreshed() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let stores = AccountRealm::Storage;
        let mut older = organisation.realm_trust(stores).unwrap().claims().nats.clone();
        older.signing_keys.clear();
        organisation.sign_account(&lock, stores, older, NOW).unwrap();
        let key_file = organisation.layout().key_file(OrganisationKey::Administrator);
        std::fs::remove_file(&key_file).unwrap();
        let issuer = || organisation.administrator_credentials(NOW).unwrap().claims().iss;
        assert_eq!(Some(issuer()), organisation.profile().storage_account);
        let signed = organisation.refresh_scopes(&lock, NOW).unwrap();
        assert_eq!(signed, [stores]);
        let new = organisation.load_key(OrganisationKey::Administrator).unwrap().public_key();
        assert_eq!(issuer(), new);
        assert_eq!(organisation.refresh_scopes(&lock, NOW).unwrap(), []);
    }
}
