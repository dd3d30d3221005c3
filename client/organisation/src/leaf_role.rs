//! The key that signs credentials of leaf nodes (`role-leaf.nk`), and its entry in the fleet's account token. Both are created when the first leaf
//! is added, so an organisation without leafs has no such role.

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use muster_wire::token::claims::{ScopedKey, SigningKeyEntry};
use muster_wire::token::leaf_scope::{LEAF_ROLE, leaf_template};

use crate::create::{broker_urls, require_hosts};
use crate::rotation::role_keys;
use crate::{
    AccountRealm, CredentialRecord, CredentialState, LeafProfile, Organisation, OrganisationError,
    OrganisationKey, OrganisationLock, PrincipalKind,
};

impl Organisation {
    /// Records the host names of a leaf node, for which its certificate is valid.
    pub fn record_leaf(
        &mut self,
        _lock: &OrganisationLock,
        name: &Identity,
        hosts: &[String],
        port: Option<u16>,
    ) -> Result<(), OrganisationError> {
        require_hosts(hosts)?;
        if !self.profile.broker.tls {
            return Err(OrganisationError::PlainText);
        }
        let port = port.map_or(self.profile.broker.port, i32::from);
        let urls = broker_urls(true, hosts, port);
        let leafs = &mut self.profile.broker.leafs;
        leafs.retain(|leaf| leaf.name != *name);
        leafs.push(LeafProfile { name: name.clone(), urls });
        self.write_profile()
    }

    /// The leaf node of this name.
    pub fn find_leaf(&self, name: &Identity) -> Result<&LeafProfile, OrganisationError> {
        let mut leafs = self.profile.broker.leafs.iter();
        let found = leafs.find(|leaf| leaf.name == *name);
        found.ok_or_else(|| OrganisationError::UnknownLeaf(name.clone()))
    }

    /// The leaf nodes with credentials that are not revoked.
    pub fn valid_leafs(&self, now: Millis) -> Result<Vec<LeafProfile>, OrganisationError> {
        let (trusts, records) = (self.account_trusts()?, self.read_records()?);
        let is_valid = |leaf: &&LeafProfile| {
            let of_leaf = |record: &&CredentialRecord| {
                record.kind == PrincipalKind::Leaf && record.name == leaf.name
            };
            let mut states = records
                .iter()
                .filter(of_leaf)
                .map(|record| trusts.credential_state(record, now / 1000));
            states.any(|state| state == CredentialState::Valid)
        };
        Ok(self.profile.broker.leafs.iter().filter(is_valid).cloned().collect())
    }

    /// Adds the role of leaf nodes to the account token, unless it has it. Returns whether it was added; then the broker must get the token.
    pub fn add_leaf_role(
        &self,
        lock: &OrganisationLock,
        now: Millis,
    ) -> Result<bool, OrganisationError> {
        let mut account = self.fleet_trust()?.claims().nats.clone();
        if !role_keys(&account, LEAF_ROLE).is_empty() {
            return Ok(false);
        }
        let pair = self.load_or_create_key(OrganisationKey::Leaf)?;
        account.signing_keys.push(self.leaf_entry(pair.public_key()));
        self.sign_account(lock, AccountRealm::Fleet, account, now)?;
        Ok(true)
    }

    /// The entry of a key that signs leaf nodes.
    pub(crate) fn leaf_entry(&self, key: PublicKey) -> SigningKeyEntry {
        let template = leaf_template(&self.profile().collectives);
        SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(key, LEAF_ROLE, template)))
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::token::leaf_scope::leaf_template;

    use crate::testing::{NOW, organisation};
    use crate::{CredentialSpec, OrganisationKey, PrincipalKind, RotationStart};

    #[test]
    fn leaf_role_is_created_once_and_its_key_rotates() {
        let directory = tempfile::tempdir().unwrap();
        let organisation = organisation(directory.path());
        let lock = organisation.lock().unwrap();
        assert!(organisation.add_leaf_role(&lock, NOW).unwrap());
        assert!(!organisation.add_leaf_role(&lock, NOW).unwrap());
        let spec = CredentialSpec {
            kind: PrincipalKind::Leaf,
            name: "berlin".parse().unwrap(),
            tags: Vec::new(),
            expires: None,
            renew: false,
            out: None,
        };
        let issued = organisation.issue_credentials(&lock, &spec, NOW).unwrap();
        let key = || organisation.load_key(OrganisationKey::Leaf).unwrap().public_key();
        let old = key();
        assert_eq!(issued.creds.claims().iss, old);
        let kind = PrincipalKind::Leaf;
        assert_eq!(organisation.start_rotation(&lock, kind, NOW).unwrap(), RotationStart::Started);
        let trust = organisation.fleet_trust().unwrap();
        let expected = leaf_template(&organisation.profile().collectives);
        for listed in [old, key()] {
            assert_eq!(trust.template_of_key(&listed), Some(&expected));
        }
        assert_eq!(organisation.finish_rotation(&lock, kind, NOW).unwrap(), 1);
        assert!(organisation.fleet_trust().unwrap().template_of_key(&old).is_none());
        assert_eq!(organisation.refresh_scopes(&lock, NOW).unwrap(), []);
    }
}
