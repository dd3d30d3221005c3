//! Names and uses in the store `PROVISION`: `name.NODE` and `uses.CREDENTIAL`, where every host of the service sees them.
//!
//! Before a name is given away for the first time, the fleet is asked too: a node that is registered or connected keeps its name, also
//! where its name was never written to the store.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::wire::Millis;
use muster_api::wire::enrol::{
    EnrolmentApproval, EnrolmentStore, NameClaimOutcome, NameEntry, OpenEnrolmentRequest,
};
use muster_api::wire::identity::Identity;
use muster_api::wire::stores::{PROVISION_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use muster_api::wire::token::{AccountTrust, KeyPair, PublicKey};
use muster_bus::{Bucket, BucketError, Bus, NameStore, TokenRenewal, TokenRenewalError};
use muster_client::{CallTarget, Client, ClientError, RpcCall};
use tokio::sync::Mutex;

use crate::record::ProvisioningState;
use crate::store::{NodeRecordError, NodeRecordStore};

/// How long a connected node has to answer. The broker names an absent one at once, so that only a node that hangs takes so long.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Names and uses in the bucket `PROVISION`.
#[derive(Debug)]
pub struct BucketEnrolmentStore {
    bus: Bus,
    /// Where the organisation keeps the fleet's newest account token.
    account: Bucket,
    /// A caller in each collective, which asks whether a node is connected.
    clients: Vec<Client>,
    /// When this enroller's credentials were issued. Names that the organisation issued before must be in the store.
    enroller_issued_at: Millis,
    names: NameStore,
    /// Uses of one credential are counted in one value: this host does not compete with itself for it.
    counting: Mutex<()>,
}

/// Why a name could not be looked up or claimed.
#[derive(Debug, thiserror::Error)]
pub enum BucketEnrolmentError {
    /// The store.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// Tokens that are due.
    #[error(transparent)]
    Renewal(#[from] TokenRenewalError),
    /// What is kept of the node.
    #[error(transparent)]
    Record(#[from] NodeRecordError),
    /// The fleet could not be asked.
    #[error("whether a node {node} is connected cannot be found out: {problem}")]
    Probe {
        /// The name.
        node: Identity,
        /// What went wrong.
        problem: String,
    },
}

impl BucketEnrolmentStore {
    /// A roll in the fleet's account, to which this is a connection, with a client for each collective.
    pub fn new(bus: &Bus, clients: Vec<Client>, enroller_issued_at: Millis) -> Self {
        Self {
            bus: bus.clone(),
            account: bus.bucket(TRUST_BUCKET.name),
            clients,
            enroller_issued_at,
            names: NameStore::new(bus.bucket(PROVISION_BUCKET.name)),
            counting: Mutex::new(()),
        }
    }

    /// Renews every node's token that is due; returns the nodes.
    pub(crate) async fn renew_due_tokens(
        &self,
        trust: &AccountTrust,
        node_role: &KeyPair,
        now: Millis,
    ) -> Result<Vec<Identity>, BucketEnrolmentError> {
        let renewal = TokenRenewal {
            names: &self.names,
            tokens: &self.account,
            trust,
            node_role,
        };
        Ok(renewal.renew_due(now).await?)
    }

    /// Whether the service knows the node as one that it provisions, or has provisioned.
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
            // An organisation from before this store: announcements and marks of revoked names are what there is.
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
        let claim = |held: Option<NameEntry>| NameEntry::apply_claim(held.as_ref(), entry);
        Ok(self.names.edit_entry(&entry.identity, claim).await?)
    }

    async fn count_use(&self, entry: &NameEntry, limit: u32) -> Result<bool, BucketEnrolmentError> {
        let Some(credential) = entry.credential else {
            return Ok(false);
        };
        let _alone = self.counting.lock().await;
        let use_of = (entry.identity.clone(), entry.key);
        let count = |uses: Option<Vec<(Identity, PublicKey)>>| {
            let mut uses = uses.unwrap_or_default();
            if uses.contains(&use_of) {
                return (None, true);
            }
            if uses.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
                return (None, false);
            }
            uses.push(use_of.clone());
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
        _wish: &OpenEnrolmentRequest,
    ) -> Result<EnrolmentApproval, BucketEnrolmentError> {
        let issued = self.names.issued_at().await?;
        if issued.is_some_and(|at| at >= self.enroller_issued_at) {
            return Ok(EnrolmentApproval::NotNeeded);
        }
        let message = "the enroller does not know yet which names the organisation issued; run `rpc org push` once";
        tracing::warn!("no machine is enrolled: {message}");
        Ok(EnrolmentApproval::Awaited(message.to_owned()))
    }
}

/// Whether a node is subscribed under this name. One that is subscribed and does not answer is connected.
async fn is_connected(client: &Client, node: &Identity) -> Result<bool, BucketEnrolmentError> {
    let failed = |problem: String| BucketEnrolmentError::Probe {
        node: node.clone(),
        problem,
    };
    let aim = CallTarget::Nodes(BTreeSet::from([node.clone()]));
    let mut call =
        RpcCall::new("rpcutil", "ping", aim).map_err(|error| failed(error.to_string()))?;
    call.wait = PROBE_TIMEOUT;
    let asked = client.run_call(call, |_| {}).await;
    let stats = asked.map_err(|error: ClientError| failed(error.to_string()))?;
    if stats.response_count() == 0 && stats.incomplete.is_some() {
        return Err(failed("the connection was disturbed".to_owned()));
    }
    Ok(!stats.absent.contains(node))
}
