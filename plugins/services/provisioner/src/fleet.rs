//! Calls nodes and masters for the steps, and verifies each reply.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::EmptyInput;
use muster_api::base::error_chain;
use muster_api::ddl::{Action, AgentContract};
use muster_api::filter::NodeFilter;
use muster_api::wire::identity::{Identity, NameError};
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_calls::{CallEvent, CallStats, CallTarget, Client, ReceivedReply, RpcCall};
use muster_contract::provision::{ProvisionAgent, ProvisionIsDisabled};
use muster_contract::puppetca::PuppetcaAgent;
use muster_contract::rpcutil::{
    RpcutilGetFacts, RpcutilGetFactsInput, RpcutilRunning, RunningRequestRow,
};
use muster_contract::{read_values, write_values};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use uuid::Uuid;

use crate::masters::PuppetMaster;
use crate::options::Options;
use crate::record::StepError;

/// How long the cached list of masters is valid.
const MASTERS_MAX_AGE: Duration = Duration::from_secs(5);
const SHORT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a node that has not replied yet is asked whether it still executes the call. A node that was killed sends nothing, and the timeout of a
/// run (one hour) is too long to detect that.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct FleetClient {
    client: Client,
    filter: NodeFilter,
    criteria: Vec<String>,
    address_fact: String,
    /// Cached masters, and the time at which their discovery began.
    masters: Mutex<Option<(Instant, Vec<PuppetMaster>)>>,
}

#[derive(Debug, thiserror::Error)]
#[error("`masters` in [plugins.provisioner] is not a valid filter: {text:?}")]
pub struct MasterFilterError {
    text: String,
    #[source]
    source: muster_api::filter::FilterError,
}

impl FleetClient {
    /// Fetches the account's newest token, so that replies of revoked nodes are rejected.
    pub async fn refresh_trust(&self) {
        if let Err(error) = self.client.refresh_trust().await {
            tracing::debug!(error = error_chain(&error), "cannot confirm the account token");
        }
    }

    pub fn new(client: Client, options: &Options) -> Result<Self, MasterFilterError> {
        let words = options.masters.trim();
        let filter = NodeFilter::default().with_agent(PuppetcaAgent::NAME);
        let filter = if words.is_empty() {
            filter
        } else {
            filter.and_then(|filter| filter.with_words(words))
        };
        let filter =
            filter.map_err(|source| MasterFilterError { text: words.to_owned(), source })?;
        Ok(Self {
            client,
            filter,
            criteria: options.criteria.clone(),
            address_fact: options.address_fact.clone(),
            masters: Mutex::new(None),
        })
    }

    /// Calls an action of a node. Outputs that cannot be read have their defaults.
    pub async fn call_action<A: Action<Output: Default>>(
        &self,
        node: &Identity,
        input: &A::Input,
        timeout: Duration,
    ) -> Result<A::Output, StepError> {
        self.call_with_inputs::<A>(node, write_values(input), timeout).await
    }

    /// Calls an action whose inputs the plan of the operator may have extended.
    pub async fn call_with_inputs<A: Action<Output: Default>>(
        &self,
        node: &Identity,
        data: Map<String, Value>,
        timeout: Duration,
    ) -> Result<A::Output, StepError> {
        let answer = self.call_node(node, A::Agent::NAME, A::NAME, data, timeout).await?;
        Ok(read_values(&answer).unwrap_or_default())
    }

    /// Fails with a transient error if the node has restarted and no longer executes the call.
    pub async fn call_node(
        &self,
        node: &Identity,
        agent: &str,
        action: &str,
        data: Map<String, Value>,
        timeout: Duration,
    ) -> Result<Map<String, Value>, StepError> {
        let target = CallTarget::Nodes(BTreeSet::from([node.clone()]));
        let mut call = RpcCall::new(agent, action, target)?;
        call.data = data;
        call.timeout = Some(timeout);
        call.wait = timeout + SHORT_CALL_TIMEOUT;
        let operation = format!("{agent}.{action}");
        let mut events = self.client.call(call);
        let mut checks =
            interval_at(Instant::now() + PROGRESS_CHECK_INTERVAL, PROGRESS_CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut request_id, mut was_unknown) = (None, false);
        loop {
            tokio::select! {
                // Polls the call first, so that a reply that has arrived takes precedence over the check.
                biased;
                event = events.next() => match event {
                    Some(CallEvent::Published { request, .. }) => request_id = Some(request),
                    Some(CallEvent::Reply(answer)) => return step_result(&answer),
                    Some(CallEvent::Finished(stats)) => return Err(no_reply_error(node, &operation, timeout, &stats)),
                    Some(CallEvent::Failed(error)) => return Err(StepError::transient(format!("{operation}: {error}"))),
                    Some(_) => {}
                    None => return Err(StepError::transient(format!("{operation}: the call ended without a result"))),
                },
                _ = checks.tick() => {
                    // Skip the check while the request is not sent yet.
                    let Some(request_id) = request_id else { continue };
                    let unknown = self.is_working_on(node, request_id).await == Some(false);
                    // Two checks in a row: a reply that was on its way at the first check has arrived by the second.
                    if unknown && was_unknown {
                        return Err(StepError::transient(format!("{node} restarted and no longer executes {operation}")));
                    }
                    was_unknown = unknown;
                }
            }
        }
    }

    /// Whether the node reports that it executes this request; `None` without a reply.
    async fn is_working_on(&self, node: &Identity, request_id: Uuid) -> Option<bool> {
        let target = CallTarget::Nodes(BTreeSet::from([node.clone()]));
        let mut call = RpcCall::of_action::<RpcutilRunning>(&EmptyInput {}, target).ok()?;
        call.wait = PROGRESS_CHECK_INTERVAL;
        let (mut is_active, request_id) = (None, request_id.to_string());
        let call = self.client.run_call(call, |answer| {
            let running = answer.read_outputs::<RpcutilRunning>().ok();
            let is_same_request = |request: &RunningRequestRow| request.id == request_id;
            is_active = running.map(|running| running.requests.iter().any(is_same_request));
        });
        call.await.ok()?;
        is_active
    }

    /// Facts of a node by which its master is chosen.
    pub async fn node_facts(&self, node: &Identity) -> Result<Map<String, Value>, StepError> {
        if self.criteria.is_empty() {
            return Ok(Map::new());
        }
        let input = RpcutilGetFactsInput { facts: self.join_facts(&[]) };
        let output = self.call_action::<RpcutilGetFacts>(node, &input, SHORT_CALL_TIMEOUT).await?;
        Ok(output.values)
    }

    /// Masters from the cache, at most `MASTERS_MAX_AGE` old.
    pub async fn recent_masters(&self) -> Result<Vec<PuppetMaster>, StepError> {
        self.masters_within(MASTERS_MAX_AGE).await
    }

    /// The current masters, from a discovery that began after this call. Concurrent callers share the next discovery, so that a thousand nodes do not
    /// cause a thousand discoveries.
    pub async fn current_masters(&self) -> Result<Vec<PuppetMaster>, StepError> {
        self.masters_within(Duration::ZERO).await
    }

    async fn masters_within(&self, age: Duration) -> Result<Vec<PuppetMaster>, StepError> {
        let requested_at = Instant::now();
        // The mutex is held during the discovery, so that concurrent callers wait for its result instead of starting their own.
        let mut cache = self.masters.lock().await;
        if let Some((started, masters)) = &*cache
            && requested_at <= *started + age
            && !masters.is_empty()
        {
            return Ok(masters.clone());
        }
        let started = Instant::now();
        let masters = self.find_masters().await?;
        *cache = Some((started, masters.clone()));
        Ok(masters)
    }

    async fn find_masters(&self) -> Result<Vec<PuppetMaster>, StepError> {
        let to_step_error = |error: muster_calls::ClientError| {
            StepError::transient(format!("cannot query the masters: {error}"))
        };
        let found = self.client.discover_nodes(&self.filter).await.map_err(to_step_error)?;
        if found.nodes.is_empty() {
            return Err(StepError::transient(
                "no master was found: no node has the agent `puppetca` and matches the configured filter",
            ));
        }
        let facts = self.join_facts(&[&self.address_fact]);
        let target = CallTarget::Nodes(found.nodes);
        let call = RpcCall::of_action::<RpcutilGetFacts>(&RpcutilGetFactsInput { facts }, target)?;
        let mut masters = Vec::new();
        let stats = self
            .client
            .run_call(call, |answer| {
                let mut facts = answer.read_outputs::<RpcutilGetFacts>().unwrap_or_default().values;
                let address = facts.remove(&self.address_fact).unwrap_or_default();
                if answer.is_ok() {
                    masters.push(PuppetMaster {
                        identity: answer.reply.sender.clone(),
                        address: address.as_str().unwrap_or_default().to_owned(),
                        facts,
                    });
                }
            })
            .await
            .map_err(to_step_error)?;
        // A discovered master that does not reply may hold a certificate that must be revoked, so nothing is done without it.
        if stats.failed > 0 || !stats.missing.is_empty() {
            return Err(StepError::transient("a master did not return its facts"));
        }
        masters.sort_by(|one, other| one.identity.cmp(&other.identity));
        Ok(masters)
    }

    /// Nodes that report that they can be provisioned.
    pub async fn find_candidates(&self) -> Result<Vec<Identity>, StepError> {
        let filter = NodeFilter::default()
            .with_agent(ProvisionAgent::NAME)
            .map_err(|error| StepError::permanent(error.to_string()))?;
        let to_step_error =
            |error: muster_calls::ClientError| StepError::transient(error.to_string());
        let found = self.client.discover_nodes(&filter).await.map_err(to_step_error)?;
        if found.nodes.is_empty() {
            return Ok(Vec::new());
        }
        let target = CallTarget::Nodes(found.nodes);
        let call = RpcCall::of_action::<ProvisionIsDisabled>(&EmptyInput {}, target)?;
        let mut nodes = Vec::new();
        self.client
            .run_call(call, |answer| {
                let output = answer.read_outputs::<ProvisionIsDisabled>();
                if answer.is_ok() && output.is_ok_and(|output| !output.disabled) {
                    nodes.push(answer.reply.sender.clone());
                }
            })
            .await
            .map_err(to_step_error)?;
        Ok(nodes)
    }

    pub async fn close(&self) {
        if let Err(error) = self.client.close().await {
            tracing::debug!(%error, "cannot close the broker connection cleanly");
        }
    }

    /// The facts by which masters are chosen, and `additional`.
    fn join_facts(&self, additional: &[&str]) -> String {
        let criteria = self.criteria.iter().map(String::as_str);
        criteria.chain(additional.iter().copied()).collect::<Vec<_>>().join(",")
    }
}

/// The operator's plan has an agent or action whose name is not valid.
impl From<NameError> for StepError {
    fn from(error: NameError) -> Self {
        Self::permanent(error.to_string())
    }
}

fn no_reply_error(
    node: &Identity,
    operation: &str,
    timeout: Duration,
    stats: &CallStats,
) -> StepError {
    StepError::transient(if stats.absent.contains(node) {
        format!("{node} is not connected")
    } else {
        let timeout = timeout.as_secs();
        format!("{node} did not reply to {operation} within {timeout} s")
    })
}

fn step_result(answer: &ReceivedReply) -> Result<Map<String, Value>, StepError> {
    let reply = &answer.reply;
    if answer.is_ok() {
        return Ok(reply.data.clone());
    }
    let message =
        format!("{}.{} on {}: {}", reply.agent, reply.action, reply.sender, reply.statusmsg.raw());
    let is_final = match (&reply.reason, reply.statuscode) {
        (Some(ReplyReason::Denied { .. }), _) => true,
        (Some(_), _) => false,
        (None, status) => matches!(
            status,
            ReplyStatus::UnknownAction | ReplyStatus::MissingData | ReplyStatus::InvalidData
        ),
    };
    Err(if is_final { StepError::permanent(message) } else { StepError::transient(message) })
}
