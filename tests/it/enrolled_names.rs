//! Which names and keys a real enroller accepts: it knows what the organisation issued, which nodes are connected, and what was revoked.

use muster_bus::{Bus, Bytes, NameStore};
use muster_enrol::NameEntry;
use muster_tests::await_state;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::stores::{PROVISION_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use muster_wire::token::{UserCredentials, UserRole};

const WEB: [&str; 1] = ["name:web-*.example.com"];

/// A fleet whose provisioner's host is a real daemon.
pub(crate) struct Fleet {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    bootstrap: Signer,
    pub(crate) bus: Bus,
    pub(crate) names: NameStore,
    _host: Rpcd,
}

impl Fleet {
    async fn new() -> Self {
        Self::enrolling("").await
    }

    /// With these settings of the enroller.
    pub(crate) async fn enrolling(settings: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let bootstrap = organisation.bootstrap_account().bootstrap(&WEB, None);
        let bus = connect(&server, &organisation.service("organisation")).await;
        let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
        let mut host = provisioner(&organisation, &server, settings).start();
        await_log(&mut host, "became the provisioning leader").await;
        Self { organisation, server, bootstrap, bus, names, _host: host }
    }

    /// What `rpc org push` writes last.
    pub(crate) async fn say_that_names_are_written(&self) {
        self.names.set_issued_at(muster_tests::now()).await.unwrap();
    }

    pub(crate) fn machine(&self, name: &str) -> DaemonHome {
        let identity = format!("identity = \"{name}\"\n");
        let url = self.server.url();
        DaemonHome::bootstrapping(&self.organisation, &self.bootstrap, &url, &identity, "")
    }

    /// A new machine, with a key of its own, is not enrolled, and says why.
    async fn refuses(&self, name: &str, words: &str) {
        let mut machine = self.machine(name).start();
        await_log(&mut machine, words).await;
        assert!(!machine.home().path("state/node.creds").exists(), "{name}");
    }
}

/// The host of the provisioner, as `rpc provision host` sets it up.
fn provisioner(organisation: &Organisation, server: &NatsServer, settings: &str) -> DaemonHome {
    let node = organisation.node("prov1.example.com");
    let files = [
        ("service.creds", organisation.service("provisioner")),
        ("newcomers.creds", organisation.bootstrap_account().enroller("provisioner")),
    ];
    let mut config = "[plugins.provisioner]\nenabled = true\ndiscover_seconds = 0\n\
         credentials = \"@/service.creds\"\n[plugins.provisioner.newcomers]\n\
         credentials = \"@/newcomers.creds\"\naccount = \"@/newcomers.jwt\"\nnode_key = \"@/node.nk\"\n"
        .to_owned()
        + settings;
    let home = DaemonHome::new(organisation, &node, &server.url(), "");
    config = config.replace('@', home.path("").to_str().unwrap().trim_end_matches('/'));
    home.write("conf.d/test.toml", &config, 0o644);
    for (file, party) in files {
        let creds = UserCredentials::new(&party.token(), party.key_pair().clone()).unwrap();
        home.write(file, &creds.to_text(), 0o600);
    }
    home.write("newcomers.jwt", organisation.bootstrap_account().token(), 0o644);
    let node_key = organisation.role_key(UserRole::Node).seed_text();
    home.write("node.nk", &node_key, 0o600);
    home
}

pub(crate) async fn await_log(daemon: &mut Rpcd, words: &str) {
    await_state(words, || {
        let log = daemon.log();
        assert!(log.contains(words) || daemon.is_running(), "rpcd ended: {log}");
        log.contains(words)
    })
    .await;
}

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

pub(crate) fn issued(party: &Signer) -> NameEntry {
    NameEntry {
        identity: party.identity().clone(),
        key: party.public_key(),
        credential: None,
        at: muster_tests::now(),
        released: false,
        revoked: false,
        former: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bootstrap_token_never_gets_the_name_of_an_existing_node() {
    let fleet = Fleet::new().await;
    // Nobody has said which names the organisation issued.
    fleet.refuses("web-1.example.com", "run `rpc org push` once").await;
    fleet.say_that_names_are_written().await;

    // Issued, and not connected.
    let away = fleet.organisation.node("web-1.example.com");
    let entry = issued(&away);
    let write = |_| (Some(entry.clone()), ());
    fleet.names.edit_entry(away.identity(), write).await.unwrap();
    fleet.refuses("web-1.example.com", "belongs to another key").await;

    // Connected, and in no list.
    let connected = fleet.organisation.node("web-2.example.com");
    let url = fleet.server.url();
    let mut node = DaemonHome::new(&fleet.organisation, &connected, &url, "").start();
    await_log(&mut node, "ready identity=").await;
    fleet.refuses("web-2.example.com", "is registered or connected").await;

    // Registered: the service provisions it, and it is away at the moment.
    let record = serde_json::json!({
        "identity": "web-3.example.com", "id": uuid::Uuid::now_v7(), "state": "done", "done": [],
        "current": null, "since": 0, "changed": 0,
    });
    let bucket = fleet.bus.bucket(PROVISION_BUCKET.name);
    let bytes = Bytes::from(record.to_string());
    bucket.put("node.web-3.example.com", bytes).await.unwrap();
    fleet.refuses("web-3.example.com", "is registered or connected").await;

    // Released, and still connected.
    let entry = NameEntry { released: true, ..issued(&connected) };
    let write = |_| (Some(entry.clone()), ());
    fleet.names.edit_entry(connected.identity(), write).await.unwrap();
    fleet.refuses("web-2.example.com", "is registered or connected").await;

    // A free name is given away.
    let mut machine = fleet.machine("web-4.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let entry = fleet.names.get(&identity("web-4.example.com")).await.unwrap();
    assert!(entry.unwrap().is_enrolled());
}

/// A machine that was enrolled loses what it was given, and keeps its key.
fn forget(home: &DaemonHome) {
    for file in ["state/node.creds", "state/enrolled.json"] {
        std::fs::remove_file(home.path(file)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_node_does_not_come_back_with_the_same_key_or_name() {
    let mut fleet = Fleet::new().await;
    fleet.say_that_names_are_written().await;
    let mut homes = Vec::new();
    for name in ["web-1.example.com", "web-2.example.com"] {
        let mut machine = fleet.machine(name).start();
        await_log(&mut machine, "ready identity=").await;
        homes.push(machine.home().clone());
    }
    // One that lost its credentials comes back by its key; that is what the revocation must stop.
    forget(&homes[0]);
    await_log(&mut homes[0].clone().start(), "ready identity=").await;

    // By the account token alone, as after `rpc org revoke KEY` from a host that knows no names.
    let text = std::fs::read_to_string(homes[0].path("state/node.creds")).unwrap();
    let revoked = Signer::new(UserCredentials::parse(&text).unwrap()).unwrap();
    let token = fleet.organisation.revoke_user(&revoked);
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let trust = administrator.bucket(TRUST_BUCKET.name);
    trust.put(TRUST_ACCOUNT_KEY, Bytes::from(token)).await.unwrap();
    forget(&homes[0]);
    await_log(&mut homes[0].clone().start(), "was revoked").await;
    assert!(!homes[0].path("state/node.creds").exists());

    // By the mark on its name alone.
    let name = identity("web-2.example.com");
    let mark = |held: Option<NameEntry>| {
        let mut entry = held.unwrap();
        entry.revoked = true;
        (Some(entry), ())
    };
    fleet.names.edit_entry(&name, mark).await.unwrap();
    forget(&homes[1]);
    await_log(&mut homes[1].clone().start(), "was revoked").await;
    fleet.refuses(name.as_str(), "`rpc provision release web-2.example.com`").await;

    // Released, the name is free for another key, and the revoked one stays out.
    assert!(fleet.names.release_name(&name).await.unwrap());
    await_log(&mut homes[1].clone().start(), "was revoked").await;
    let record = fleet.bus.bucket(PROVISION_BUCKET.name);
    assert!(record.get("node.web-2.example.com").await.unwrap().is_some());
    let mut machine = fleet.machine(name.as_str()).start();
    await_log(&mut machine, "ready identity=").await;
}
