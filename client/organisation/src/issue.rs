//! Issues credentials.
//!
//! The record is written before the credentials, so that every key in use can be found and revoked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::files;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyKind, KeyPair, PublicKey, UserCredentials, scope};

use crate::{
    AccountRealm, CredentialRecord, CredentialState, MAX_FILE_BYTES, Organisation,
    OrganisationError, OrganisationKey, OrganisationLock, PrincipalKind, ledger,
};

/// Validity of credentials that are issued for one operation.
const TEMPORARY_LIFETIME: Duration = Duration::from_mins(1);
/// Name of the administrator in the broker's connection list.
const ADMINISTRATOR_NAME: &str = "administrator";

/// The credentials to issue.
#[derive(Debug, Clone)]
pub struct CredentialSpec {
    /// The kind of principal.
    pub kind: PrincipalKind,
    /// Its name.
    pub name: Identity,
    /// Permissions as token tags: what a user may request, or which machines a bootstrap token admits.
    pub tags: Vec<String>,
    /// Validity; `None` never expires.
    pub expires: Option<Duration>,
    /// Whether the principal may already have valid credentials.
    pub renew: bool,
    /// Output path; `None` is the default path in the organisation's directory.
    pub out: Option<PathBuf>,
}

/// Issued credentials.
#[derive(Debug)]
pub struct IssuedCredentials {
    /// Their record.
    pub record: CredentialRecord,
    /// The credentials.
    pub creds: UserCredentials,
    /// The path of the file.
    pub path: PathBuf,
}

/// Signed credentials that are neither recorded nor written yet.
#[derive(Debug)]
pub struct PreparedCredentials(IssuedCredentials);

impl PreparedCredentials {
    /// The record that will be written.
    pub fn record(&self) -> &CredentialRecord {
        &self.0.record
    }
}

impl Organisation {
    /// All records of issued credentials.
    pub fn read_records(&self) -> Result<Vec<CredentialRecord>, OrganisationError> {
        ledger::read_ledger(&self.layout().ledger_file())
    }

    /// The newest record of each key. Every renewal of a node's token has a record of its own.
    pub fn newest_records(&self) -> Result<Vec<CredentialRecord>, OrganisationError> {
        let records = self.read_records()?;
        let numbered = || records.iter().enumerate();
        let newest: BTreeMap<PublicKey, usize> =
            numbered().map(|(at, record)| (record.key, at)).collect();
        let is_newest = |at: usize, key| newest.get(&key) == Some(&at);
        let newest_records = numbered().filter(|(at, record)| is_newest(*at, record.key));
        Ok(newest_records.map(|(_, record)| record.clone()).collect())
    }

    /// Issues credentials, records them, and writes them to a file that only its owner can read.
    pub fn issue_credentials(
        &self,
        lock: &OrganisationLock,
        spec: &CredentialSpec,
        now: Millis,
    ) -> Result<IssuedCredentials, OrganisationError> {
        self.record_credentials(lock, self.prepare_credentials(lock, spec, now)?)
    }

    /// Signs credentials. [`Self::record_credentials`] records and writes them.
    pub fn prepare_credentials(
        &self,
        _lock: &OrganisationLock,
        spec: &CredentialSpec,
        now: Millis,
    ) -> Result<PreparedCredentials, OrganisationError> {
        self.refuse_duplicate(spec, now)?;
        let default_path = || self.layout().principal_creds(spec.kind, &spec.name);
        let path = spec.out.clone().unwrap_or_else(default_path);
        let (creds, record) = self.sign_credentials(spec, now)?;
        Ok(PreparedCredentials(IssuedCredentials { record, creds, path }))
    }

    /// The credentials in the file that [`Self::issue_credentials`] wrote last, if they are valid now and have these permissions.
    pub fn valid_credentials(
        &self,
        spec: &CredentialSpec,
        now: Millis,
    ) -> Result<Option<UserCredentials>, OrganisationError> {
        let path = self.layout().principal_creds(spec.kind, &spec.name);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_secret(&path, MAX_FILE_BYTES)?;
        let creds = UserCredentials::parse(&text)
            .map_err(|source| OrganisationError::Creds(path, source))?;
        let (key, trusts) = (creds.key_pair().public_key(), self.account_trusts()?);
        let is_valid = |record: &CredentialRecord| {
            record.key == key
                && trusts.credential_state(record, now / 1000) == CredentialState::Valid
        };
        let is_same = creds.claims().nats.tags == spec.tags;
        let is_usable = is_same && self.newest_records()?.iter().any(is_valid);
        Ok(is_usable.then_some(creds))
    }

    /// Records prepared credentials, then writes them.
    pub fn record_credentials(
        &self,
        _lock: &OrganisationLock,
        PreparedCredentials(credentials): PreparedCredentials,
    ) -> Result<IssuedCredentials, OrganisationError> {
        ledger::append_record(&self.layout().ledger_file(), &credentials.record)?;
        write_credentials(&credentials.path, &credentials.creds)?;
        Ok(credentials)
    }

    /// Issues credentials for one operation. They are valid for one minute and are kept in memory only.
    pub fn temporary_credentials(
        &self,
        kind: PrincipalKind,
        name: &Identity,
        now: Millis,
    ) -> Result<UserCredentials, OrganisationError> {
        let spec = CredentialSpec {
            kind,
            name: name.clone(),
            tags: Vec::new(),
            expires: Some(TEMPORARY_LIFETIME),
            renew: false,
            out: None,
        };
        Ok(self.sign_credentials(&spec, now)?.0)
    }

    /// Issues credentials of the fleet's administrator. They are valid for one minute and are kept in memory only. Nodes and callers reject such
    /// tokens. In an organisation of an earlier version, the account's own key signs them, until `rpc org push` lists a key for them.
    pub fn administrator_credentials(
        &self,
        now: Millis,
    ) -> Result<UserCredentials, OrganisationError> {
        let issued_at = now / 1000;
        let validity = TokenValidity {
            issued_at,
            expires: Some(issued_at.saturating_add(TEMPORARY_LIFETIME.as_secs())),
        };
        let claims = |key: PublicKey| {
            let (publish, subscribe) = scope::administrator_permissions(&key.to_string());
            UserClaims::new_administrator(publish, subscribe)
        };
        let name = Identity::parse(ADMINISTRATOR_NAME)?;
        if self.has_administrator_key()? {
            let account = self.stores_account();
            let claims = |_| UserClaims::new(account, Vec::new());
            return self.issue_user(&name, OrganisationKey::Administrator, validity, claims);
        }
        let key = match self.stores_realm() {
            AccountRealm::Storage => OrganisationKey::Storage,
            AccountRealm::Fleet | AccountRealm::Newcomers => OrganisationKey::Account,
        };
        self.issue_user(&name, key, validity, claims)
    }

    fn sign_credentials(
        &self,
        spec: &CredentialSpec,
        now: Millis,
    ) -> Result<(UserCredentials, CredentialRecord), OrganisationError> {
        let issued_at = now / 1000;
        let expires = spec.expires.map(|time| issued_at.saturating_add(time.as_secs()));
        let account = self.realm_account(spec.kind.realm());
        let account = account.ok_or(OrganisationError::NoNewcomers)?;
        let claims = |_| UserClaims::new(account, spec.tags.clone());
        let validity = TokenValidity { issued_at, expires };
        let creds = self.issue_user(&spec.name, spec.kind.signing_key(), validity, claims)?;
        let record = CredentialRecord {
            kind: spec.kind,
            name: spec.name.clone(),
            key: creds.key_pair().public_key(),
            issued_at,
            expires,
            token: creds.jwt().to_owned(),
        };
        Ok((creds, record))
    }

    /// Generates the key of a user, and signs a token for it.
    pub(crate) fn issue_user(
        &self,
        name: &Identity,
        signing_key: OrganisationKey,
        validity: TokenValidity,
        claims: impl FnOnce(PublicKey) -> UserClaims,
    ) -> Result<UserCredentials, OrganisationError> {
        let signer = self.load_key(signing_key)?;
        let pair = KeyPair::generate(KeyKind::User).map_err(OrganisationError::NewKey)?;
        let key = pair.public_key();
        let token = encode::issue_user_token(name, key, claims(key), validity, &signer)?;
        let unusable =
            |source| OrganisationError::Creds(self.layout().key_file(signing_key), source);
        UserCredentials::new(&token, pair).map_err(unusable)
    }

    /// Fails if the name is taken. Policies refer to principals by name, so a name in an account belongs to one principal.
    /// A name of another kind is free only after all its credentials were revoked, because expired ones may be renewed.
    /// The same kind needs `renew` while it has valid credentials.
    fn refuse_duplicate(
        &self,
        spec: &CredentialSpec,
        now: Millis,
    ) -> Result<(), OrganisationError> {
        let trusts = self.account_trusts()?;
        let mut records = self.read_records()?;
        records
            .retain(|record| record.name == spec.name && record.kind.realm() == spec.kind.realm());
        let state = |record: &CredentialRecord| trusts.credential_state(record, now / 1000);
        for record in records {
            let state = state(&record);
            let (name, kind, key) = (record.name.to_string(), record.kind, record.key);
            if kind != spec.kind && state != CredentialState::Revoked {
                let requested = spec.kind;
                return Err(OrganisationError::NameOfOther { name, kind, key, requested });
            }
            if kind == spec.kind && !spec.renew && state == CredentialState::Valid {
                return Err(OrganisationError::Duplicate { kind, name, key });
            }
        }
        Ok(())
    }
}

/// Writes credentials to a file, replacing older ones.
pub(crate) fn write_credentials(
    path: &Path,
    creds: &UserCredentials,
) -> Result<(), OrganisationError> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        files::create_private_directory(directory)?;
    }
    Ok(files::replace_secret(path, creds.to_text().as_bytes())?)
}
