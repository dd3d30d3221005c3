//! The organisation's SSH authority: the key that signs user certificates, and its place in the account token. Its rotation has two steps, as that of a role.
//!
//! The key is in `keys/ssh-ca.nk`. Nodes trust the keys that the account token lists, so no other file is distributed.

use std::time::Duration;

use muster_sshcert::{
    CertificateIssueError, CertificateKeyId, CertificateSpec, GrantedFeatures, IssuedCertificate,
    SubjectKey, issue_certificate,
};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use uuid::Uuid;

use crate::{
    AccountRealm, CredentialState, Organisation, OrganisationError, OrganisationKey,
    OrganisationLock, PrincipalKind, RotationStart,
};

/// A certificate that an administrator signs.
#[derive(Debug, Clone)]
pub struct OfflineCertificate {
    /// The user, who must have valid credentials.
    pub caller: Identity,
    /// The user's public SSH key.
    pub subject: SubjectKey,
    /// How long it is valid; never longer than the credentials.
    pub lifetime: Duration,
    /// What it permits.
    pub features: GrantedFeatures,
}

/// Why an administrator's certificate was not signed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineCertificateError {
    /// The organisation's files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// No SSH authority was created.
    #[error("the organisation has no SSH authority")]
    NoAuthority,
    /// The user has no valid credentials.
    #[error("user `{0}` has no valid credentials, so no node would accept the certificate")]
    NoCredentials(Identity),
    /// Signing failed.
    #[error("cannot sign the certificate")]
    Issue(#[from] CertificateIssueError),
}

impl Organisation {
    /// Creates the SSH authority, and signs an account token that lists it. Returns whether it is new. An interrupted call can be repeated.
    pub fn create_ssh_authority(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<bool, OrganisationError> {
        let key = self.load_or_create_key(OrganisationKey::SshAuthority)?.public_key();
        let mut account = self.fleet_trust()?.claims().nats.clone();
        if account.ssh_authorities.contains(&key) {
            return Ok(false);
        }
        account.ssh_authorities.insert(0, key);
        self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        Ok(true)
    }

    /// The SSH authorities that the account token lists, the present one first.
    pub fn ssh_authorities(&self) -> Result<Vec<PublicKey>, OrganisationError> {
        Ok(self.fleet_trust()?.ssh_authorities().to_vec())
    }

    /// Creates a new key, and signs an account token that lists it before the present one. If that was done before, and the rotation is not finished, nothing
    /// changes. The new key replaces the file of the old one last, so an interrupted call can be repeated.
    pub fn start_ssh_authority_rotation(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<RotationStart, OrganisationError> {
        let key = OrganisationKey::SshAuthority;
        let mut account = self.fleet_trust()?.claims().nats.clone();
        if account.ssh_authorities.is_empty() {
            return Err(OrganisationError::NoSshAuthority);
        }
        let is_started = account.ssh_authorities.len() > 1;
        if is_started && self.load_next_key(key)?.is_none() {
            return Ok(RotationStart::Continued);
        }
        let next = self.create_next_key(key)?;
        if !account.ssh_authorities.contains(&next.public_key()) {
            account.ssh_authorities.insert(0, next.public_key());
            self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        }
        self.install_next_key(key, &next)?;
        self.remove_next_key(key)?;
        Ok(RotationStart::Started)
    }

    /// Signs an account token that lists the present key only. Certificates of the old key end. Returns the number of keys that were removed.
    pub fn finish_ssh_authority_rotation(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<usize, OrganisationError> {
        let mut account = self.fleet_trust()?.claims().nats.clone();
        if account.ssh_authorities.is_empty() {
            return Err(OrganisationError::NoSshAuthority);
        }
        let present = self.load_key(OrganisationKey::SshAuthority)?.public_key();
        let before = account.ssh_authorities.len();
        account.ssh_authorities.retain(|listed| *listed == present);
        let removed = before - account.ssh_authorities.len();
        if removed > 0 {
            self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        }
        Ok(removed)
    }

    /// Signs a certificate for a user with valid credentials.
    pub fn sign_ssh_certificate(
        &self,
        certificate: OfflineCertificate,
        now: Millis,
    ) -> Result<IssuedCertificate, OfflineCertificateError> {
        let OfflineCertificate { caller, subject, lifetime, features } = certificate;
        if self.ssh_authorities()?.is_empty() {
            return Err(OfflineCertificateError::NoAuthority);
        }
        let authority = self.load_key(OrganisationKey::SshAuthority)?;
        let (trusts, issued_at) = (self.account_trusts()?, now / 1000);
        let record = self.read_records()?.into_iter().rev().find(|record| {
            let is_callers = record.kind == PrincipalKind::User && record.name == caller;
            is_callers && trusts.credential_state(record, issued_at) == CredentialState::Valid
        });
        let record =
            record.ok_or_else(|| OfflineCertificateError::NoCredentials(caller.clone()))?;
        let wanted = issued_at.saturating_add(lifetime.as_secs());
        let expires = record.expires.map_or(wanted, |end| end.min(wanted));
        let key_id = CertificateKeyId {
            caller,
            key: record.key,
            token_issued_at: record.issued_at,
            request: Uuid::now_v7(),
        };
        let spec = CertificateSpec { subject, key_id, issued_at, expires, features };
        Ok(issue_certificate(&authority, spec)?)
    }
}

#[cfg(test)]
mod tests {
    use muster_sshcert::{SshUserKey, UserCertificate};

    use super::*;
    use crate::CredentialSpec;
    use crate::testing::{NOW, organisation};

    fn certificate(caller: &str, hours: u64) -> OfflineCertificate {
        OfflineCertificate {
            caller: caller.parse().unwrap(),
            subject: SshUserKey::generate("rip").unwrap().subject(),
            lifetime: Duration::from_hours(hours),
            features: GrantedFeatures::default(),
        }
    }

    #[test]
    fn both_authorities_are_trusted_until_the_rotation_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let error = organisation.start_ssh_authority_rotation(&lock, NOW).unwrap_err();
        assert!(matches!(error, OrganisationError::NoSshAuthority));
        assert!(organisation.create_ssh_authority(&lock, NOW).unwrap());
        assert!(!organisation.create_ssh_authority(&lock, NOW).unwrap());
        let first = organisation.ssh_authorities().unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!(organisation.finish_ssh_authority_rotation(&lock, NOW).unwrap(), 0);
        let started = organisation.start_ssh_authority_rotation(&lock, NOW).unwrap();
        assert_eq!(started, RotationStart::Started);
        let again = organisation.start_ssh_authority_rotation(&lock, NOW).unwrap();
        assert_eq!(again, RotationStart::Continued);
        let both = organisation.ssh_authorities().unwrap();
        assert_eq!((both.len(), both[1]), (2, first[0]));
        assert_eq!(organisation.finish_ssh_authority_rotation(&lock, NOW).unwrap(), 1);
        assert_eq!(organisation.ssh_authorities().unwrap(), [both[0]]);
    }

    #[test]
    fn certificate_is_for_a_user_with_valid_credentials_and_ends_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        let none = organisation.sign_ssh_certificate(certificate("rip", 1), NOW).unwrap_err();
        assert!(matches!(none, OfflineCertificateError::NoAuthority));
        organisation.create_ssh_authority(&lock, NOW).unwrap();
        let none = organisation.sign_ssh_certificate(certificate("rip", 1), NOW).unwrap_err();
        assert!(matches!(none, OfflineCertificateError::NoCredentials(_)), "{none}");
        let spec = CredentialSpec {
            kind: PrincipalKind::User,
            name: "rip".parse().unwrap(),
            tags: Vec::new(),
            expires: Some(Duration::from_hours(2)),
            renew: false,
            out: None,
        };
        organisation.issue_credentials(&lock, &spec, NOW).unwrap();
        let authorities = organisation.ssh_authorities().unwrap();
        for (hours, seconds) in [(1, 3600), (8, 7200)] {
            let spec = certificate("rip", hours);
            let issued = organisation.sign_ssh_certificate(spec, NOW).unwrap();
            assert_eq!(issued.expires, NOW / 1000 + seconds);
            let parsed = UserCertificate::parse_line(&issued.text).unwrap();
            parsed.verify(&authorities, NOW / 1000).unwrap();
            assert_eq!(parsed.key_id().caller.as_str(), "rip");
        }
    }
}
