//! The state of a machine's enrolment in the state directory: its proposed identity, then its confirmed one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_files::SecretOwner;
use muster_system::StateDir;
use muster_wire::enrol::EnrolmentAcceptance;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::claims::{TokenClaims, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{KeyKind, KeyPair, UserCredentials};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::NodeEnrolmentError;
use crate::config::RENEWED_TOKEN_FILE;
use crate::ground::clock::WallClock;

/// The proposed identity with its key. Secret.
const PROPOSAL_FILE: &str = "newcomer.json";
/// The credentials. Secret. Written last.
const CREDENTIALS_FILE: &str = "node.creds";
const ENROLMENT_FILE: &str = "enrolled.json";
const ACCOUNT_FILE: &str = "account.jwt";
/// The marker of a node that is being provisioned. The provisioner removes it.
const PROVISIONING_MARKER: &str = "provisioning";
/// The marker of a node whose provisioning has ended.
const DISABLED_MARKER: &str = "provision.disabled";

const MAX_FILE_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone)]
pub struct IdentityStore {
    directory: PathBuf,
}

pub(super) struct ProposedIdentity {
    pub(super) identity: Identity,
    pub(super) key: KeyPair,
}

#[derive(Deserialize)]
struct StoredIdentity {
    identity: Identity,
    seed: String,
}

#[derive(Serialize)]
struct StoredIdentityRef<'a> {
    identity: &'a Identity,
    seed: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentDetails {
    pub identity: Identity,
    /// Its collectives, unless its configuration sets others.
    pub collectives: Vec<SubjectName>,
    /// The broker URLs of the fleet; if empty, the configured ones apply.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Facts from its bootstrap token.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl IdentityStore {
    /// Opens the store in this directory, creating it if needed.
    pub(super) fn open(state: &Path) -> Result<Self, NodeEnrolmentError> {
        StateDir::open(state)?;
        Ok(Self::in_directory(state))
    }

    /// The store in this directory, which need not exist.
    pub fn in_directory(state: &Path) -> Self {
        Self { directory: state.to_owned() }
    }

    /// The path of the credentials, which need not exist.
    pub fn credentials_path(&self) -> PathBuf {
        self.directory.join(CREDENTIALS_FILE)
    }

    pub fn account_path(&self) -> PathBuf {
        self.directory.join(ACCOUNT_FILE)
    }

    /// Whether the machine has credentials that have not expired. An unreadable or invalid file counts as credentials; its reader reports the error.
    pub fn has_credentials(&self) -> bool {
        let path = self.credentials_path();
        let Ok(text) =
            muster_files::read_secret(&path, SecretOwner::Daemon, UserCredentials::MAX_FILE_BYTES)
        else {
            return path.exists();
        };
        !UserCredentials::parse(&text).is_ok_and(|creds| self.are_credentials_expired(&creds))
    }

    /// Whether the credentials' token has expired, and also the renewed one, if there is one.
    fn are_credentials_expired(&self, creds: &UserCredentials) -> bool {
        let now = WallClock::system().now();
        let has_expired = |claims: &TokenClaims<UserClaims>| {
            TokenLife::of_claims(claims).is_some_and(|life| life.has_expired(now))
        };
        let read_renewed =
            |state: StateDir| state.read_file(RENEWED_TOKEN_FILE, MAX_FILE_BYTES).ok()?;
        let renewed = self.open_state().ok().and_then(read_renewed).unwrap_or_default();
        let renewed = String::from_utf8_lossy(&renewed);
        let has_renewed = decode_token::<UserClaims>(renewed.trim()).is_ok_and(|token| {
            let claims = token.unverified_claims();
            claims.sub == creds.key_pair().public_key() && !has_expired(claims)
        });
        has_expired(creds.claims()) && !has_renewed
    }

    /// Whether provisioning must finish before the node offers all agents.
    pub fn is_provisioning(&self) -> bool {
        self.directory.join(PROVISIONING_MARKER).exists()
            && !self.directory.join(DISABLED_MARKER).exists()
    }

    pub fn read_enrolment(&self) -> Result<EnrolmentDetails, NodeEnrolmentError> {
        let path = self.directory.join(ENROLMENT_FILE);
        let bytes = self.open_state()?.read_file(ENROLMENT_FILE, MAX_FILE_BYTES)?;
        serde_json::from_slice(&bytes.unwrap_or_default()).map_err(damaged_error(&path))
    }

    /// The stored proposal, otherwise this identity with a new key. It is on disk when this returns. A configured name replaces a detected one.
    pub(super) fn load_or_propose(
        &self,
        configured: Option<&Identity>,
        detected: &Identity,
    ) -> Result<ProposedIdentity, NodeEnrolmentError> {
        let path = self.directory.join(PROPOSAL_FILE);
        let text = match muster_files::read_secret(&path, SecretOwner::Daemon, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.is_missing() => {
                let proposal = ProposedIdentity {
                    identity: configured.unwrap_or(detected).clone(),
                    key: KeyPair::generate(KeyKind::User)?,
                };
                self.save_proposal(&proposal)?;
                return Ok(proposal);
            }
            Err(error) => return Err(error.into()),
        };
        let stored: StoredIdentity = serde_json::from_str(&text).map_err(damaged_error(&path))?;
        let seed = Zeroizing::new(stored.seed);
        let key = KeyPair::from_seed(&seed).map_err(damaged_error(&path))?;
        let proposal =
            ProposedIdentity { identity: configured.unwrap_or(&stored.identity).clone(), key };
        if proposal.identity != stored.identity {
            self.save_proposal(&proposal)?;
        }
        Ok(proposal)
    }

    /// Stores another name for the same key, because the bootstrap token does not allow the first.
    pub(super) fn rename_proposal(
        &self,
        proposal: &ProposedIdentity,
        identity: Identity,
    ) -> Result<ProposedIdentity, NodeEnrolmentError> {
        let renamed = ProposedIdentity { identity, key: proposal.key.clone() };
        self.save_proposal(&renamed)?;
        Ok(renamed)
    }

    fn save_proposal(&self, proposal: &ProposedIdentity) -> Result<(), NodeEnrolmentError> {
        let seed = proposal.key.seed_text();
        let stored = StoredIdentityRef { identity: &proposal.identity, seed: &seed };
        let path = self.directory.join(PROPOSAL_FILE);
        let bytes = Zeroizing::new(serde_json::to_vec(&stored).map_err(damaged_error(&path))?);
        Ok(self.open_state()?.replace_file(PROPOSAL_FILE, &bytes)?)
    }

    /// The credentials are written last: without them the machine requests enrolment again, and gets the same response.
    pub(super) fn store_enrolment(
        &self,
        proposal: &ProposedIdentity,
        acceptance: &EnrolmentAcceptance,
    ) -> Result<(), NodeEnrolmentError> {
        let state = self.open_state()?;
        let details = EnrolmentDetails {
            identity: acceptance.identity.clone(),
            collectives: acceptance.collectives.clone(),
            urls: acceptance.urls.clone(),
            facts: acceptance.facts.clone(),
        };
        let path = self.credentials_path();
        let details = serde_json::to_vec_pretty(&details).map_err(damaged_error(&path))?;
        let creds = UserCredentials::new(&acceptance.token, proposal.key.clone())?;
        state.replace_file(ACCOUNT_FILE, acceptance.account.as_bytes())?;
        state.replace_file(ENROLMENT_FILE, &details)?;
        if acceptance.provisioning && !state.contains(DISABLED_MARKER) {
            state.replace_file(PROVISIONING_MARKER, b"")?;
        }
        Ok(state.replace_file(CREDENTIALS_FILE, creds.to_text().as_bytes())?)
    }

    fn open_state(&self) -> Result<StateDir, NodeEnrolmentError> {
        Ok(StateDir::open(&self.directory)?)
    }
}

fn damaged_error<E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
) -> impl Fn(E) -> NodeEnrolmentError {
    move |source| NodeEnrolmentError::Damaged { path: path.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use muster_wire::enrol::EnrolmentAcceptance;
    use muster_wire::enrolment::issue_node_token;
    use muster_wire::token::{KeyKind, KeyPair};

    use super::{EnrolmentDetails, IdentityStore};

    fn welcome(home: &IdentityStore) -> (super::ProposedIdentity, EnrolmentAcceptance) {
        let wish = home.load_or_propose(None, &"web1".parse().unwrap()).unwrap();
        let [account, role] = [1, 2].map(|seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]));
        let token = issue_node_token(
            &wish.identity,
            wish.key.public_key(),
            account.public_key(),
            None,
            &role,
            1_800_000_000_000,
        );
        let welcome = EnrolmentAcceptance {
            identity: wish.identity.clone(),
            token: token.unwrap(),
            account: "an account's token".to_owned(),
            collectives: vec!["muster".parse().unwrap()],
            urls: Vec::new(),
            facts: [("role".to_owned(), "web".to_owned())].into(),
            provisioning: true,
        };
        (wish, welcome)
    }

    #[test]
    fn name_and_key_persist_and_the_configuration_can_rename() {
        let scratch = tempfile::tempdir().unwrap();
        let home = IdentityStore::open(&scratch.path().join("state")).unwrap();
        let first = home.load_or_propose(None, &"web1".parse().unwrap()).unwrap();
        let again = home.load_or_propose(None, &"web2".parse().unwrap()).unwrap();
        assert_eq!(again.identity.as_str(), "web1");
        assert_eq!(again.key.public_key(), first.key.public_key());
        let named = "db1".parse().unwrap();
        let renamed = home.load_or_propose(Some(&named), &"web2".parse().unwrap()).unwrap();
        assert_eq!(renamed.identity, named);
        assert_eq!(renamed.key.public_key(), first.key.public_key());
        let kept = home.load_or_propose(None, &"web2".parse().unwrap()).unwrap();
        assert_eq!(kept.identity, named);
        let path = scratch.path().join("state/newcomer.json");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "{").unwrap();
        let damaged = home.load_or_propose(None, &named).err().unwrap().to_string();
        assert!(damaged.contains("newcomer.json is damaged"), "{damaged}");
    }

    #[test]
    fn enrolment_stores_credentials_and_the_provisioning_marker() {
        let scratch = tempfile::tempdir().unwrap();
        let home = IdentityStore::open(scratch.path()).unwrap();
        assert!(!home.has_credentials() && !home.is_provisioning());
        let (wish, welcome) = welcome(&home);
        home.store_enrolment(&wish, &welcome).unwrap();
        assert!(home.has_credentials() && home.is_provisioning());
        let EnrolmentDetails { identity, facts, .. } = home.read_enrolment().unwrap();
        assert_eq!(identity, wish.identity);
        assert_eq!(facts["role"], "web");
        std::fs::remove_file(scratch.path().join("provisioning")).unwrap();
        assert!(!home.is_provisioning());

        // A machine that was already provisioned stays provisioned, even if its credentials were lost.
        std::fs::write(scratch.path().join("provision.disabled"), "").unwrap();
        home.store_enrolment(&wish, &welcome).unwrap();
        assert!(!home.is_provisioning());
        std::fs::remove_file(scratch.path().join("provision.disabled")).unwrap();
        assert!(!home.is_provisioning());
    }
}
