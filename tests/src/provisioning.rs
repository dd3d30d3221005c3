//! Simulated machines and Puppet masters in this process: the agents `provision` and `puppetca` with the real schemas
//! and the real pipeline, and a simulated Puppet and certificate authority that count their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::{ActionError, ActionFuture, ActionHandler, Agent, CallContext, ddl};
use muster_contract::provision::{
    CertificateRequestState, FencedStepInput, ProvisionLockInput, RequestCertificateOutput,
    RunPuppetOutput,
};
use muster_contract::puppet::PuppetRunClass;
use muster_contract::puppetca::{PuppetcaCleanOutput, PuppetcaSignInput, PuppetcaSignOutput};
use muster_contract::{read_values, write_values};
use serde_json::{Map, Value, json};

/// A simulated certificate authority that one or several masters use.
#[derive(Debug, Default)]
pub struct SimulatedCa(Mutex<CaState>);

/// The state of a certificate authority.
#[derive(Debug, Default, Clone)]
pub struct CaState {
    /// Fingerprint of each name's pending request.
    pub requests: BTreeMap<String, String>,
    /// Serial number and fingerprint of each name's certificate.
    pub signed: BTreeMap<String, (u64, String)>,
    /// Revoked serial numbers.
    pub revoked: BTreeSet<u64>,
    /// How often each request was signed, by fingerprint.
    pub signatures: BTreeMap<String, usize>,
    serial: u64,
}

impl SimulatedCa {
    /// The current state.
    pub fn certificates(&self) -> CaState {
        self.lock().clone()
    }

    /// Adds a certificate that was signed earlier, without a request.
    pub fn add_old_certificate(&self, name: &str) -> u64 {
        let mut all = self.lock();
        all.serial += 1;
        let serial = all.serial;
        all.signed.insert(name.to_owned(), (serial, fingerprint("an old request")));
        serial
    }

    /// Replaces the pending request of a node's name with one for another key.
    pub fn replace_request(&self, name: &str) {
        self.lock().requests.insert(name.to_owned(), fingerprint("somebody else"));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CaState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A simulated machine. Outlives its daemon, as a disk does.
#[derive(Debug, Default)]
pub struct SimulatedMachine {
    /// Duration of each Puppet run.
    run_duration: Duration,
    /// The error of each action that is set to fail, by action name.
    faults: Mutex<BTreeMap<String, String>>,
    state: Mutex<MachineState>,
}

/// The state on a machine's disk.
#[derive(Debug, Default, Clone)]
pub struct MachineState {
    /// Address of the master in the hosts file.
    pub host: Option<String>,
    /// Environments of the runs that started.
    pub started_runs: Vec<String>,
    /// Environments of the runs that finished.
    pub finished_runs: Vec<String>,
    /// Whether the machine was released as an ordinary node.
    pub released: bool,
    /// Number of certificate requests that were made.
    pub requests: usize,
    /// Owner of the lock.
    pub owner: String,
    /// The highest fence that a lock was taken with.
    pub fence: u64,
    /// Whether the machine is locked.
    pub locked: bool,
    /// Number of actions that were refused because their fence was too low.
    pub refused: usize,
}

impl SimulatedMachine {
    /// A machine whose Puppet runs take this long.
    pub fn new(run_duration: Duration) -> Arc<Self> {
        Arc::new(Self { run_duration, ..Self::default() })
    }

    /// A copy of the state on its disk.
    pub fn disk(&self) -> MachineState {
        self.lock().clone()
    }

    /// Makes an action fail with this error, or succeed again.
    pub fn set_fault(&self, action: &str, message: Option<&str>) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            Some(message) => drop(faults.insert(action.to_owned(), message.to_owned())),
            None => drop(faults.remove(action)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, MachineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent `provision` of a machine, which sends requests to these masters, by address.
pub fn provision(
    machine: &Arc<SimulatedMachine>,
    masters: &BTreeMap<String, Arc<SimulatedCa>>,
) -> Agent {
    build("provision", |action| {
        Arc::new(ProvisionHandler {
            action: action.to_owned(),
            machine: Arc::clone(machine),
            masters: masters.clone(),
        })
    })
}

/// The agent `puppetca` of a master.
pub fn puppetca(authority: &Arc<SimulatedCa>) -> Agent {
    build("puppetca", |action| {
        Arc::new(PuppetcaHandler { action: action.to_owned(), authority: Arc::clone(authority) })
    })
}

fn build(name: &str, handler: impl Fn(&str) -> Arc<dyn ActionHandler>) -> Agent {
    let text = ddl::builtin_agent(name).unwrap();
    let declared = ddl::AgentDdl::from_slice(text.as_bytes()).unwrap();
    let builder = Agent::builder(text).unwrap();
    declared
        .actions()
        .iter()
        .fold(builder, |builder, action| {
            builder.with_handler(action.name(), handler(action.name()))
        })
        .build()
        .unwrap()
}

struct ProvisionHandler {
    action: String,
    machine: Arc<SimulatedMachine>,
    masters: BTreeMap<String, Arc<SimulatedCa>>,
}

impl ActionHandler for ProvisionHandler {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            let fault = {
                let faults = self.machine.faults.lock();
                let faults = faults.unwrap_or_else(PoisonError::into_inner);
                faults.get(&self.action).cloned()
            };
            match fault.as_deref() {
                Some("hang") => std::future::pending::<()>().await,
                Some(message) => return Err(ActionError::failed(message)),
                None => {}
            }
            self.check_fence(&input)?;
            let node = cx.node.identity().as_str();
            let answer = match self.action.as_str() {
                "bootstrap_puppet" => self.run("bootstrap").await,
                "run_puppet" => self.run("production").await,
                "request_certificate" => self.submit_request(node)?,
                _ => write_values(&self.immediate_action(&input)),
            };
            Ok(answer)
        })
    }
}

impl ProvisionHandler {
    /// Refuses an action whose fence is lower than the highest one so far.
    fn check_fence(&self, input: &Map<String, Value>) -> Result<(), ActionError> {
        let Some(fence) = read_values::<FencedStepInput>(input).unwrap().fence else {
            return Ok(());
        };
        let mut disk = self.machine.lock();
        if fence < disk.fence {
            disk.refused += 1;
            return Err(ActionError::failed(format!("held with {}", disk.fence)));
        }
        Ok(())
    }

    async fn run(&self, environment: &str) -> Map<String, Value> {
        self.machine.lock().started_runs.push(environment.to_owned());
        crate::simulate_delay(self.machine.run_duration).await;
        self.machine.lock().finished_runs.push(environment.to_owned());
        write_values(&RunPuppetOutput {
            class: Some(PuppetRunClass::Changed),
            exitcode: 2,
            resources: Map::from_iter([("changed".to_owned(), 1.into())]),
            config_version: "1".to_owned(),
            environment: environment.to_owned(),
            duration: 0.1,
            output: String::new(),
        })
    }

    fn submit_request(&self, node: &str) -> Result<Map<String, Value>, ActionError> {
        let mut disk = self.machine.lock();
        disk.requests += 1;
        let host = disk.host.clone().unwrap_or_default();
        let authority = self.masters.get(&host);
        let authority = authority.ok_or_else(|| ActionError::failed("no master is known"))?;
        // The request is derived from the machine's key, so it is always the same.
        let fingerprint = fingerprint(&format!("request of {node}"));
        authority.lock().requests.entry(node.to_owned()).or_insert_with(|| fingerprint.clone());
        Ok(write_values(&RequestCertificateOutput {
            state: CertificateRequestState::Submitted,
            certname: node.to_owned(),
            fingerprint,
            public_key: self::fingerprint(&format!("key of {node}")),
            ..RequestCertificateOutput::default()
        }))
    }

    fn immediate_action(&self, input: &Map<String, Value>) -> Value {
        let mut disk = self.machine.lock();
        match self.action.as_str() {
            "lock" => {
                let lock: ProvisionLockInput = read_values(input).unwrap();
                disk.fence = lock.fence.unwrap_or(disk.fence + 1);
                disk.owner = lock.owner;
                disk.locked = true;
                json!({ "locked": true, "owner": disk.owner, "fence": disk.fence, "expires": 0 })
            }
            "unlock" => {
                let unlocked = std::mem::take(&mut disk.locked);
                json!({ "unlocked": unlocked })
            }
            "set_puppet_host" => {
                let address = input.get("ipaddress").and_then(Value::as_str);
                let changed = disk.host.as_deref() != address;
                disk.host = address.map(str::to_owned);
                json!({ "changed": changed, "lines": [] })
            }
            "release" | "disable" => {
                let changed = !std::mem::replace(&mut disk.released, true);
                disk.locked = false;
                json!({ "disabled": true, "changed": changed })
            }
            "is_disabled" => json!({ "disabled": disk.released, "provisioning": !disk.released }),
            "reprovision" => {
                disk.released = false;
                json!({ "changed": true, "wiped": [] })
            }
            _ => json!({}),
        }
    }
}

struct PuppetcaHandler {
    action: String,
    authority: Arc<SimulatedCa>,
}

impl ActionHandler for PuppetcaHandler {
    fn call<'a>(&'a self, _: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            let input: PuppetcaSignInput = read_values(&input).unwrap();
            match self.action.as_str() {
                "clean" => Ok(write_values(&self.clean(&input.certname))),
                "sign" => Ok(write_values(&self.sign(&input)?)),
                _ => Err(ActionError::failed("not simulated")),
            }
        })
    }
}

impl PuppetcaHandler {
    fn clean(&self, name: &str) -> PuppetcaCleanOutput {
        let mut all = self.authority.lock();
        let request = all.requests.remove(name).is_some();
        let signed = all.signed.remove(name).map(|(serial, _)| serial);
        all.revoked.extend(signed);
        PuppetcaCleanOutput {
            certname: name.to_owned(),
            found: request || signed.is_some(),
            changed: request || signed.is_some(),
            revoked: signed.is_some(),
            serial: signed.map_or(String::new(), |serial| format!("{serial:04X}")),
            message: "cleaned".to_owned(),
        }
    }

    fn sign(&self, input: &PuppetcaSignInput) -> Result<PuppetcaSignOutput, ActionError> {
        let name = input.certname.as_str();
        let expected = input.fingerprint.as_deref();
        let mut all = self.authority.lock();
        let answer = |serial: u64, changed: bool, fingerprint: &str| PuppetcaSignOutput {
            changed,
            message: if changed { "signed" } else { "already signed" }.to_owned(),
            certname: name.to_owned(),
            fingerprint: fingerprint.to_owned(),
            public_key: self::fingerprint(&format!("key of {name}")),
            serial: format!("{serial:04X}"),
            not_after: 0,
        };
        if let Some((serial, fingerprint)) = all.signed.get(name).cloned() {
            if expected.is_some_and(|expected| expected != fingerprint) {
                return Err(ActionError::failed("another request was signed"));
            }
            return Ok(answer(serial, false, &fingerprint));
        }
        let Some(found) = all.requests.get(name).cloned() else {
            return Err(ActionError::failed(format!("no request of {name}")));
        };
        if expected.is_some_and(|expected| expected != found) {
            return Err(ActionError::invalid_input(format!(
                "the request of {name} was not signed: its fingerprint is another one"
            )));
        }
        all.requests.remove(name);
        all.serial += 1;
        let serial = all.serial;
        *all.signatures.entry(found.clone()).or_default() += 1;
        all.signed.insert(name.to_owned(), (serial, found.clone()));
        Ok(answer(serial, true, &found))
    }
}

/// A string in the format of a digest, derived from a text.
fn fingerprint(text: &str) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let part = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        format!("{:016X}", hasher.finish())
    };
    (0..4).map(part).collect()
}
