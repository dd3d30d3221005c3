//! The list of all issued credentials: append-only, one JSON object per line, no secrets.
//!
//! Revocations are not in this list. They are in the account token, which the broker and the nodes verify.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use muster_files::files;
use muster_wire::identity::Identity;
use muster_wire::token::claims::AccountClaims;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{PublicKey, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OrganisationError;

/// Largest list that is read, in bytes: about 250,000 records.
const MAX_LEDGER_BYTES: u64 = 256 * 1024 * 1024;

/// Kind of principal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// Sends requests
    User,
    /// Executes requests
    Node,
    /// Sends and executes requests
    Service,
    /// Bootstrap token, with which new machines request enrolment
    Newcomer,
    /// Enrols new machines and issues their identity
    Enroller,
    /// Connects a nats-server at another site as a leaf node
    Leaf,
}

/// The accounts in which credentials are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRealm {
    /// Users, nodes, services and leaf nodes.
    Fleet,
    /// The fleet's stores. Its users are administrators, for one operation each.
    Storage,
    /// Bootstrapping machines and enrollers.
    Newcomers,
}

impl PrincipalKind {
    /// The account of principals of this kind.
    pub fn realm(self) -> AccountRealm {
        match self {
            Self::User | Self::Node | Self::Service | Self::Leaf => AccountRealm::Fleet,
            Self::Newcomer | Self::Enroller => AccountRealm::Newcomers,
        }
    }

    /// The name, as in the list of issued credentials and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Node => "node",
            Self::Service => "service",
            Self::Newcomer => "newcomer",
            Self::Enroller => "enroller",
            Self::Leaf => "leaf",
        }
    }
}

impl fmt::Display for PrincipalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One issue of credentials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// The kind of principal.
    pub kind: PrincipalKind,
    /// Its name.
    pub name: Identity,
    /// Its public key.
    pub key: PublicKey,
    /// Time of issue.
    pub issued_at: Seconds,
    /// Expiry; `None` never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Seconds>,
    /// The token, with the principal's permissions.
    pub token: String,
}

/// State of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialState {
    /// Valid.
    Valid,
    /// Expired.
    Expired,
    /// Revoked.
    Revoked,
}

impl fmt::Display for CredentialState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        })
    }
}

impl CredentialRecord {
    /// The validity period of a node's token, if it expires. Tokens of other principals are not renewed.
    pub fn token_life(&self) -> Option<TokenLife> {
        let expires = self.expires.filter(|_| self.kind == PrincipalKind::Node)?;
        Some(TokenLife { expires, lifetime: expires.saturating_sub(self.issued_at) })
    }

    /// The instant up to which the account revoked tokens of this key, if it did.
    pub fn revoked_at(&self, account: &AccountClaims) -> Option<Seconds> {
        let revocation = |key: &str| account.revocations.get(key).copied();
        revocation(&self.key.to_string())
            .max(revocation("*"))
            .filter(|until| self.issued_at <= *until)
    }

    /// State of these credentials at this instant.
    pub fn credential_state(&self, account: &AccountClaims, now: Seconds) -> CredentialState {
        match (self.revoked_at(account), self.expires) {
            (Some(_), _) => CredentialState::Revoked,
            (None, Some(until)) if until <= now => CredentialState::Expired,
            _ => CredentialState::Valid,
        }
    }
}

/// Reads the list. A missing file is an empty list.
pub(crate) fn read_ledger(path: &Path) -> Result<Vec<CredentialRecord>, OrganisationError> {
    let text = match files::read_text(path, MAX_LEDGER_BYTES) {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        text => text?,
    };
    parse_records(&text)
        .map_err(|(line, source)| OrganisationError::Ledger(path.to_owned(), line, source))
}

/// Appends one record.
pub(crate) fn append_record(
    path: &Path,
    record: &CredentialRecord,
) -> Result<(), OrganisationError> {
    let mut line = serde_json::to_vec(record)
        .map_err(|error| OrganisationError::Format("the record", error.into()))?;
    line.push(b'\n');
    Ok(files::append_public(path, &line)?)
}

fn parse_records(text: &str) -> Result<Vec<CredentialRecord>, (usize, serde_json::Error)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| serde_json::from_str(line).map_err(|error| (index + 1, error)))
        .collect()
}

/// Index of records by name, by kind and name, and by key.
#[derive(Debug)]
pub struct RecordIndex<'a> {
    by_name: HashMap<&'a str, Vec<&'a CredentialRecord>>,
    by_key: HashMap<String, Vec<&'a CredentialRecord>>,
}

impl<'a> RecordIndex<'a> {
    /// Indexes these records.
    pub fn new(records: &'a [CredentialRecord]) -> Self {
        let mut by_name: HashMap<&str, Vec<&CredentialRecord>> = HashMap::new();
        let mut by_key: HashMap<String, Vec<&CredentialRecord>> = HashMap::new();
        for record in records {
            by_name.entry(record.name.as_str()).or_default().push(record);
            by_key.entry(record.key.to_string()).or_default().push(record);
        }
        Self { by_name, by_key }
    }

    /// The records with this name or key, all of one kind of principal.
    pub fn find_records(
        &self,
        principal: &str,
        kind: Option<PrincipalKind>,
    ) -> Result<Vec<&'a CredentialRecord>, OrganisationError> {
        let name = Identity::parse(principal).ok();
        let with_name = name.and_then(|name| self.by_name.get(name.as_str()));
        let with_key = self.by_key.get(principal);
        let matches = with_name.into_iter().chain(with_key).flatten().copied();
        let found: Vec<&CredentialRecord> =
            matches.filter(|record| kind.is_none_or(|kind| kind == record.kind)).collect();
        let mut kinds: Vec<PrincipalKind> = found.iter().map(|record| record.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        match kinds.len() {
            0 => Err(OrganisationError::Unknown(principal.to_owned())),
            1 => Ok(found),
            _ => Err(OrganisationError::Ambiguous { name: principal.to_owned(), kinds }),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::token::claims::{AccountClaims, AccountLimits};
    use muster_wire::token::{KeyKind, KeyPair};

    use super::{
        CredentialRecord, CredentialState, OrganisationError, PrincipalKind, RecordIndex,
        parse_records,
    };

    fn record(kind: PrincipalKind, name: &str, key: u8, expires: Option<u64>) -> CredentialRecord {
        CredentialRecord {
            kind,
            name: name.parse().unwrap(),
            key: KeyPair::from_raw(KeyKind::User, &[key; 32]).public_key(),
            issued_at: 100,
            expires,
            token: "a.b.c".to_owned(),
        }
    }

    #[test]
    fn revocation_follows_from_the_account_and_expiry_from_the_clock() {
        let mut account = AccountClaims::new(AccountLimits::default(), Vec::new());
        let (one, other) = (
            record(PrincipalKind::User, "rip", 1, None),
            record(PrincipalKind::User, "rip", 2, Some(200)),
        );
        account.revoke_user(&one.key, 99);
        assert_eq!(
            one.credential_state(&account, 1000),
            CredentialState::Valid,
            "a revocation from before the issue does not apply"
        );
        account.revoke_user(&one.key, 100);
        assert_eq!(one.credential_state(&account, 1000), CredentialState::Revoked);
        assert_eq!(one.revoked_at(&account), Some(100));
        assert_eq!(other.credential_state(&account, 199), CredentialState::Valid);
        assert_eq!(other.credential_state(&account, 200), CredentialState::Expired);
        account.revocations.insert("*".to_owned(), 150);
        assert_eq!(other.credential_state(&account, 199), CredentialState::Revoked);
    }

    #[test]
    fn finds_entries_by_name_kind_or_key() {
        let records = [
            record(PrincipalKind::User, "a", 1, None),
            record(PrincipalKind::Node, "a", 2, None),
            record(PrincipalKind::User, "a", 3, None),
        ];
        let index = RecordIndex::new(&records);
        let find_records = |principal: &str, kind| index.find_records(principal, kind);
        assert!(matches!(find_records("b", None), Err(OrganisationError::Unknown(_))));
        let Err(OrganisationError::Ambiguous { kinds, .. }) = find_records("a", None) else {
            panic!("the name must be ambiguous");
        };
        assert_eq!(kinds, [PrincipalKind::User, PrincipalKind::Node]);
        assert_eq!(find_records("A", Some(PrincipalKind::User)).unwrap().len(), 2);
        let key = records[2].key.to_string();
        assert_eq!(find_records(&key, None).unwrap()[0].key, records[2].key);
    }

    #[test]
    fn error_names_the_damaged_line() {
        let good = serde_json::to_string(&record(PrincipalKind::Node, "a", 1, None)).unwrap();
        assert_eq!(parse_records(&format!("{good}\n\n{good}\n")).unwrap().len(), 2);
        assert_eq!(parse_records(&format!("{good}\n{{}}\n")).unwrap_err().0, 2);
    }
}
