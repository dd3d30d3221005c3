//! Doing one step of one node: asks whom it takes, and gives what was found out. Each step can be done twice without harm.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::wire::identity::Identity;
use serde_json::{Map, Value, json};

use crate::fleet::FleetClient;
use crate::helper;
use crate::masters::{MasterPlacement, PuppetMaster, choose_master};
use crate::options::{AgentStep, Options, StepTarget};
use crate::plan::{BuiltinStep, PlanStep, StepKind};
use crate::record::{NodeRecord, StepError};

/// How long a short action may take.
const SHORT_CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How long Puppet may take to ask for a certificate.
const CSR_TIMEOUT: Duration = Duration::from_mins(6);
/// How long a run of Puppet may take.
const RUN_TIMEOUT: Duration = Duration::from_hours(1);
/// How long the node is taken for, in seconds; longer than any run.
const NODE_LEASE_SECONDS: u64 = 3600;

type StepValues = Map<String, Value>;

/// What steps are done with.
#[derive(Debug, Clone)]
pub struct StepWorker {
    pub(crate) fleet: Arc<FleetClient>,
    pub(crate) options: Arc<Options>,
    pub(crate) system: Arc<dyn System>,
}

impl StepWorker {
    /// Does a step; `fence` is larger than that of everybody who had the node before.
    pub async fn execute_step(
        &self,
        step: &PlanStep,
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        match &step.work {
            StepKind::Builtin(builtin, inputs) => {
                let asked = (inputs, step.timeout);
                self.execute_builtin(*builtin, asked, record, fence).await
            }
            StepKind::Agent(agent) => {
                let answer = self.call_agent(agent, record).await?;
                Ok(single_value(step.name.as_str(), Value::Object(answer)))
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
        (inputs, timeout): (&StepValues, Option<Duration>),
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        let node = &record.identity;
        let fenced = |mut more: StepValues| {
            more.extend(inputs.clone());
            more.insert("fence".to_owned(), fence.into());
            more
        };
        let provision = |action: &'static str, data: StepValues, patience: Duration| {
            let patience = timeout.unwrap_or(patience);
            self.fleet
                .call_node(node, "provision", action, data, patience)
        };
        match builtin {
            BuiltinStep::Lock => self.lock_node(record, fence).await,
            BuiltinStep::Place => self.place_node(node).await,
            BuiltinStep::Host => {
                let data = into_object(json!({ "ipaddress": required_value(record, "address")? }));
                provision("set_puppet_host", fenced(data), SHORT_CALL_TIMEOUT).await?;
                Ok(Map::new())
            }
            BuiltinStep::Clean => {
                let serials = self.clean_certificates(node).await?;
                Ok(single_value("revoked", serials))
            }
            BuiltinStep::Csr => {
                let data = fenced(into_object(json!({ "fresh": true })));
                request_values(
                    node,
                    &provision("request_certificate", data, CSR_TIMEOUT).await?,
                )
            }
            BuiltinStep::Sign => self.sign_certificate(record, inputs).await,
            BuiltinStep::Bootstrap => {
                let run = provision("bootstrap_puppet", fenced(Map::new()), RUN_TIMEOUT).await?;
                Ok(single_value("bootstrap", run_summary(&run)))
            }
            BuiltinStep::Final => {
                let run = provision("run_puppet", fenced(Map::new()), RUN_TIMEOUT).await?;
                Ok(single_value("final_run", run_summary(&run)))
            }
            BuiltinStep::Daemonize => {
                provision("daemonize_puppet", fenced(Map::new()), CSR_TIMEOUT).await?;
                Ok(Map::new())
            }
            BuiltinStep::Release => {
                provision("release", fenced(Map::new()), SHORT_CALL_TIMEOUT).await?;
                Ok(Map::new())
            }
            // The service does it, because who was told is part of the record.
            BuiltinStep::Notify => Ok(Map::new()),
        }
    }

    /// Takes the node; whoever had it with a smaller number cannot touch it any more.
    pub async fn lock_node(
        &self,
        record: &NodeRecord,
        fence: u64,
    ) -> Result<StepValues, StepError> {
        let data = into_object(json!({
            "owner": format!("provisioner/{}", record.id),
            "lease": NODE_LEASE_SECONDS,
            "fence": fence,
        }));
        self.fleet
            .call_node(
                &record.identity,
                "provision",
                "lock",
                data,
                SHORT_CALL_TIMEOUT,
            )
            .await?;
        Ok(Map::new())
    }

    /// Gives the node back, whoever has it; a node that is gone is no failure.
    pub async fn unlock_node(&self, node: &Identity) {
        let data = into_object(json!({ "force": true }));
        let unlocked = self
            .fleet
            .call_node(node, "provision", "unlock", data, SHORT_CALL_TIMEOUT)
            .await;
        if let Err(error) = unlocked {
            tracing::warn!(%node, %error, "the node's lock lapses instead of being given back");
        }
    }

    async fn place_node(&self, node: &Identity) -> Result<StepValues, StepError> {
        let (masters, facts) =
            tokio::try_join!(self.fleet.recent_masters(), self.fleet.node_facts(node))?;
        let near = self.nearest_master(node, &facts, &masters);
        if let Some(placed) = near.filter(|placed| placed.criterion.is_some()) {
            return self.placement_values(&placed);
        }
        // No near one is known: one may have started a moment ago.
        let masters = self.fleet.current_masters().await?;
        let placed = self.nearest_master(node, &facts, &masters).ok_or_else(|| {
            let criteria = self.options.criteria.join(", ");
            StepError::transient(format!(
                "no master shares any of these facts with the node: {criteria}"
            ))
        })?;
        self.placement_values(&placed)
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

    fn placement_values(&self, placed: &MasterPlacement<'_>) -> Result<StepValues, StepError> {
        let PuppetMaster {
            identity, address, ..
        } = placed.master;
        if address.is_empty() {
            let fact = &self.options.address_fact;
            return Err(StepError::transient(format!(
                "the master {identity} has no fact {fact}"
            )));
        }
        Ok(into_object(json!({
            "master": identity,
            "address": address,
            "criterion": placed.criterion,
        })))
    }

    /// Revokes and removes what any master knows of this name; the serial numbers that were revoked.
    pub async fn clean_certificates(&self, node: &Identity) -> Result<Value, StepError> {
        let mut serials = Vec::new();
        for master in self.fleet.current_masters().await? {
            let data = into_object(json!({ "certname": node }));
            let answer = self
                .fleet
                .call_node(
                    &master.identity,
                    "puppetca",
                    "clean",
                    data,
                    SHORT_CALL_TIMEOUT,
                )
                .await?;
            if answer.get("revoked") == Some(&Value::Bool(true)) {
                serials.extend(answer.get("serial").cloned());
            }
        }
        Ok(Value::Array(serials))
    }

    /// Lets the master sign the request that the node itself has named, and no other.
    async fn sign_certificate(
        &self,
        record: &NodeRecord,
        inputs: &StepValues,
    ) -> Result<StepValues, StepError> {
        let master = Identity::parse(required_value(record, "master")?)
            .map_err(|error| StepError::permanent(format!("master: {error}")))?;
        let mut data = inputs.clone();
        data.insert("certname".to_owned(), record.identity.as_str().into());
        for name in ["fingerprint", "public_key"] {
            // A master that signs by itself leaves no request; its certificate is held against the key all the same.
            if let Some(value) = record.text_value(name).filter(|value| !value.is_empty()) {
                data.insert(name.to_owned(), value.into());
            }
        }
        let answer = self
            .fleet
            .call_node(&master, "puppetca", "sign", data, SHORT_CALL_TIMEOUT)
            .await?;
        let serial = answer.get("serial").cloned().unwrap_or_default();
        Ok(single_value("serial", serial))
    }

    async fn call_agent(
        &self,
        step: &AgentStep,
        record: &NodeRecord,
    ) -> Result<StepValues, StepError> {
        let target = match step.on {
            StepTarget::Node => record.identity.clone(),
            StepTarget::Master => Identity::parse(required_value(record, "master")?)
                .map_err(|error| StepError::permanent(format!("master: {error}")))?,
        };
        let inputs = fill_inputs(&step.inputs, record)?;
        let patience = Duration::from_secs(step.timeout);
        self.fleet
            .call_node(&target, &step.agent, &step.action, inputs, patience)
            .await
    }
}

/// What the node says of its request. The answer is signed by the node's key: nobody else can name a request for it.
fn request_values(node: &Identity, answer: &StepValues) -> Result<StepValues, StepError> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("certname") != node.as_str() {
        return Err(StepError::permanent(format!(
            "{node} asks for a certificate of {}, and not of its own name",
            text("certname")
        )));
    }
    if text("public_key").is_empty() {
        return Err(StepError::permanent(
            "the node names no key for its certificate",
        ));
    }
    Ok(into_object(json!({
        "fingerprint": text("fingerprint"),
        "public_key": text("public_key"),
    })))
}

/// What is kept of a run.
fn run_summary(run: &StepValues) -> Value {
    let kept = ["class", "config_version", "environment", "duration"];
    let pairs = kept.into_iter().filter_map(|name| {
        let value = run.get(name)?;
        Some((name.to_owned(), value.clone()))
    });
    Value::Object(pairs.collect())
}

/// Inputs in which `{{name}}` stands for what is known of the node.
fn fill_inputs(inputs: &StepValues, record: &NodeRecord) -> Result<StepValues, StepError> {
    let fill = |(name, value): (&String, &Value)| {
        let asked = value
            .as_str()
            .and_then(|text| text.strip_prefix("{{")?.strip_suffix("}}"));
        let value = match asked.map(str::trim) {
            None => value.clone(),
            Some("identity") => record.identity.as_str().into(),
            Some(known) => record.values.get(known).cloned().ok_or_else(|| {
                StepError::permanent(format!(
                    "nothing is known under {known:?} for the input {name}"
                ))
            })?,
        };
        Ok((name.clone(), value))
    };
    inputs.iter().map(fill).collect()
}

fn required_value<'a>(record: &'a NodeRecord, name: &str) -> Result<&'a str, StepError> {
    record
        .text_value(name)
        .ok_or_else(|| StepError::permanent(format!("no step has found out the node's {name}")))
}

fn single_value(name: &str, value: Value) -> StepValues {
    Map::from_iter([(name.to_owned(), value)])
}

fn into_object(value: Value) -> StepValues {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
