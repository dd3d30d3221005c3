//! Stores node names and token uses in the bucket `PROVISION`: `name.NODE` and `uses.CREDENTIAL`, shared by all hosts of the service.
//!
//! Before a name is assigned for the first time, the fleet is checked too: a node that is registered or connected keeps its name, even if its name
//! was never written to the bucket.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::EmptyInput;
use muster_api::wire::Millis;
use muster_api::wire::enrol::OpenEnrolmentRequest;
use muster_api::wire::identity::Identity;
use muster_api::wire::stores::{PROVISION_BUCKET, TOKENS_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use muster_api::wire::token::{AccountTrust, KeyPair, PublicKey};
use muster_bus::{Bucket, BucketError, Bus, Bytes, NameStore, TokenRenewal, TokenRenewalError};
use muster_calls::{CallTarget, Client, ClientError, RpcCall};
use muster_contract::provisioner::ProvisioningState;
use muster_contract::rpcutil::RpcutilPing;
use muster_wire::enrolment::{EnrolmentApproval, EnrolmentStore, NameClaimOutcome, NameEntry};
use tokio::sync::Mutex;

use crate::store::{NodeRecordError, NodeRecordStore};

/// How long a connected node may take to reply. The broker reports an absent node at once, so only a node that hangs takes this long.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Node names and token uses in the bucket `PROVISION`.
#[derive(Debug)]
pub struct BucketEnrolmentStore {
    bus: Bus,
    /// Bucket in which the organisation publishes the fleet's newest account token.
    account: Bucket,
    /// Renewed tokens of nodes.
    tokens: Bucket,
    /// One client per collective, to check whether a node is connected.
    clients: Vec<Client>,
    /// When this enroller's credentials were issued. Names that the organisation issued before must be in the store.
    enroller_issued_at: Millis,
    names: NameStore,
    /// Serialises updates of token uses: all uses of one credential are in one value, so concurrent updates on this host would conflict.
    count_lock: Mutex<()>,
}

/// Why a name could not be looked up or claimed.
#[derive(Debug, thiserror::Error)]
pub enum BucketEnrolmentError {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error(transparent)]
    Renewal(#[from] TokenRenewalError),
    #[error(transparent)]
    Record(#[from] NodeRecordError),
    /// The fleet could not be queried.
    #[error("cannot determine whether the node {node} is connected: {problem}")]
    Probe { node: Identity, problem: String },
}

impl BucketEnrolmentStore {
    /// Creates the store on a connection to the fleet's account, with one client per collective.
    pub fn new(bus: &Bus, clients: Vec<Client>, enroller_issued_at: Millis) -> Self {
        Self {
            bus: bus.clone(),
            account: bus.bucket(TRUST_BUCKET.name),
            tokens: bus.bucket(TOKENS_BUCKET.name),
            clients,
            enroller_issued_at,
            names: NameStore::new(bus.bucket(PROVISION_BUCKET.name)),
            count_lock: Mutex::new(()),
        }
    }

    /// Renewal reads it.
    pub(crate) async fn store_token(
        &self,
        node: &Identity,
        token: &str,
    ) -> Result<(), BucketError> {
        let token = Bytes::from(token.to_owned());
        match self.tokens.put(node.as_str(), token).await {
            Ok(_) => Ok(()),
            Err(BucketError::Missing { .. }) => {
                tracing::warn!(%node, "cannot store the token of the node for renewal: the broker has no bucket of tokens; run `rpc org push`");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Renews every due node token; returns the nodes.
    pub(crate) async fn renew_due_tokens(
        &self,
        trust: &AccountTrust,
        node_role: &KeyPair,
        now: Millis,
    ) -> Result<Vec<Identity>, BucketEnrolmentError> {
        let renewal = TokenRenewal { names: &self.names, tokens: &self.tokens, trust, node_role };
        Ok(renewal.renew_due(now).await?)
    }

    /// Whether the service has a record of the node that is not retired.
    async fn is_registered(&self, name: &Identity) -> Result<bool, BucketEnrolmentError> {
        let record = NodeRecordStore::open(&self.bus).get(name).await?;
        Ok(record.is_some_and(|record| record.state != ProvisioningState::Retired))
    }
}

impl EnrolmentStore for BucketEnrolmentStore {
    type Error = BucketEnrolmentError;

    async fn fleet_account(&self) -> Result<Option<String>, BucketEnrolmentError> {
        match self.account.get(TRUST_ACCOUNT_KEY).await {
            Ok(entry) => {
                let value = entry.and_then(|entry| entry.value);
                Ok(value.map(|value| String::from_utf8_lossy(&value).trim().to_owned()))
            }
            // An organisation that predates this bucket has only announcements and marks of revoked names.
            Err(BucketError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn find_holder(
        &self,
        name: &Identity,
    ) -> Result<Option<NameEntry>, BucketEnrolmentError> {
        Ok(self.names.get(name).await?)
    }

    async fn claim_name(
        &self,
        entry: &NameEntry,
    ) -> Result<NameClaimOutcome, BucketEnrolmentError> {
        let claim = |current: Option<NameEntry>| NameEntry::apply_claim(current.as_ref(), entry);
        Ok(self.names.edit_entry(&entry.identity, claim).await?)
    }

    async fn count_use(&self, entry: &NameEntry, limit: u32) -> Result<bool, BucketEnrolmentError> {
        let Some(credential) = entry.credential else { return Ok(false) };
        let _guard = self.count_lock.lock().await;
        let new_use = (entry.identity.clone(), entry.key);
        let count = |uses: Option<Vec<(Identity, PublicKey)>>| {
            let mut uses = uses.unwrap_or_default();
            if uses.contains(&new_use) {
                return (None, true);
            }
            if uses.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
                return (None, false);
            }
            uses.push(new_use.clone());
            (Some(uses), true)
        };
        let key = format!("uses.{credential}");
        Ok(self.names.edit_value(&key, count).await?)
    }

    async fn is_name_in_use(
        &self,
        name: &Identity,
        has_entry: bool,
    ) -> Result<bool, BucketEnrolmentError> {
        if !has_entry && self.is_registered(name).await? {
            return Ok(true);
        }
        for client in &self.clients {
            if is_connected(client, name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn check_approval(
        &self,
        _request: &OpenEnrolmentRequest,
    ) -> Result<EnrolmentApproval, BucketEnrolmentError> {
        let issued = self.names.issued_at().await?;
        if issued.is_some_and(|at| at >= self.enroller_issued_at) {
            return Ok(EnrolmentApproval::NotNeeded);
        }
        let message = "the names that the organisation issued are not stored at the broker yet; run `rpc org push` once";
        tracing::warn!("enrolment is suspended: {message}");
        Ok(EnrolmentApproval::Awaited(message.to_owned()))
    }
}

/// Whether a node is subscribed under this name. A node that is subscribed and does not reply counts as connected.
async fn is_connected(client: &Client, node: &Identity) -> Result<bool, BucketEnrolmentError> {
    let to_error = |problem: String| BucketEnrolmentError::Probe { node: node.clone(), problem };
    let target = CallTarget::Nodes(BTreeSet::from([node.clone()]));
    let mut call = RpcCall::of_action::<RpcutilPing>(&EmptyInput {}, target)
        .map_err(|error| to_error(error.to_string()))?;
    call.wait = PROBE_TIMEOUT;
    let result = client.run_call(call, |_| {}).await;
    let stats = result.map_err(|error: ClientError| to_error(error.to_string()))?;
    if stats.response_count() == 0 && stats.incomplete.is_some() {
        return Err(to_error("the connection was interrupted".to_owned()));
    }
    Ok(!stats.absent.contains(node))
}
