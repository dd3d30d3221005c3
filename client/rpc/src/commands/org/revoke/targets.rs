//! Resolves the keys that `rpc org revoke` revokes: names and keys from the command line and from a list, looked up in the issued credentials
//! and in the register of enrolled nodes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use muster_files::files;
use muster_files::files::FileAccessError;
use muster_organisation::{
    AccountRealm, AccountTrusts, CredentialRecord, NameRegister, Organisation, OrganisationError,
    PrincipalKind, PushError, RecordIndex,
};
use muster_wire::identity::Identity;
use muster_wire::token::{KeyKind, PublicKey, Seconds};

use crate::commands::org::args::OrgRevokeArgs;
use crate::session::context::Error;

const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;

pub(super) struct RevokedKey {
    pub(super) realm: AccountRealm,
    pub(super) key: PublicKey,
    /// Time of issue of the key's newest token.
    pub(super) issued_at: Seconds,
    /// Owner of the key. `None` if the key is neither recorded nor in the register.
    pub(super) principal: Option<(PrincipalKind, Identity)>,
}

impl RevokedKey {
    /// Whether every known token of the key is revoked already.
    pub(super) fn is_revoked(&self, trusts: &AccountTrusts) -> bool {
        let account = trusts.realm_trust(self.realm).map(|trust| &trust.claims().nats);
        let until = account.and_then(|account| account.revocations.get(&self.key.to_string()));
        self.principal.is_some() && until.is_some_and(|until| *until >= self.issued_at)
    }
}

/// The names and keys from the arguments and from the list.
pub(super) fn read_names(args: &OrgRevokeArgs) -> Result<Vec<String>, Error> {
    let mut names = args.names.clone();
    if let Some(path) = &args.from {
        let text = read_list(path).map_err(OrganisationError::from)?;
        let lines = text.lines().map(str::trim);
        let listed = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        names.extend(listed.map(str::to_owned));
    }
    Ok(names)
}

fn read_list(path: &Path) -> Result<String, FileAccessError> {
    if path != Path::new("-") {
        return files::read_text(path, MAX_LIST_BYTES);
    }
    // A list that was cut off silently would revoke only a part of it.
    files::read_bounded(io::stdin().lock(), Path::new("standard input"), MAX_LIST_BYTES)
}

/// The keys of these names, without duplicates. Fails if any name is unknown, so that a typing error does not revoke only part of a list.
pub(super) async fn resolve_keys(
    organisation: &Organisation,
    register: Option<&NameRegister>,
    names: &[String],
    kind: Option<PrincipalKind>,
    now: Seconds,
) -> Result<Vec<RevokedKey>, Error> {
    let records = organisation.read_records()?;
    let index = RecordIndex::new(&records);
    let mut selected: BTreeMap<String, RevokedKey> = BTreeMap::new();
    for name in names {
        let enrolled = enrolled_keys(register, name, kind).await?;
        let issued = match index.find_records(name, kind) {
            Ok(found) => found,
            Err(OrganisationError::Unknown(_)) if !enrolled.is_empty() => Vec::new(),
            Err(unknown @ OrganisationError::Unknown(_)) => {
                let key = PublicKey::parse_kind(name, KeyKind::User).map_err(|_| unknown)?;
                selected.entry(key.to_string()).or_insert(RevokedKey {
                    realm: kind.map_or(AccountRealm::Fleet, PrincipalKind::realm),
                    key,
                    issued_at: now,
                    principal: None,
                });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if let (Some(record), false) = (issued.first(), enrolled.is_empty())
            && record.kind != PrincipalKind::Node
        {
            let (name, kinds) = (name.clone(), vec![record.kind, PrincipalKind::Node]);
            return Err(OrganisationError::Ambiguous { name, kinds }.into());
        }
        let mut recorded = Vec::with_capacity(issued.len());
        for record in issued {
            recorded.push(RevokedKey {
                realm: record.kind.realm(),
                key: record.key,
                issued_at: last_issued(register, record).await?,
                principal: Some((record.kind, record.name.clone())),
            });
        }
        let issued = recorded.into_iter();
        for found in issued.chain(enrolled) {
            let issued_at = found.issued_at;
            let entry = selected.entry(found.key.to_string()).or_insert(found);
            entry.issued_at = entry.issued_at.max(issued_at);
        }
    }
    Ok(selected.into_values().collect())
}

/// Time of issue of the newest token of a key that was issued here, including renewals by an enroller.
async fn last_issued(
    register: Option<&NameRegister>,
    record: &CredentialRecord,
) -> Result<Seconds, PushError> {
    let Some(register) = register.filter(|_| record.token_life().is_some()) else {
        return Ok(record.issued_at);
    };
    let entry = register.get_entry(&record.name).await?;
    let renewed = entry.filter(|entry| entry.key == record.key);
    Ok(renewed.map_or(record.issued_at, |entry| record.issued_at.max(entry.at / 1000)))
}

/// The keys that an enroller issued under this name, or this single key.
async fn enrolled_keys(
    register: Option<&NameRegister>,
    name_or_key: &str,
    kind: Option<PrincipalKind>,
) -> Result<Vec<RevokedKey>, Error> {
    let Some(register) = register.filter(|_| kind.is_none_or(|kind| kind == PrincipalKind::Node))
    else {
        return Ok(Vec::new());
    };
    let requested_key = PublicKey::parse(name_or_key).ok();
    let mut found = Vec::new();
    for entry in register.find_enrolled(name_or_key).await? {
        let keys = entry
            .all_keys()
            .filter(|key| requested_key.is_none_or(|requested_key| requested_key == *key));
        found.extend(keys.map(|key| RevokedKey {
            realm: AccountRealm::Fleet,
            key,
            issued_at: entry.at / 1000,
            principal: Some((PrincipalKind::Node, entry.identity.clone())),
        }));
    }
    Ok(found)
}
