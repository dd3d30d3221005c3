//! The fleet's services and their rights, from the records of issued credentials.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores::{self, StoreUse};
use muster_wire::token::claims::{AccountClaims, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::{Seconds, ServiceRight};

use crate::{CredentialRecord, CredentialState, Organisation, OrganisationError, PrincipalKind};

impl Organisation {
    /// Services with valid credentials of which none names a right, as those of earlier versions.
    pub fn services_without_rights(&self, now: Millis) -> Result<Vec<Identity>, OrganisationError> {
        let trust = self.fleet_trust()?;
        let rights = rights_of_services(&self.read_records()?, &trust.claims().nats, now / 1000);
        Ok(rights
            .into_iter()
            .filter(|(_, rights)| rights.is_empty())
            .map(|(name, _)| name)
            .collect())
    }
}

impl Organisation {
    /// For what the fleet has stores that not every fleet has: credentials of a service were issued, programs are listed, or the stores were declared.
    pub fn store_uses(&self) -> Result<Vec<StoreUse>, OrganisationError> {
        let records = self.read_records()?;
        let was_issued = |right: ServiceRight| {
            let mut services = records.iter().filter(|one| one.kind == PrincipalKind::Service);
            services.any(|record| rights_in(record).any(|issued| issued == right))
        };
        // A new organisation has no account token yet.
        let has_account = self.layout().account_token().exists();
        let lists_programs = has_account && !self.programs()?.is_empty();
        let is_needed = |one: StoreUse| match one {
            StoreUse::Service(right) => was_issued(right),
            StoreUse::Upgrades => lists_programs,
        };
        let mut uses = Vec::new();
        for store in &stores::ALL_BUCKETS {
            if let Some(one) = store.needed_for
                && !uses.contains(&one)
                && (is_needed(one) || self.has_declared(store)?)
            {
                uses.push(one);
            }
        }
        Ok(uses)
    }
}

/// For each right, the services with valid credentials that name it: the list in the account token.
pub(crate) fn services_by_right(
    records: &[CredentialRecord],
    account: &AccountClaims,
    now: Seconds,
) -> BTreeMap<String, BTreeSet<Identity>> {
    let mut services: BTreeMap<String, BTreeSet<Identity>> = BTreeMap::new();
    for (name, rights) in rights_of_services(records, account, now) {
        for right in rights {
            services.entry(right.to_string()).or_default().insert(name.clone());
        }
    }
    services
}

/// The rights in all valid credentials of each service.
fn rights_of_services(
    records: &[CredentialRecord],
    account: &AccountClaims,
    now: Seconds,
) -> BTreeMap<Identity, BTreeSet<ServiceRight>> {
    let mut services: BTreeMap<Identity, BTreeSet<ServiceRight>> = BTreeMap::new();
    for record in records {
        let is_valid = record.credential_state(account, now) == CredentialState::Valid;
        if record.kind == PrincipalKind::Service && is_valid {
            services.entry(record.name.clone()).or_default().extend(rights_in(record));
        }
    }
    services
}

/// The rights in a service's credentials.
fn rights_in(record: &CredentialRecord) -> impl Iterator<Item = ServiceRight> {
    let claims = decode_token::<UserClaims>(&record.token);
    let tags = claims.map(|token| token.unverified_claims().nats.tags.clone()).unwrap_or_default();
    ServiceRight::ALL.into_iter().filter(move |right| right.is_in(&tags))
}
