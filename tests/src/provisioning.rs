//! Machines that become nodes, and masters that sign for them, in this process: the agents `provision` and `puppetca` with the real
//! schemas and the real pipeline, and a Puppet and an authority that are only counted.

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

/// A certificate authority that several masters share, or one has for itself.
#[derive(Debug, Default)]
pub struct Authority(Mutex<Certificates>);

/// What an authority has done.
#[derive(Debug, Default, Clone)]
pub struct Certificates {
    /// The fingerprint of each name's request.
    pub requests: BTreeMap<String, String>,
    /// Serial number and fingerprint of each name's certificate.
    pub signed: BTreeMap<String, (u64, String)>,
    /// Serial numbers that were revoked.
    pub revoked: BTreeSet<u64>,
    /// How often each request was signed, by fingerprint.
    pub signatures: BTreeMap<String, usize>,
    serial: u64,
}

impl Authority {
    /// What it has done so far.
    pub fn certificates(&self) -> Certificates {
        self.lock().clone()
    }

    /// A certificate from earlier days, signed without anybody's asking.
    pub fn sign_old(&self, name: &str) -> u64 {
        let mut all = self.lock();
        all.serial += 1;
        let serial = all.serial;
        all.signed.insert(name.to_owned(), (serial, fingerprint("an old request")));
        serial
    }

    /// Somebody else's request under a node's name.
    pub fn swap_request(&self, name: &str) {
        self.lock().requests.insert(name.to_owned(), fingerprint("somebody else"));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Certificates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a machine is like, and what was done to it. Outlives its daemon, as a disk does.
#[derive(Debug, Default)]
pub struct Machine {
    /// How long each run of Puppet takes.
    run: Duration,
    /// What each action fails with, by name, for as long as it stands here.
    faults: Mutex<BTreeMap<String, String>>,
    state: Mutex<Disk>,
}

/// What stands on a machine's disk.
#[derive(Debug, Default, Clone)]
pub struct Disk {
    /// The address of the master in its hosts file.
    pub host: Option<String>,
    /// The environments of the runs that were begun.
    pub begun: Vec<String>,
    /// The environments of the runs that were done.
    pub runs: Vec<String>,
    /// Whether it is an ordinary node.
    pub released: bool,
    /// How many requests for certificates it has made.
    pub requests: usize,
    /// Who holds it.
    pub owner: String,
    /// The largest number that it was held with.
    pub fence: u64,
    /// Whether it is held.
    pub locked: bool,
    /// Actions with a number that was too small.
    pub refused: usize,
}

impl Machine {
    /// A machine whose runs of Puppet take so long.
    pub fn new(run: Duration) -> Arc<Self> {
        Arc::new(Self { run, ..Self::default() })
    }

    /// What stands on its disk.
    pub fn disk(&self) -> Disk {
        self.lock().clone()
    }

    /// Lets an action fail, or no longer.
    pub fn fault(&self, action: &str, words: Option<&str>) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        match words {
            Some(words) => drop(faults.insert(action.to_owned(), words.to_owned())),
            None => drop(faults.remove(action)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent `provision` of a machine whose requests go to these authorities' masters, by address.
pub fn provision(machine: &Arc<Machine>, masters: &BTreeMap<String, Arc<Authority>>) -> Agent {
    build("provision", |action| {
        Arc::new(Provision {
            action: action.to_owned(),
            machine: Arc::clone(machine),
            masters: masters.clone(),
        })
    })
}

/// The agent `puppetca` of a master.
pub fn puppetca(authority: &Arc<Authority>) -> Agent {
    build("puppetca", |action| {
        Arc::new(PuppetCa { action: action.to_owned(), authority: Arc::clone(authority) })
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

struct Provision {
    action: String,
    machine: Arc<Machine>,
    masters: BTreeMap<String, Arc<Authority>>,
}

impl ActionHandler for Provision {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            let fault = {
                let faults = self.machine.faults.lock();
                let faults = faults.unwrap_or_else(PoisonError::into_inner);
                faults.get(&self.action).cloned()
            };
            match fault.as_deref() {
                Some("hang") => std::future::pending::<()>().await,
                Some(words) => return Err(ActionError::failed(words)),
                None => {}
            }
            self.held(&input)?;
            let node = cx.node.identity().as_str();
            let answer = match self.action.as_str() {
                "bootstrap_puppet" => self.run("bootstrap").await,
                "run_puppet" => self.run("production").await,
                "request_certificate" => self.request(node)?,
                _ => write_values(&self.quick(&input)),
            };
            Ok(answer)
        })
    }
}

impl Provision {
    /// Refuses whoever holds the machine with a smaller number than somebody else did.
    fn held(&self, input: &Map<String, Value>) -> Result<(), ActionError> {
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
        self.machine.lock().begun.push(environment.to_owned());
        crate::let_pass(self.machine.run).await;
        self.machine.lock().runs.push(environment.to_owned());
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

    fn request(&self, node: &str) -> Result<Map<String, Value>, ActionError> {
        let mut disk = self.machine.lock();
        disk.requests += 1;
        let host = disk.host.clone().unwrap_or_default();
        let authority = self.masters.get(&host);
        let authority = authority.ok_or_else(|| ActionError::failed("no master is known"))?;
        // The key is the machine's, so its request is always the same.
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

    fn quick(&self, input: &Map<String, Value>) -> Value {
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

struct PuppetCa {
    action: String,
    authority: Arc<Authority>,
}

impl ActionHandler for PuppetCa {
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

impl PuppetCa {
    fn clean(&self, name: &str) -> PuppetcaCleanOutput {
        let mut all = self.authority.lock();
        let request = all.requests.remove(name).is_some();
        let signed = all.signed.remove(name).map(|(serial, _)| serial);
        all.revoked.extend(signed);
        PuppetcaCleanOutput {
            certname: name.to_owned(),
            found: request || signed.is_some(),
            revoked: signed.is_some(),
            serial: signed.map_or(String::new(), |serial| format!("{serial:04X}")),
            message: "cleaned".to_owned(),
        }
    }

    fn sign(&self, input: &PuppetcaSignInput) -> Result<PuppetcaSignOutput, ActionError> {
        let name = input.certname.as_str();
        let wanted = input.fingerprint.as_deref();
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
            if wanted.is_some_and(|wanted| wanted != fingerprint) {
                return Err(ActionError::failed("another request was signed"));
            }
            return Ok(answer(serial, false, &fingerprint));
        }
        let Some(found) = all.requests.get(name).cloned() else {
            return Err(ActionError::failed(format!("no request of {name}")));
        };
        if wanted.is_some_and(|wanted| wanted != found) {
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

/// What looks like a digest, of a text.
fn fingerprint(text: &str) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let part = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        format!("{:016X}", hasher.finish())
    };
    (0..4).map(part).collect()
}
