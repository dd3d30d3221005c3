//! A fixture of processes only: `rpcd` as nodes, as the master and as hosts of the provisioner. Puppet is a script on each
//! node; its authority has real certificates and Puppet Server's API.

use std::path::PathBuf;
use std::time::Duration;

use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::record::NodeRecord;
use muster_provisioner::store::NodeRecordStore;
use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::puppet_ca::{PuppetCa, request};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::webhook::Webhook;
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use muster_wire::token::UserCredentials;
use serde_json::Value;

use crate::enrolled_names::await_log;

/// How long one step of a scenario may take before a test fails.
const STATE_TIMEOUT: Duration = Duration::from_mins(1);

/// The scripted Puppet of a node. It submits the prepared request with `curl`, and logs its runs. Two runs at once are
/// logged too.
const PUPPET: &str = r#"#!/bin/sh
dir=@DIR@
case "$1" in
config)
  echo "certname = @NAME@"
  for name in hostcert hostprivkey hostpubkey hostcsr localcacert hostcrl lastrunfile agent_disabled_lockfile agent_catalog_run_lockfile; do
    echo "$name = $dir/$name"
  done ;;
ssl)
  cp $dir/prepared.key $dir/hostprivkey
  cp $dir/prepared.csr $dir/hostcsr
  code=$(curl -sS -o $dir/answer -w '%{http_code}' -X PUT -H 'Content-Type: text/plain' --data-binary @$dir/prepared.csr \
    --cacert @CA@ @URL@/puppet-ca/v1/certificate_request/@NAME@)
  if [ "$code" != 200 ]; then
    echo "Error: could not submit the request due to a conflict on the server: $(cat $dir/answer)"
    exit 1
  fi ;;
agent)
  environment=production
  while [ $# -gt 0 ]; do
    [ "$1" = --environment ] && environment=$2
    shift
  done
  mkdir $dir/running || echo "overlap $environment" >> $dir/runs
  while [ -e $dir/hold_runs ]; do sleep 0.05; done
  printf 'version:\n  config: 7\nresources:\n  total: 9\n' > $dir/summary
  mv $dir/summary $dir/lastrunfile
  rmdir $dir/running
  echo "end $environment" >> $dir/runs ;;
esac
"#;

pub(super) struct ProcessFleet {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) ca: PuppetCa,
    pub(super) hook: Webhook,
    master: Rpcd,
}

impl ProcessFleet {
    /// Starts a broker, an authority, and a master that administers it.
    pub(super) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let ca = PuppetCa::start().await;
        let options = ca.options();
        let option = |(name, value): (&String, &Value)| format!("{name} = {value}\n");
        let options: String = options.as_object().unwrap().iter().map(option).collect();
        let home = DaemonHome::new(
            &organisation,
            &organisation.node("master.example.net"),
            &server.url(),
            &format!("[plugins.puppetca]\n{options}"),
        );
        home.write("facts.d/address.json", r#"{"address": "192.0.2.1", "country": "mt"}"#, 0o644);
        let mut master = home.start();
        await_log(&mut master, " ready").await;
        Self { organisation, server, ca, hook: Webhook::start().await, master }
    }

    /// Starts a machine that is to be provisioned, with these options in `[plugins.provision]`.
    pub(super) async fn start_machine(&self, name: &str, options: &str) -> Rpcd {
        let home = self.create_machine(name, options);
        let mut machine = home.start();
        await_log(&mut machine, " ready").await;
        machine
    }

    fn create_machine(&self, name: &str, options: &str) -> DaemonHome {
        use std::os::unix::fs::PermissionsExt;
        let node = self.organisation.node(name);
        let home = DaemonHome::new(&self.organisation, &node, &self.server.url(), "");
        let puppet = home.path("puppet");
        let config = format!(
            "[plugins.provision]\ncommand = [\"{}\"]\nhosts = \"../hosts\"\n{options}",
            puppet.join("puppet").display()
        );
        home.write("conf.d/test.toml", &config, 0o644);
        home.write("facts.d/country.json", r#"{"country": "mt"}"#, 0o644);
        home.write("state/provisioning", "", 0o600);
        std::fs::set_permissions(home.path("state"), PermissionsExt::from_mode(0o700)).unwrap();
        let (csr, key) = request(name, &[]);
        home.write("puppet/prepared.csr", &csr, 0o600);
        home.write("puppet/prepared.key", &key.serialize_pem(), 0o600);
        let script = PUPPET
            .replace("@DIR@", puppet.to_str().unwrap())
            .replace("@NAME@", name)
            .replace("@CA@", self.ca.path("ca.pem").to_str().unwrap())
            .replace("@URL@", &self.ca.url());
        home.write("puppet/puppet", &script, 0o755);
        home
    }

    /// The files of a host that runs the provisioner, as `rpc provision host` creates them, with these `steps`; `@` in
    /// them is the host's directory.
    pub(super) fn create_host(&self, name: &str, steps: &str) -> DaemonHome {
        let node = self.organisation.node(name);
        let home = DaemonHome::new(&self.organisation, &node, &self.server.url(), "");
        let service = self.organisation.service(ServiceRight::Provision, "provisioner");
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        home.write("service.creds", &creds.to_text(), 0o600);
        let config = format!(
            "[plugins.provisioner]\nenabled = true\ncredentials = \"{}\"\ncriteria = [\"country\"]\n\
             address_fact = \"address\"\ntries = 30\nbackoff = 1\nbackoff_most = 1\n\
             discover_seconds = 0\nlease_millis = 4000\n\
             [[plugins.provisioner.notify]]\nname = \"hook\"\nkind = \"webhook\"\nurl = {:?}\n{steps}",
            home.path("service.creds").display(),
            self.hook.url(),
            steps = steps.replace('@', home.path("").to_str().unwrap().trim_end_matches('/')),
        );
        home.write("conf.d/test.toml", &config, 0o644);
        home
    }

    /// A caller that may call every agent.
    pub(super) fn caller(&self) -> RpcCommand {
        let signer = self.organisation.caller("anna");
        RpcCommand::new(&self.server, &self.organisation, &signer, "")
    }

    pub(super) async fn open_record_store(&self) -> NodeRecordStore {
        let signer = self.organisation.service(ServiceRight::Provision, "observer");
        NodeRecordStore::open(&connect(&self.server, &signer).await)
    }

    /// The master's log, for messages.
    pub(super) fn master_log(&self) -> String {
        self.master.log()
    }
}

/// Starts a host, and waits until it leads.
pub(super) async fn start_leader(home: DaemonHome) -> Rpcd {
    let mut host = home.start();
    await_log(&mut host, "became the provisioning leader").await;
    host
}

/// Adds the record of a new machine, as its enrolment does.
pub(super) async fn add_record(store: &NodeRecordStore, name: &str) {
    let node = Identity::parse(name).unwrap();
    let record = NodeRecord::new(node, uuid::Uuid::now_v7(), muster_tests::now());
    assert!(store.create_record(&record).await.unwrap());
}

/// Waits until a record has reached this state.
pub(super) async fn await_record(
    store: &NodeRecordStore,
    name: &str,
    what: &str,
    is_reached: impl Fn(&NodeRecord) -> bool,
) -> NodeRecord {
    let node = Identity::parse(name).unwrap();
    poll_until_ok(what, STATE_TIMEOUT, async || {
        let record = store.get(&node).await.unwrap().unwrap();
        if is_reached(&record) {
            return Ok(record);
        }
        Err((record.state, record.current, record.error, record.done))
    })
    .await
}

pub(super) async fn await_done(store: &NodeRecordStore, name: &str) -> NodeRecord {
    let is_over = |record: &NodeRecord| record.state != ProvisioningState::Working;
    let record = await_record(store, name, &format!("{name} is done"), is_over).await;
    assert_eq!(record.state, ProvisioningState::Done, "{name}: {record:#?}");
    record
}

/// The lines that the scripted Puppet of a machine has logged.
pub(super) fn puppet_runs(machine: &Rpcd) -> Vec<String> {
    let path: PathBuf = machine.home().path("puppet/runs");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
