//! Enrolment of bootstrapping nodes: receives requests in their separate account, and decides by the rules of [`muster_api::wire::enrol`]. An
//! enrolled node is provisioned like any other. Names and token uses are stored by [`crate::enrolment_store`].

use std::time::{Duration, Instant};

use muster_api::LogThrottle;
use muster_api::base::error_chain;
use muster_api::wire::enrol::EnrolmentOutcome;
use muster_api::wire::identity::Identity;
use muster_api::wire::limits::MAX_NODE_TOKEN_SECONDS;
use muster_api::wire::stores::PROVISION_BUCKET;
use muster_api::wire::subject::{self, AnswerAddress};
use muster_base::unix_millis_now;
use muster_bus::{BucketError, Bus, BusSubscription, Bytes};
use muster_contract::provisioner::ProvisioningState;
use muster_wire::enrolment::{EnrolmentStore as _, HandledEnrolment, NodeEnroller};
use uuid::Uuid;

use crate::enrolment_store::{BucketEnrolmentError, BucketEnrolmentStore};
use crate::record::NodeRecord;
use crate::store::{NodeRecordError, NodeRecordStore};

/// How many times per token lifetime the tokens that are due are searched.
const CHECKS_PER_LIFETIME: u64 = 100;
/// Shortest and longest interval between two searches.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(1);
const MAX_CHECK_INTERVAL: Duration = Duration::from_hours(6);

/// Interval between log lines about requests that fail verification.
const UNVERIFIED_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Serves enrolment requests on one connection.
#[derive(Debug)]
pub struct EnrolmentService {
    bus: Bus,
    enroller: NodeEnroller<BucketEnrolmentStore>,
    /// Limits log lines about unverified requests: anyone with a bootstrap token can cause them.
    unverified_log: LogThrottle,
}

impl EnrolmentService {
    /// Creates the service on a connection to the bootstrap account.
    pub fn new(bus: Bus, enroller: NodeEnroller<BucketEnrolmentStore>) -> Self {
        Self { bus, enroller, unverified_log: LogThrottle::new(UNVERIFIED_LOG_INTERVAL) }
    }

    /// Serves requests one at a time, until the connection is closed.
    pub(crate) async fn serve_requests(
        &self,
        store: &NodeRecordStore,
    ) -> Result<(), NodeRecordError> {
        let failed = |error: muster_bus::BusError| BucketError::Failed {
            operation: "subscribe to enrolment requests",
            bucket: PROVISION_BUCKET.name.to_owned(),
            problem: error.to_string(),
        };
        let subjects =
            [subject::ENROLMENT_SUBJECT.to_owned(), subject::NEWCOMERS_TRUST_SUBJECT.to_owned()];
        let subscriptions = self.bus.subscribe_all(&subjects).await.map_err(failed)?;
        let Ok::<[BusSubscription; 2], _>([mut requests, mut announcements]) =
            subscriptions.try_into()
        else {
            return Ok(());
        };
        loop {
            tokio::select! {
                message = requests.next() => match message {
                    Some(message) => self.answer_request(&message, store).await?,
                    None => return Ok(()),
                },
                announcement = announcements.next() => match announcement {
                    Some(message) => self.update_account_token(message.payload()),
                    None => return Ok(()),
                },
            }
        }
    }

    async fn answer_request(
        &self,
        message: &muster_bus::BusMessage,
        store: &NodeRecordStore,
    ) -> Result<(), NodeRecordError> {
        let Some(reply_to) = message.reply_to() else { return Ok(()) };
        let (request, outcome, bytes) = match self
            .enroller
            .handle_message(message.payload(), unix_millis_now())
            .await
        {
            Ok(HandledEnrolment::Answered { request, outcome, bytes }) => (request, outcome, bytes),
            Ok(HandledEnrolment::Ignored(error)) => {
                if let Some(suppressed) = self.unverified_log.admit(Instant::now()) {
                    tracing::warn!(%error, untold = suppressed, "ignored an invalid enrolment request");
                }
                return Ok(());
            }
            Err(error) => {
                tracing::error!(%error, "cannot handle an enrolment request");
                return Ok(());
            }
        };
        let node = &request.request.identity;
        match &outcome {
            EnrolmentOutcome::Welcome(accepted) => {
                tracing::info!(%node, key = %request.request.key, "enrolled");
                // Renewal starts from the token that is stored here. A failure is an error, so that the machine asks again.
                if self.enroller.token_lifetime().is_some() {
                    let enrolment_store = self.enroller.enrolment_store();
                    enrolment_store.store_token(node, &accepted.token).await?;
                }
                // Write the record before the reply: an enrolled node must not be lost if this process dies.
                begin_provisioning(store, node).await?;
            }
            EnrolmentOutcome::Wait(wait) => {
                tracing::info!(%node, reason = wait.message, "enrolment postponed");
            }
            EnrolmentOutcome::Refused(refused) => {
                tracing::warn!(%node, reason = refused.message, "enrolment refused");
            }
        }
        // The reply subject is not signed: only the address of the bootstrap token that signed the request is accepted.
        let key = request.request.credential.to_string();
        let Some(address) = AnswerAddress::from_reply_subject(reply_to, &key) else {
            return Ok(());
        };
        let answer = address.of_node(self.enroller.identity());
        if let Err(error) = self.bus.publish(&answer, Bytes::from(bytes)).await {
            tracing::warn!(%node, %error, "cannot send the enrolment reply; the machine will retry");
        }
        Ok(())
    }

    /// Renews due node tokens periodically.
    pub(crate) async fn renew_tokens(&self) -> std::convert::Infallible {
        let lifetime = self.enroller.token_lifetime().unwrap_or(MAX_NODE_TOKEN_SECONDS);
        let interval = Duration::from_secs(lifetime / CHECKS_PER_LIFETIME)
            .clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
        let enrolment_store = self.enroller.enrolment_store();
        loop {
            match self.renew_due_tokens(enrolment_store).await {
                Ok(nodes) if nodes.is_empty() => {}
                Ok(nodes) => tracing::info!(nodes = nodes.len(), "renewed node tokens"),
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "cannot renew the tokens of nodes");
                }
            }
            tokio::time::sleep(interval).await;
        }
    }

    async fn renew_due_tokens(
        &self,
        enrolment_store: &BucketEnrolmentStore,
    ) -> Result<Vec<Identity>, BucketEnrolmentError> {
        if let Some(account) = enrolment_store.fleet_account().await? {
            // `update_fleet` ignores a token that is not newer or is not signed by the operator.
            let _ = self.enroller.update_fleet(&account);
        }
        let trust = self.enroller.fleet_trust();
        enrolment_store.renew_due_tokens(&trust, self.enroller.node_role(), unix_millis_now()).await
    }

    fn update_account_token(&self, token: &[u8]) {
        let Ok(token) = std::str::from_utf8(token) else { return };
        match self.enroller.update_newcomers(token) {
            Ok(()) => tracing::info!("updated the token of the bootstrap account"),
            Err(error) => tracing::warn!(%error, "ignored an announced account token"),
        }
    }
}

/// Starts provisioning of a node, unless it is in progress. A retired node starts from the beginning.
async fn begin_provisioning(
    store: &NodeRecordStore,
    node: &Identity,
) -> Result<(), NodeRecordError> {
    let record = NodeRecord::new(node.clone(), Uuid::now_v7(), unix_millis_now());
    if store.create_record(&record).await? {
        return Ok(());
    }
    store.restart_record(node, |record| record.state == ProvisioningState::Retired).await
}
