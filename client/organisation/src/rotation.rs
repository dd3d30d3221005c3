//! Rotation of the keys that sign credentials, in two steps. Start: the account token lists a new key beside the old one, and new
//! credentials are signed with the new key. Finish: the account token lists the new key only, so credentials of the old key end.
//!
//! Between the steps, nodes get new tokens from the trust bucket; other principals get new credentials. The operator's key is replaced in
//! `operator_rotation`.

use std::collections::BTreeMap;

use muster_files::files;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores::TOKENS_BUCKET;
use muster_wire::token::claims::{AccountClaims, ScopedKey, SigningKeyEntry, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::leaf_scope::LEAF_ROLE;
use muster_wire::token::{KeyPair, PublicKey, UserRole};

use crate::account::permission_template;
use crate::push::PushError;
use crate::renewal::{self, NodeTokenUpdate};
use crate::{
    CredentialState, MAX_FILE_BYTES, Organisation, OrganisationError, OrganisationKey,
    OrganisationLock, PrincipalKind,
};

/// Whether a rotation was started or continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStart {
    /// A new key was created.
    Started,
    /// An earlier call created the new key.
    Continued,
}

impl PrincipalKind {
    /// The key that signs credentials of this kind.
    pub(crate) fn signing_key(self) -> OrganisationKey {
        match self {
            Self::User => OrganisationKey::Caller,
            Self::Node => OrganisationKey::Node,
            Self::Service => OrganisationKey::Service,
            Self::Newcomer => OrganisationKey::Newcomer,
            Self::Enroller => OrganisationKey::Enroller,
            Self::Leaf => OrganisationKey::Leaf,
        }
    }

    /// The role that the account token gives to the key.
    fn role(self) -> &'static str {
        match self {
            Self::User => UserRole::Caller.as_str(),
            Self::Node => UserRole::Node.as_str(),
            Self::Service | Self::Enroller => UserRole::Service.as_str(),
            Self::Newcomer => UserRole::Newcomer.as_str(),
            Self::Leaf => LEAF_ROLE,
        }
    }
}

impl Organisation {
    /// Creates a new key for credentials of this kind, and signs an account token that lists it beside the present one. If that was done before, and
    /// the rotation is not finished, nothing changes. The new key replaces the file of the old one last, so an interrupted call can be repeated.
    pub fn start_rotation(
        &self,
        lock: &OrganisationLock,
        kind: PrincipalKind,
        now: Millis,
    ) -> Result<RotationStart, OrganisationError> {
        let (key, realm) = (kind.signing_key(), kind.realm());
        let mut account = self.realm_trust(realm)?.claims().nats.clone();
        let next_file = self.layout().next_key_file(key);
        if !next_file.exists() && role_keys(&account, kind.role()).len() > 1 {
            return Ok(RotationStart::Continued);
        }
        let next = self.create_next_key(key)?;
        if !role_keys(&account, kind.role()).contains(&next.public_key()) {
            account.signing_keys.push(self.role_entry(kind, next.public_key())?);
            self.sign_account(lock, realm, account, now)?;
        }
        self.install_next_key(key, &next)?;
        self.remove_next_key(key)?;
        Ok(RotationStart::Started)
    }

    /// The entry in the account token of a key for credentials of this kind.
    fn role_entry(
        &self,
        kind: PrincipalKind,
        key: PublicKey,
    ) -> Result<SigningKeyEntry, OrganisationError> {
        let Ok(role) = kind.role().parse::<UserRole>() else {
            return Ok(self.leaf_entry(key));
        };
        let template = permission_template(kind.realm(), role, &self.profile().collectives)
            .ok_or(OrganisationError::NoNewcomers)?;
        Ok(SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key, role, template))))
    }

    /// Signs an account token that lists only the present key for credentials of this kind. Credentials that another key signed end. Returns the
    /// number of keys that were removed.
    pub fn finish_rotation(
        &self,
        lock: &OrganisationLock,
        kind: PrincipalKind,
        now: Millis,
    ) -> Result<usize, OrganisationError> {
        let current = self.load_key(kind.signing_key())?.public_key();
        let mut account = self.realm_trust(kind.realm())?.claims().nats.clone();
        let before = account.signing_keys.len();
        let is_old = |entry: &SigningKeyEntry| {
            role_key(entry, kind.role()).is_some_and(|listed| listed != current)
        };
        account.signing_keys.retain(|entry| !is_old(entry));
        let removed = before - account.signing_keys.len();
        if removed > 0 {
            self.sign_account(lock, kind.realm(), account, now)?;
        }
        Ok(removed)
    }

    /// Names of this kind whose valid credentials were all signed with another key than the present one.
    pub fn names_of_old_keys(
        &self,
        kind: PrincipalKind,
        now: Millis,
    ) -> Result<Vec<Identity>, OrganisationError> {
        let current = self.load_key(kind.signing_key())?.public_key();
        let trusts = self.account_trusts()?;
        let mut is_current: BTreeMap<Identity, bool> = BTreeMap::new();
        for record in self.read_records()? {
            let state = trusts.credential_state(&record, now / 1000);
            if record.kind == kind && state == CredentialState::Valid {
                let is_new = issuer(&record.token) == Some(current);
                *is_current.entry(record.name).or_default() |= is_new;
            }
        }
        Ok(is_current.into_iter().filter_map(|(name, new)| (!new).then_some(name)).collect())
    }

    /// Signs a new token for each node whose token another key signed, and publishes it in the bucket of tokens, where the node reads it. Returns the
    /// nodes. `push_names` must run before, because the register of names can forbid it.
    pub async fn sign_node_tokens_again(
        &self,
        _lock: &OrganisationLock,
        now: Millis,
    ) -> Result<Vec<Identity>, PushError> {
        self.update_node_tokens(NodeTokenUpdate::SignedByOtherKey, now).await
    }

    /// Nodes whose token in the bucket of tokens was signed with another key than the present one, such as those that an enroller admitted.
    pub async fn nodes_of_old_keys(&self, now: Millis) -> Result<Vec<Identity>, PushError> {
        let current = self.load_key(OrganisationKey::Node)?.public_key();
        let register = self.open_name_register(now).await?;
        let tokens = register.bus.bucket(TOKENS_BUCKET.name);
        let mut stored = renewal::stored_tokens(&self.fleet_trust()?, &tokens, now).await?;
        register.close().await?;
        stored.retain(|_, record| issuer(&record.token) != Some(current));
        Ok(stored.into_keys().collect())
    }

    /// The next key, from the file that an interrupted call left, or a new one.
    pub(crate) fn create_next_key(
        &self,
        key: OrganisationKey,
    ) -> Result<KeyPair, OrganisationError> {
        if let Some(pair) = self.load_next_key(key)? {
            return Ok(pair);
        }
        let pair = KeyPair::generate(key.key_kind()).map_err(OrganisationError::NewKey)?;
        files::replace_secret(&self.layout().next_key_file(key), pair.seed_text().as_bytes())?;
        Ok(pair)
    }

    /// Reads the next key of this kind, if a rotation has created it.
    pub(crate) fn load_next_key(
        &self,
        key: OrganisationKey,
    ) -> Result<Option<KeyPair>, OrganisationError> {
        let path = self.layout().next_key_file(key);
        if !path.exists() {
            return Ok(None);
        }
        let seed = files::read_secret(&path, MAX_FILE_BYTES)?;
        let pair = KeyPair::from_seed(seed.trim());
        pair.map(Some).map_err(|source| OrganisationError::Key(path, source))
    }

    /// Replaces the present key by the next one, whose own file stays until the rotation has ended.
    pub(crate) fn install_next_key(
        &self,
        key: OrganisationKey,
        next: &KeyPair,
    ) -> Result<(), OrganisationError> {
        Ok(files::replace_secret(&self.layout().key_file(key), next.seed_text().as_bytes())?)
    }

    /// Removes the file of the next key.
    pub(crate) fn remove_next_key(&self, key: OrganisationKey) -> Result<(), OrganisationError> {
        let path = self.layout().next_key_file(key);
        Ok(std::fs::remove_file(&path).map_err(files::file_error("remove", &path))?)
    }
}

/// The keys that the account lists for a role.
pub(crate) fn role_keys(account: &AccountClaims, role: &str) -> Vec<PublicKey> {
    account.signing_keys.iter().filter_map(|entry| role_key(entry, role)).collect()
}

/// The key of an entry, if it is of this role.
pub(crate) fn role_key(entry: &SigningKeyEntry, role: &str) -> Option<PublicKey> {
    match entry {
        SigningKeyEntry::Scoped(scope) if scope.role == role => Some(scope.key),
        _ => None,
    }
}

/// The key that signed a token; `None` if it cannot be decoded.
fn issuer(token: &str) -> Option<PublicKey> {
    Some(decode_token::<UserClaims>(token).ok()?.unverified_claims().iss)
}

#[cfg(test)]
mod tests {
    use super::{RotationStart, role_keys};
    use crate::testing::{NOW, organisation};
    use crate::{AccountRealm, CredentialSpec, OrganisationKey, PrincipalKind};
    use muster_wire::token::UserRole;

    fn user(name: &str) -> CredentialSpec {
        CredentialSpec {
            kind: PrincipalKind::User,
            name: name.parse().unwrap(),
            tags: Vec::new(),
            expires: None,
            renew: true,
            out: None,
        }
    }

    #[test]
    fn both_keys_are_valid_until_the_rotation_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let kind = PrincipalKind::User;
        let issue = |name| organisation.issue_credentials(&lock, &user(name), NOW).unwrap();
        let (old_rip, _) = (issue("rip"), issue("anna"));
        let old = organisation.load_key(OrganisationKey::Caller).unwrap().public_key();
        assert_eq!(organisation.start_rotation(&lock, kind, NOW).unwrap(), RotationStart::Started);
        let new = organisation.load_key(OrganisationKey::Caller).unwrap().public_key();
        assert_ne!(old, new);
        let again = organisation.start_rotation(&lock, kind, NOW).unwrap();
        assert_eq!(again, RotationStart::Continued);
        assert_eq!(organisation.load_key(OrganisationKey::Caller).unwrap().public_key(), new);
        let new_rip = issue("rip");
        let trust = organisation.fleet_trust().unwrap();
        assert_eq!(role_keys(&trust.claims().nats, UserRole::Caller.as_str()), [old, new]);
        for creds in [&old_rip, &new_rip] {
            let verified = trust.verify_user(creds.creds.jwt(), NOW).unwrap();
            assert_eq!(verified.role, UserRole::Caller);
        }
        let outdated = organisation.names_of_old_keys(kind, NOW).unwrap();
        assert_eq!(outdated, ["anna".parse().unwrap()]);
        assert_eq!(organisation.finish_rotation(&lock, kind, NOW).unwrap(), 1);
        assert_eq!(organisation.finish_rotation(&lock, kind, NOW).unwrap(), 0);
        let trust = organisation.realm_trust(AccountRealm::Fleet).unwrap();
        assert!(trust.verify_user(old_rip.creds.jwt(), NOW).is_err());
        assert!(trust.verify_user(new_rip.creds.jwt(), NOW).is_ok());
    }

    /// A call that was interrupted after any of its writes can be repeated, and the key that the account lists is the one in the file.
    #[test]
    fn interrupted_start_can_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let kind = PrincipalKind::Enroller;
        let key_file = organisation.layout().key_file(OrganisationKey::Enroller);
        let next_file = organisation.layout().next_key_file(OrganisationKey::Enroller);
        let old_seed = std::fs::read(&key_file).unwrap();
        let next = organisation.create_next_key(OrganisationKey::Enroller).unwrap();
        organisation.start_rotation(&lock, kind, NOW).unwrap();
        let current = || organisation.load_key(OrganisationKey::Enroller).unwrap().public_key();
        assert_eq!(current(), next.public_key());
        assert!(!next_file.exists());
        // The account token was signed, and the key's file was not replaced.
        let new_seed = std::fs::read(&key_file).unwrap();
        muster_files::files::replace_secret(&key_file, &old_seed).unwrap();
        muster_files::files::replace_secret(&next_file, &new_seed).unwrap();
        organisation.start_rotation(&lock, kind, NOW).unwrap();
        assert_eq!(current(), next.public_key());
        let account = organisation.realm_trust(AccountRealm::Newcomers).unwrap();
        assert_eq!(role_keys(&account.claims().nats, UserRole::Service.as_str()).len(), 2);
    }
}
