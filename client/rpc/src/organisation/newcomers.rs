//! The second account of an organisation: for machines that are nobody yet, and for who lets them in.
//!
//! It was not always there: an organisation that lacks it gets it under the lock, and the description that names it is written
//! last. Whoever is interrupted begins again with the keys that are there already.

use muster_wire::Millis;
use muster_wire::token::{KeyKind, KeyPair, Seconds, Trust};

use super::{Key, Lock, Organisation, OrganisationError, Realm, Record, State, account};
use crate::files;

/// The accounts of an organisation, verified.
#[derive(Debug)]
pub struct Trusts {
    fleet: Trust,
    newcomers: Option<Trust>,
}

impl Trusts {
    /// The fleet's account.
    pub fn fleet(&self) -> &Trust {
        &self.fleet
    }

    /// The newcomers' account, if there is one.
    pub fn newcomers(&self) -> Option<&Trust> {
        self.newcomers.as_ref()
    }

    /// The account that such parties belong to.
    pub fn of(&self, realm: Realm) -> Option<&Trust> {
        match realm {
            Realm::Fleet => Some(&self.fleet),
            Realm::Newcomers => self.newcomers(),
        }
    }

    /// Whether somebody's credentials are good at this instant.
    pub fn state(&self, record: &Record, now: Seconds) -> State {
        match self.of(record.kind.realm()) {
            Some(trust) => record.state(&trust.claims().nats, now),
            None => State::Revoked,
        }
    }

    /// The instant up to which somebody's tokens are void, if they are.
    pub fn revoked_at(&self, record: &Record) -> Option<Seconds> {
        let trust = self.of(record.kind.realm())?;
        record.revoked_at(&trust.claims().nats)
    }
}

impl Organisation {
    /// The accounts, as they are in force.
    pub fn trusts(&self) -> Result<Trusts, OrganisationError> {
        let newcomers = self.profile.newcomers_account;
        Ok(Trusts {
            fleet: self.trust()?,
            newcomers: newcomers
                .map(|_| self.trust_of(Realm::Newcomers))
                .transpose()?,
        })
    }

    /// Adds the newcomers' account where it is missing; whether it was.
    pub fn add_newcomers(&mut self, _lock: &Lock, now: Millis) -> Result<bool, OrganisationError> {
        // Somebody else may have added it while we waited for the lock.
        self.profile = Self::open(self.layout.directory())?.profile;
        if self.profile.newcomers_account.is_some() {
            return Ok(false);
        }
        let operator = self.key(Key::Operator)?;
        self.found_newcomers(&operator, now)?;
        self.write_broker_accounts()?;
        files::replace(&self.layout.profile(), self.profile.text()?.as_bytes())?;
        Ok(true)
    }

    /// Makes keys and token of the newcomers' account. The description that makes them count is the caller's to write.
    pub(super) fn found_newcomers(
        &mut self,
        operator: &KeyPair,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let [account, newcomer, enroller] =
            [Key::Newcomers, Key::Newcomer, Key::Enroller].map(|key| self.key_or_new(key));
        let account = account?.public();
        let token = account::newcomers_token(
            account,
            newcomer?.public(),
            enroller?.public(),
            operator,
            now / 1000,
        )?;
        let path = self.layout.token(Realm::Newcomers);
        files::replace(&path, format!("{token}\n").as_bytes())?;
        self.profile.newcomers_account = Some(account);
        Ok(())
    }

    fn key_or_new(&self, key: Key) -> Result<KeyPair, OrganisationError> {
        let path = self.layout.key(key);
        if path.exists() {
            return self.key(key);
        }
        let pair = KeyPair::generate(KeyKind::Account).map_err(OrganisationError::NewKey)?;
        files::create_secret(&path, pair.seed().as_bytes())?;
        Ok(pair)
    }
}
