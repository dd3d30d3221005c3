//! The bootstrap account of an organisation, for bootstrapping machines and the enrollers that admit them.
//!
//! Organisations of older versions lack this account. It is added under the organisation's lock, and the description that names it is
//! written last. After an interruption the next attempt reuses the keys that exist already.

use muster_wire::Millis;
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, Seconds};

use super::{
    AccountRealm, CredentialRecord, CredentialState, Organisation, OrganisationError,
    OrganisationKey, OrganisationLock, account,
};
use muster_secret::files;

/// The verified account tokens of an organisation.
#[derive(Debug)]
pub struct AccountTrusts {
    fleet: AccountTrust,
    newcomers: Option<AccountTrust>,
}

impl AccountTrusts {
    /// The fleet's account.
    pub fn fleet_trust(&self) -> &AccountTrust {
        &self.fleet
    }

    /// The bootstrap account, if it exists.
    pub fn newcomers_trust(&self) -> Option<&AccountTrust> {
        self.newcomers.as_ref()
    }

    /// The account of this realm, if it exists.
    pub fn realm_trust(&self, realm: AccountRealm) -> Option<&AccountTrust> {
        match realm {
            AccountRealm::Fleet => Some(&self.fleet),
            AccountRealm::Newcomers => self.newcomers_trust(),
        }
    }

    /// State of recorded credentials at this instant.
    pub fn credential_state(&self, record: &CredentialRecord, now: Seconds) -> CredentialState {
        match self.realm_trust(record.kind.realm()) {
            Some(trust) => record.credential_state(&trust.claims().nats, now),
            None => CredentialState::Revoked,
        }
    }

    /// The instant up to which the tokens of the record's key are revoked, if they are.
    pub fn revoked_at(&self, record: &CredentialRecord) -> Option<Seconds> {
        let trust = self.realm_trust(record.kind.realm())?;
        record.revoked_at(&trust.claims().nats)
    }
}

impl Organisation {
    /// Reads and verifies the account tokens that are in force.
    pub fn account_trusts(&self) -> Result<AccountTrusts, OrganisationError> {
        let newcomers = self.profile.newcomers_account;
        Ok(AccountTrusts {
            fleet: self.fleet_trust()?,
            newcomers: newcomers.map(|_| self.realm_trust(AccountRealm::Newcomers)).transpose()?,
        })
    }

    /// Adds the bootstrap account if it is missing. Returns whether it was missing.
    pub fn add_newcomers_account(
        &mut self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<bool, OrganisationError> {
        // Another process may have added it before this one got the lock.
        self.profile = Self::open(self.layout.directory())?.profile;
        if self.profile.newcomers_account.is_some() {
            return Ok(false);
        }
        let operator = self.load_key(OrganisationKey::Operator)?;
        self.create_newcomers_account(&operator, now)?;
        self.write_broker_accounts()?;
        files::replace_public(&self.layout.profile_file(), self.profile.to_toml()?.as_bytes())?;
        Ok(true)
    }

    /// Creates keys and token of the bootstrap account. The caller must write the description that makes them effective.
    pub(super) fn create_newcomers_account(
        &mut self,
        operator: &KeyPair,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let [account, newcomer, enroller] =
            [OrganisationKey::Newcomers, OrganisationKey::Newcomer, OrganisationKey::Enroller]
                .map(|key| self.load_or_create_key(key));
        let account = account?.public_key();
        let token = account::newcomers_token(
            account,
            newcomer?.public_key(),
            enroller?.public_key(),
            operator,
            now / 1000,
        )?;
        let path = self.layout.realm_token(AccountRealm::Newcomers);
        files::replace_public(&path, format!("{token}\n").as_bytes())?;
        self.profile.newcomers_account = Some(account);
        Ok(())
    }

    fn load_or_create_key(&self, key: OrganisationKey) -> Result<KeyPair, OrganisationError> {
        let path = self.layout.key_file(key);
        if path.exists() {
            return self.load_key(key);
        }
        let pair = KeyPair::generate(KeyKind::Account).map_err(OrganisationError::NewKey)?;
        files::create_secret(&path, pair.seed_text().as_bytes())?;
        Ok(pair)
    }
}
