//! Doing one step of one node: asks whom it takes, and gives what was found out. Each step can be done twice without harm.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::wire::identity::Identity;
use serde_json::{Map, Value, json};

use crate::fleet::Fleet;
use crate::helper;
use crate::masters::{Master, Placement, choose};
use crate::options::{AgentStep, On, Options};
use crate::plan::{Builtin, Step, Work};
use crate::record::{Record, StepError};

/// How long a short action may take.
const SHORT: Duration = Duration::from_mins(1);
/// How long Puppet may take to ask for a certificate.
const CSR: Duration = Duration::from_mins(6);
/// How long a run of Puppet may take.
const RUN: Duration = Duration::from_hours(1);
/// How long the node is taken for, in seconds; longer than any run.
const NODE_LEASE: u64 = 3600;

type Found = Map<String, Value>;

/// What steps are done with.
#[derive(Debug, Clone)]
pub struct Worker {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) options: Arc<Options>,
    pub(crate) system: Arc<dyn System>,
}

impl Worker {
    /// Does a step; `fence` is larger than that of everybody who had the node before.
    pub async fn work(&self, step: &Step, record: &Record, fence: u64) -> Result<Found, StepError> {
        match &step.work {
            Work::Builtin(builtin, inputs) => {
                let asked = (inputs, step.timeout);
                self.builtin(*builtin, asked, record, fence).await
            }
            Work::Agent(agent) => {
                let answer = self.agent(agent, record).await?;
                Ok(only(step.name.as_str(), Value::Object(answer)))
            }
            Work::Helper(program) => {
                let answer = helper::run(Arc::clone(&self.system), program, record).await?;
                Ok(only(step.name.as_str(), Value::Object(answer)))
            }
        }
    }

    async fn builtin(
        &self,
        builtin: Builtin,
        (inputs, timeout): (&Found, Option<Duration>),
        record: &Record,
        fence: u64,
    ) -> Result<Found, StepError> {
        let node = &record.identity;
        let fenced = |mut more: Found| {
            more.extend(inputs.clone());
            more.insert("fence".to_owned(), fence.into());
            more
        };
        let provision = |action: &'static str, data: Found, patience: Duration| {
            let patience = timeout.unwrap_or(patience);
            self.fleet.ask(node, "provision", action, data, patience)
        };
        match builtin {
            Builtin::Lock => self.lock(record, fence).await,
            Builtin::Place => self.place(node).await,
            Builtin::Host => {
                let data = object(json!({ "ipaddress": known(record, "address")? }));
                provision("set_puppet_host", fenced(data), SHORT).await?;
                Ok(Map::new())
            }
            Builtin::Clean => {
                let serials = self.clean(node).await?;
                Ok(only("revoked", serials))
            }
            Builtin::Csr => {
                let data = fenced(object(json!({ "fresh": true })));
                request(node, &provision("request_certificate", data, CSR).await?)
            }
            Builtin::Sign => self.sign(record, inputs).await,
            Builtin::Bootstrap => {
                let run = provision("bootstrap_puppet", fenced(Map::new()), RUN).await?;
                Ok(only("bootstrap", summary(&run)))
            }
            Builtin::Final => {
                let run = provision("run_puppet", fenced(Map::new()), RUN).await?;
                Ok(only("final_run", summary(&run)))
            }
            Builtin::Daemonize => {
                provision("daemonize_puppet", fenced(Map::new()), CSR).await?;
                Ok(Map::new())
            }
            Builtin::Release => {
                provision("release", fenced(Map::new()), SHORT).await?;
                Ok(Map::new())
            }
            // The service does it, because who was told is part of the record.
            Builtin::Notify => Ok(Map::new()),
        }
    }

    /// Takes the node; whoever had it with a smaller number cannot touch it any more.
    pub async fn lock(&self, record: &Record, fence: u64) -> Result<Found, StepError> {
        let data = object(json!({
            "owner": format!("provisioner/{}", record.id),
            "lease": NODE_LEASE,
            "fence": fence,
        }));
        self.fleet
            .ask(&record.identity, "provision", "lock", data, SHORT)
            .await?;
        Ok(Map::new())
    }

    /// Gives the node back, whoever has it; a node that is gone is no failure.
    pub async fn unlock(&self, node: &Identity) {
        let data = object(json!({ "force": true }));
        let unlocked = self
            .fleet
            .ask(node, "provision", "unlock", data, SHORT)
            .await;
        if let Err(error) = unlocked {
            tracing::warn!(%node, %error, "the node's lock lapses instead of being given back");
        }
    }

    async fn place(&self, node: &Identity) -> Result<Found, StepError> {
        let (masters, facts) = tokio::try_join!(self.fleet.masters(), self.fleet.facts(node))?;
        let near = self.nearest(node, &facts, &masters);
        if let Some(placed) = near.filter(|placed| placed.criterion.is_some()) {
            return self.placed(&placed);
        }
        // No near one is known: one may have started a moment ago.
        let masters = self.fleet.masters_now().await?;
        let placed = self.nearest(node, &facts, &masters).ok_or_else(|| {
            let criteria = self.options.criteria.join(", ");
            StepError::passing(format!(
                "no master shares any of these facts with the node: {criteria}"
            ))
        })?;
        self.placed(&placed)
    }

    fn nearest<'a>(
        &'a self,
        node: &Identity,
        facts: &Found,
        masters: &'a [Master],
    ) -> Option<Placement<'a>> {
        let options = &self.options;
        choose(node, facts, &options.criteria, masters, options.any_master)
    }

    fn placed(&self, placed: &Placement<'_>) -> Result<Found, StepError> {
        let Master {
            identity, address, ..
        } = placed.master;
        if address.is_empty() {
            let fact = &self.options.address_fact;
            return Err(StepError::passing(format!(
                "the master {identity} has no fact {fact}"
            )));
        }
        Ok(object(json!({
            "master": identity,
            "address": address,
            "criterion": placed.criterion,
        })))
    }

    /// Revokes and removes what any master knows of this name; the serial numbers that were revoked.
    pub async fn clean(&self, node: &Identity) -> Result<Value, StepError> {
        let mut serials = Vec::new();
        for master in self.fleet.masters_now().await? {
            let data = object(json!({ "certname": node }));
            let answer = self
                .fleet
                .ask(&master.identity, "puppetca", "clean", data, SHORT)
                .await?;
            if answer.get("revoked") == Some(&Value::Bool(true)) {
                serials.extend(answer.get("serial").cloned());
            }
        }
        Ok(Value::Array(serials))
    }

    /// Lets the master sign the request that the node itself has named, and no other.
    async fn sign(&self, record: &Record, inputs: &Found) -> Result<Found, StepError> {
        let master = Identity::parse(known(record, "master")?)
            .map_err(|error| StepError::lasting(format!("master: {error}")))?;
        let mut data = inputs.clone();
        data.insert("certname".to_owned(), record.identity.as_str().into());
        for name in ["fingerprint", "public_key"] {
            // A master that signs by itself leaves no request; its certificate is held against the key all the same.
            if let Some(value) = record.text(name).filter(|value| !value.is_empty()) {
                data.insert(name.to_owned(), value.into());
            }
        }
        let answer = self
            .fleet
            .ask(&master, "puppetca", "sign", data, SHORT)
            .await?;
        let serial = answer.get("serial").cloned().unwrap_or_default();
        Ok(only("serial", serial))
    }

    async fn agent(&self, step: &AgentStep, record: &Record) -> Result<Found, StepError> {
        let target = match step.on {
            On::Node => record.identity.clone(),
            On::Master => Identity::parse(known(record, "master")?)
                .map_err(|error| StepError::lasting(format!("master: {error}")))?,
        };
        let inputs = filled(&step.inputs, record)?;
        let patience = Duration::from_secs(step.timeout);
        self.fleet
            .ask(&target, &step.agent, &step.action, inputs, patience)
            .await
    }
}

/// What the node says of its request. The answer is signed by the node's key: nobody else can name a request for it.
fn request(node: &Identity, answer: &Found) -> Result<Found, StepError> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("certname") != node.as_str() {
        return Err(StepError::lasting(format!(
            "{node} asks for a certificate of {}, and not of its own name",
            text("certname")
        )));
    }
    if text("public_key").is_empty() {
        return Err(StepError::lasting(
            "the node names no key for its certificate",
        ));
    }
    Ok(object(json!({
        "fingerprint": text("fingerprint"),
        "public_key": text("public_key"),
    })))
}

/// What is kept of a run.
fn summary(run: &Found) -> Value {
    let kept = ["class", "config_version", "environment", "duration"];
    let pairs = kept.into_iter().filter_map(|name| {
        let value = run.get(name)?;
        Some((name.to_owned(), value.clone()))
    });
    Value::Object(pairs.collect())
}

/// Inputs in which `{{name}}` stands for what is known of the node.
fn filled(inputs: &Found, record: &Record) -> Result<Found, StepError> {
    let fill = |(name, value): (&String, &Value)| {
        let asked = value
            .as_str()
            .and_then(|text| text.strip_prefix("{{")?.strip_suffix("}}"));
        let value = match asked.map(str::trim) {
            None => value.clone(),
            Some("identity") => record.identity.as_str().into(),
            Some(known) => record.values.get(known).cloned().ok_or_else(|| {
                StepError::lasting(format!(
                    "nothing is known under {known:?} for the input {name}"
                ))
            })?,
        };
        Ok((name.clone(), value))
    };
    inputs.iter().map(fill).collect()
}

fn known<'a>(record: &'a Record, name: &str) -> Result<&'a str, StepError> {
    record
        .text(name)
        .ok_or_else(|| StepError::lasting(format!("no step has found out the node's {name}")))
}

fn only(name: &str, value: Value) -> Found {
    Map::from_iter([(name.to_owned(), value)])
}

fn object(value: Value) -> Found {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
