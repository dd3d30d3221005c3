//! Synchronizes the names of the organisation with the broker's store `PROVISION`, which the enroller reads.
//!
//! `rpc org add` reserves a name before it issues credentials, `rpc org revoke` marks it as revoked, and `rpc org push` repairs missing entries.
//! A bootstrap token therefore cannot take a name that the organisation issued, nor the name of a revoked node.

use std::collections::BTreeMap;

use muster_bus::{BucketError, Bus, NameStore};
use muster_wire::Millis;
use muster_wire::enrolment::NameEntry;
use muster_wire::identity::Identity;
use muster_wire::stores::PROVISION_BUCKET;
use muster_wire::token::{AccountTrust, PublicKey, Seconds};

use crate::push::PushError;
use crate::{
    AccountRealm, CredentialRecord, CredentialState, Organisation, OrganisationError, PrincipalKind,
};

/// An open connection to the store of names. `close` ends it.
#[derive(Debug)]
pub struct NameRegister {
    pub(super) bus: Bus,
    pub(super) names: NameStore,
}

impl Organisation {
    /// Opens the store of names.
    pub async fn open_name_register(&self, now: Millis) -> Result<NameRegister, PushError> {
        let bus = self.connect_administrator(now).await?;
        let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
        Ok(NameRegister { bus, names })
    }

    /// Whether an enroller has valid credentials. Machines can then be enrolled, so every new name must be reserved before it is issued.
    pub fn has_enroller(&self, now: Millis) -> Result<bool, OrganisationError> {
        let trusts = self.account_trusts()?;
        let is_enroller = |record: &CredentialRecord| {
            record.kind == PrincipalKind::Enroller
                && trusts.credential_state(record, now / 1000) == CredentialState::Valid
        };
        Ok(self.read_records()?.iter().any(is_enroller))
    }

    /// Whether an enroller ever had credentials, so that enrolled machines may exist.
    pub fn had_enroller(&self) -> Result<bool, OrganisationError> {
        let is_enroller = |record: &CredentialRecord| record.kind == PrincipalKind::Enroller;
        Ok(self.read_records()?.iter().any(is_enroller))
    }

    /// Writes every fleet name that the organisation ever issued, marks the revoked ones, and marks the store as complete.
    /// Returns keys whose revocation in `trust` is older than the last token issued to them. Those keys must be revoked again.
    pub async fn push_names(
        &self,
        trust: &AccountTrust,
        now: Millis,
    ) -> Result<Vec<(PublicKey, Seconds)>, PushError> {
        let register = self.open_name_register(now).await?;
        let revocations = &trust.claims().nats.revocations;
        let entries = register.names.list().await?;
        let mut outdated = Vec::new();
        for entry in &entries {
            let Some(until) = revocations.get(&entry.key.to_string()) else {
                continue;
            };
            if entry.is_enrolled() && !entry.revoked {
                register.mark_revoked(&entry.identity, &[entry.key]).await?;
            }
            // A token that was issued after the revocation is still valid.
            if entry.at / 1000 > *until {
                outdated.push((entry.key, entry.at / 1000));
            }
        }
        let known: BTreeMap<&Identity, &NameEntry> =
            entries.iter().map(|entry| (&entry.identity, entry)).collect();
        for (name, entry) in self.issued_names(trust)? {
            let is_written = known.get(&name).is_some_and(|existing| {
                let is_same = existing.key == entry.key && existing.revoked == entry.revoked;
                existing.is_enrolled() || existing.released || is_same
            });
            if !is_written {
                register.write_issued(&entry).await?;
            }
        }
        // Set last, because an enroller admits machines only after this mark.
        register.names.set_issued_at(now).await?;
        register.close().await?;
        Ok(outdated)
    }

    /// One entry for each fleet name in the list of issued credentials, with its newest key.
    pub(crate) fn issued_names(
        &self,
        trust: &AccountTrust,
    ) -> Result<BTreeMap<Identity, NameEntry>, OrganisationError> {
        let account = &trust.claims().nats;
        let mut names: BTreeMap<Identity, NameEntry> = BTreeMap::new();
        for record in self.read_records()? {
            if record.kind.realm() != AccountRealm::Fleet {
                continue;
            }
            let revoked = record.revoked_at(account).is_some();
            let all_revoked = names.get(&record.name).is_none_or(|existing| existing.revoked);
            let entry = issued_entry(&record, revoked && all_revoked);
            names.insert(record.name, entry);
        }
        Ok(names)
    }
}

impl NameRegister {
    /// Whether the store exists. `rpc org push` creates it.
    pub async fn store_exists(&self) -> Result<bool, PushError> {
        match self.names.issued_at().await {
            Ok(_) => Ok(true),
            Err(BucketError::Missing { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves a name before credentials are issued. Fails if the name belongs to an enrolled node.
    pub async fn reserve_name(&self, record: &CredentialRecord) -> Result<(), PushError> {
        let reservation = issued_entry(record, false);
        let reserve = |existing: Option<NameEntry>| match NameEntry::apply_reservation(
            existing.as_ref(),
            &reservation,
        ) {
            Ok(entry) => (Some(entry), Ok(())),
            Err(key) => (None, Err(key)),
        };
        let reserved = self.names.edit_entry(&record.name, reserve).await?;
        let enrolled = |key| OrganisationError::Enrolled(record.name.clone(), key);
        reserved.map_err(|key| enrolled(key).into())
    }

    /// The entries of enrolled nodes that have this name or ever had this key.
    pub async fn find_enrolled(&self, principal: &str) -> Result<Vec<NameEntry>, PushError> {
        if let Ok(key) = PublicKey::parse(principal) {
            let mut entries = self.names.list().await?;
            entries
                .retain(|entry| entry.is_enrolled() && entry.all_keys().any(|known| known == key));
            return Ok(entries);
        }
        let Ok(name) = Identity::parse(principal) else {
            return Ok(Vec::new());
        };
        let entry = self.names.get(&name).await?;
        Ok(entry.into_iter().filter(NameEntry::is_enrolled).collect())
    }

    /// Marks the name as revoked if it belongs to one of these keys.
    pub async fn mark_revoked(&self, name: &Identity, keys: &[PublicKey]) -> Result<(), PushError> {
        let mark = |existing: Option<NameEntry>| match existing {
            Some(mut entry) if !entry.revoked && keys.contains(&entry.key) => {
                entry.revoked = true;
                (Some(entry), ())
            }
            _ => (None, ()),
        };
        Ok(self.names.edit_entry(name, mark).await?)
    }

    /// The entry of a name.
    pub async fn get_entry(&self, name: &Identity) -> Result<Option<NameEntry>, PushError> {
        Ok(self.names.get(name).await?)
    }

    /// Releases a name, so that another key can have it.
    pub async fn release_name(&self, name: &Identity) -> Result<bool, PushError> {
        Ok(self.names.release_name(name).await?)
    }

    /// Closes the connection.
    pub async fn close(self) -> Result<(), PushError> {
        Ok(self.bus.close().await?)
    }

    /// Writes an issued name, unless it belongs to an enrolled node or was released.
    async fn write_issued(&self, entry: &NameEntry) -> Result<(), PushError> {
        let write = |existing: Option<NameEntry>| match &existing {
            Some(existing) if existing.is_enrolled() || existing.released => (None, ()),
            _ => (Some(entry.clone()), ()),
        };
        Ok(self.names.edit_entry(&entry.identity, write).await?)
    }
}

fn issued_entry(record: &CredentialRecord, revoked: bool) -> NameEntry {
    NameEntry {
        identity: record.name.clone(),
        key: record.key,
        credential: None,
        at: record.issued_at.saturating_mul(1000),
        released: false,
        revoked,
        former: Vec::new(),
    }
}
