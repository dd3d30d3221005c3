//! Executes one step for one node and returns the values that it found. Every step is idempotent.

use std::sync::Arc;
use std::time::Duration;

use muster_api::EmptyInput;
use muster_api::ddl::Action;
use muster_api::system::System;
use muster_api::wire::identity::Identity;
use muster_contract::provision::{
    FencedStepInput, ProvisionBootstrapPuppet, ProvisionDaemonizePuppet, ProvisionIsDisabled,
    ProvisionLock, ProvisionLockInput, ProvisionRelease, ProvisionRequestCertificate,
    ProvisionRunPuppet, ProvisionSetPuppetHost, ProvisionUnlock, ProvisionUnlockInput,
    RequestCertificateOutput, RunPuppetOutput,
};
use muster_contract::puppetca::{CertChangeInput, PuppetcaClean, PuppetcaSign, PuppetcaSignInput};
use muster_contract::write_values;
use serde_json::{Map, Value, json};

use crate::fleet::FleetClient;
use crate::helper;
use crate::masters::{MasterPlacement, PuppetMaster, choose_master};
use crate::options::{AgentStep, Options, StepTarget};
use crate::plan::{BuiltinStep, PlanStep, StepKind};
use crate::record::{NodeRecord, StepError};

const SHORT_CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of Puppet's certificate request.
const CSR_TIMEOUT: Duration = Duration::from_mins(6);
const RUN_TIMEOUT: Duration = Duration::from_hours(1);
/// Lease of the node's lock, in seconds; no run lasts longer.
const NODE_LEASE_SECONDS: u64 = 3600;

type StepValues = Map<String, Value>;

/// A step of the agent `provision` on a node.
struct NodeStep<'a> {
    fleet: &'a FleetClient,
    node: &'a Identity,
    /// The inputs that the operator added.
    inputs: &'a StepValues,
    fence: u64,
    timeout: Option<Duration>,
}

impl NodeStep<'_> {
    async fn call<A: Action<Output: Default>>(
        &self,
        mut data: StepValues,
        default_timeout: Duration,
    ) -> Result<A::Output, StepError> {
        data.extend(self.inputs.clone());
        data.insert("fence".to_owned(), self.fence.into());
        let timeout = self.timeout.unwrap_or(default_timeout);
        self.fleet.call_with_inputs::<A>(self.node, data, timeout).await
    }
}

/// Dependencies of the steps.
#[derive(Debug, Clone)]
pub struct StepWorker {
    pub(crate) fleet: Arc<FleetClient>,
    pub(crate) options: Arc<Options>,
    pub(crate) system: Arc<dyn System>,
}

impl StepWorker {
    /// Executes a step; `fence` is larger than that of every earlier holder of the node.
    pub async fn execute_step(
        &self,
        step: &PlanStep,
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        match &step.work {
            StepKind::Builtin(builtin, inputs) => {
                self.execute_builtin(*builtin, inputs, step.timeout, record, fence).await
            }
            StepKind::Agent(agent) => {
                let answer = self.call_agent(agent, record).await?;
                Ok(single_value(step.name.as_str(), Value::Object(answer)))
            }
            StepKind::Configure(settings, helper) => {
                let settings = self.node_settings(settings, helper.as_ref(), record).await?;
                let timeout = step.timeout.unwrap_or(SHORT_CALL_TIMEOUT);
                self.configure_node(&record.identity, settings, fence, timeout).await
            }
            StepKind::Helper(program) => {
                let answer = helper::run_helper(Arc::clone(&self.system), program, record).await?;
                Ok(single_value(step.name.as_str(), Value::Object(answer)))
            }
        }
    }

    async fn execute_builtin(
        &self,
        builtin: BuiltinStep,
        inputs: &StepValues,
        timeout: Option<Duration>,
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        let node = &record.identity;
        let step = NodeStep { fleet: &self.fleet, node, inputs, fence, timeout };
        match builtin {
            BuiltinStep::Lock => self.lock_node(record, fence).await,
            BuiltinStep::Place => self.place_node(node).await,
            BuiltinStep::Host => {
                let data =
                    write_values(&json!({ "ipaddress": required_value(record, "address")? }));
                step.call::<ProvisionSetPuppetHost>(data, SHORT_CALL_TIMEOUT).await.map(no_values)
            }
            BuiltinStep::Clean => {
                let serials = self.clean_certificates(node).await?;
                Ok(single_value("revoked", serials))
            }
            BuiltinStep::Csr => {
                let data = write_values(&json!({ "fresh": true }));
                let request = step.call::<ProvisionRequestCertificate>(data, CSR_TIMEOUT).await?;
                request_values(node, &request)
            }
            BuiltinStep::Sign => self.sign_certificate(record, inputs).await,
            BuiltinStep::Bootstrap => {
                let run = step.call::<ProvisionBootstrapPuppet>(Map::new(), RUN_TIMEOUT).await?;
                Ok(single_value("bootstrap", run_summary(&run)))
            }
            BuiltinStep::Final => {
                let run = step.call::<ProvisionRunPuppet>(Map::new(), RUN_TIMEOUT).await?;
                Ok(single_value("final_run", run_summary(&run)))
            }
            BuiltinStep::Daemonize => {
                let started = step.call::<ProvisionDaemonizePuppet>(Map::new(), CSR_TIMEOUT);
                started.await.map(no_values)
            }
            BuiltinStep::Release => {
                let released = step.call::<ProvisionRelease>(Map::new(), SHORT_CALL_TIMEOUT);
                released.await.map(no_values)
            }
            // The plan has a kind of its own for the first; the workflow sends the second, because the delivery states are part of the record.
            BuiltinStep::Configure | BuiltinStep::Notify => Ok(Map::new()),
        }
    }

    /// Locks the node; a holder with a smaller fence can no longer change it.
    pub async fn lock_node(
        &self,
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        let input = ProvisionLockInput {
            owner: format!("provisioner/{}", record.id),
            lease: NODE_LEASE_SECONDS,
            fence: Some(fence),
        };
        let node = &record.identity;
        let locked = self.fleet.call_action::<ProvisionLock>(node, &input, SHORT_CALL_TIMEOUT);
        locked.await.map(no_values)
    }

    /// Unlocks the node regardless of the holder. A failure is not an error, because the node may be gone.
    pub async fn unlock_node(&self, node: &Identity) {
        let input = ProvisionUnlockInput { fence: None, force: true };
        let unlocked = self.fleet.call_action::<ProvisionUnlock>(node, &input, SHORT_CALL_TIMEOUT);
        if let Err(error) = unlocked.await {
            tracing::warn!(%node, %error, "cannot unlock the node; its lock will expire");
        }
    }

    pub(crate) async fn is_provisioning_ended(&self, node: &Identity) -> Result<bool, StepError> {
        let input = EmptyInput {};
        let state = self.fleet.call_action::<ProvisionIsDisabled>(node, &input, SHORT_CALL_TIMEOUT);
        Ok(state.await?.disabled)
    }

    /// Ends provisioning of a node that nobody has locked.
    pub(crate) async fn release_without_lock(
        &self,
        node: &Identity,
    ) -> Result<StepValues, StepError> {
        let input = FencedStepInput::default();
        let released = self.fleet.call_action::<ProvisionRelease>(node, &input, SHORT_CALL_TIMEOUT);
        released.await.map(no_values)
    }

    async fn place_node(&self, node: &Identity) -> Result<StepValues, StepError> {
        let (masters, facts) =
            tokio::try_join!(self.fleet.recent_masters(), self.fleet.node_facts(node))?;
        let cached = self.nearest_master(node, &facts, &masters);
        if let Some(placement) = cached.filter(|placement| placement.criterion.is_some()) {
            return self.placement_values(&placement);
        }
        // No matching master is cached; one may have started since the last discovery.
        let masters = self.fleet.current_masters().await?;
        let placement = self.nearest_master(node, &facts, &masters).ok_or_else(|| {
            let criteria = self.options.criteria.join(", ");
            StepError::transient(format!(
                "no master shares any of these facts with the node: {criteria}"
            ))
        })?;
        self.placement_values(&placement)
    }

    fn nearest_master<'a>(
        &'a self,
        node: &Identity,
        facts: &StepValues,
        masters: &'a [PuppetMaster],
    ) -> Option<MasterPlacement<'a>> {
        let options = &self.options;
        choose_master(node, facts, &options.criteria, masters, options.any_master)
    }

    fn placement_values(&self, placement: &MasterPlacement<'_>) -> Result<StepValues, StepError> {
        let PuppetMaster { identity, address, .. } = placement.master;
        if address.is_empty() {
            let fact = &self.options.address_fact;
            return Err(StepError::transient(format!("the master {identity} has no fact {fact}")));
        }
        Ok(write_values(&json!({
            "master": identity,
            "address": address,
            "criterion": placement.criterion,
        })))
    }

    /// Revokes and removes the certificates of this name on all masters; returns the revoked serial numbers.
    pub async fn clean_certificates(&self, node: &Identity) -> Result<Value, StepError> {
        let mut serials = Vec::new();
        for master in self.fleet.current_masters().await? {
            let input = CertChangeInput { certname: node.to_string(), noop: None };
            let cleaned = self
                .fleet
                .call_action::<PuppetcaClean>(&master.identity, &input, SHORT_CALL_TIMEOUT)
                .await?;
            if cleaned.revoked {
                serials.push(Value::from(cleaned.serial));
            }
        }
        Ok(Value::Array(serials))
    }

    /// Has the master sign exactly the request that the node itself reported.
    async fn sign_certificate(
        &self,
        record: &NodeRecord,
        inputs: &StepValues,
    ) -> Result<StepValues, StepError> {
        let master = find_master(record)?;
        // A master with autosign keeps no request; its certificate is compared with the key all the same.
        let stored_value = |name| record.text_value(name).filter(|value| !value.is_empty());
        let mut data = inputs.clone();
        data.extend(write_values(&PuppetcaSignInput {
            certname: record.identity.to_string(),
            fingerprint: stored_value("fingerprint").map(str::to_owned),
            public_key: stored_value("public_key").map(str::to_owned),
            ttl: None,
            noop: None,
        }));
        let signed = self.fleet.call_with_inputs::<PuppetcaSign>(&master, data, SHORT_CALL_TIMEOUT);
        let signed = signed.await?;
        Ok(single_value("serial", signed.serial.into()))
    }

    async fn call_agent(
        &self,
        step: &AgentStep,
        record: &NodeRecord,
    ) -> Result<StepValues, StepError> {
        let target = match step.on {
            StepTarget::Node => record.identity.clone(),
            StepTarget::Master => find_master(record)?,
        };
        let inputs = fill_inputs(&step.inputs, record)?;
        let timeout = Duration::from_secs(step.timeout);
        self.fleet.call_node(&target, &step.agent, &step.action, inputs, timeout).await
    }
}

/// Values of the node's reply about its request. The reply is signed with the node's key, so no other node can name a request for it.
fn request_values(
    node: &Identity,
    request: &RequestCertificateOutput,
) -> Result<StepValues, StepError> {
    if request.certname != node.as_str() {
        return Err(StepError::permanent(format!(
            "{node} requested a certificate for `{}` instead of its own name",
            request.certname
        )));
    }
    if request.public_key.is_empty() {
        return Err(StepError::permanent(
            "the node returned no public key for its certificate request",
        ));
    }
    Ok(write_values(&json!({
        "fingerprint": request.fingerprint,
        "public_key": request.public_key,
    })))
}

fn run_summary(run: &RunPuppetOutput) -> Value {
    json!({
        "class": run.class,
        "config_version": run.config_version,
        "environment": run.environment,
        "duration": run.duration,
    })
}

/// Replaces `{{name}}` in inputs by the node's stored values.
fn fill_inputs(inputs: &StepValues, record: &NodeRecord) -> Result<StepValues, StepError> {
    let fill = |(name, value): (&String, &Value)| {
        let reference = value.as_str().and_then(|text| text.strip_prefix("{{")?.strip_suffix("}}"));
        let value = match reference.map(str::trim) {
            None => value.clone(),
            Some("identity") => record.identity.as_str().into(),
            Some(value_name) => record.values.get(value_name).cloned().ok_or_else(|| {
                StepError::permanent(format!(
                    "the input `{name}` refers to {value_name:?}, which no step has stored"
                ))
            })?,
        };
        Ok((name.clone(), value))
    };
    inputs.iter().map(fill).collect()
}

fn find_master(record: &NodeRecord) -> Result<Identity, StepError> {
    Identity::parse(required_value(record, "master")?)
        .map_err(|error| StepError::permanent(format!("master: {error}")))
}

fn required_value<'a>(record: &'a NodeRecord, name: &str) -> Result<&'a str, StepError> {
    record
        .text_value(name)
        .ok_or_else(|| StepError::permanent(format!("no step has stored the node's `{name}`")))
}

/// The values of a step whose reply is not stored.
fn no_values<T>(_: T) -> StepValues {
    Map::new()
}

pub(crate) fn single_value(name: &str, value: Value) -> StepValues {
    Map::from_iter([(name.to_owned(), value)])
}
