//! The bootstrap account of an organisation, for bootstrapping machines and the enrollers that admit them.
//!
//! Organisations of older versions lack this account. It is added under the organisation's lock, and the description that names it is
//! written last. After an interruption the next attempt reuses the keys that exist already.

use muster_wire::Millis;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{AccountTrust, Seconds, UserRole};

use crate::account::{account_claims, write_token};
use crate::{
    AccountRealm, CredentialRecord, CredentialState, Organisation, OrganisationError,
    OrganisationKey, OrganisationLock,
};

/// The verified account tokens of an organisation.
#[derive(Debug)]
pub struct AccountTrusts {
    fleet: AccountTrust,
    storage: Option<AccountTrust>,
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

    /// The account of the stores, if it exists.
    pub fn storage_trust(&self) -> Option<&AccountTrust> {
        self.storage.as_ref()
    }

    /// All accounts, that of the stores first.
    pub fn iter(&self) -> impl Iterator<Item = &AccountTrust> {
        [self.storage.as_ref(), Some(&self.fleet), self.newcomers.as_ref()].into_iter().flatten()
    }

    /// The account of this realm, if it exists.
    pub fn realm_trust(&self, realm: AccountRealm) -> Option<&AccountTrust> {
        match realm {
            AccountRealm::Fleet => Some(&self.fleet),
            AccountRealm::Storage => self.storage_trust(),
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
        let read = |realm| {
            let account = self.realm_account(realm);
            account.map(|_| self.realm_trust(realm)).transpose()
        };
        Ok(AccountTrusts {
            fleet: self.fleet_trust()?,
            storage: read(AccountRealm::Storage)?,
            newcomers: read(AccountRealm::Newcomers)?,
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
        self.create_newcomers_account(now)?;
        self.write_broker_accounts()?;
        self.write_profile()?;
        Ok(true)
    }

    /// Creates keys and token of the bootstrap account. The caller must write the description that makes them effective.
    pub(super) fn create_newcomers_account(
        &mut self,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let operator = self.load_key(OrganisationKey::Operator)?;
        let public_key = |key| self.load_or_create_key(key).map(|pair| pair.public_key());
        let account = public_key(OrganisationKey::Newcomers)?;
        let role_keys = [
            (UserRole::Newcomer, public_key(OrganisationKey::Newcomer)?),
            (UserRole::Service, public_key(OrganisationKey::Enroller)?),
        ];
        let claims = account_claims(AccountRealm::Newcomers, &role_keys, &[]);
        let validity = TokenValidity::without_end(now / 1000);
        let token = encode::issue_account_token("newcomers", account, claims, validity, &operator)?;
        write_token(&self.layout.newcomers_token(), &token)?;
        self.profile.newcomers_account = Some(account);
        Ok(())
    }
}
