//! Which names and keys a real enroller accepts, depending on the names that the organisation issued, the connected
//! nodes, and revocations.

use muster_bus::{Bus, Bytes, NameStore};
use muster_tests::await_state;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::enrolment::NameEntry;
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::stores::{PROVISION_BUCKET, TRUST_ACCOUNT_KEY, TRUST_BUCKET};
use muster_wire::token::{ServiceRight, UserCredentials, UserRole};

const WEB_TAGS: [&str; 1] = ["name:web-*.example.com"];

/// A fleet whose provisioner runs in a real daemon.
pub(crate) struct EnrolledFleet {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    bootstrap: Signer,
    pub(crate) bus: Bus,
    pub(crate) names: NameStore,
    _host: Rpcd,
}

impl EnrolledFleet {
    async fn new() -> Self {
        Self::start_with("").await
    }

    /// Starts the fleet with these settings of the enroller.
    pub(crate) async fn start_with(settings: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let bootstrap = organisation.bootstrap_account().bootstrap(&WEB_TAGS, None);
        let bus =
            connect(&server, &organisation.service(ServiceRight::Provision, "organisation")).await;
        let names = NameStore::new(bus.bucket(PROVISION_BUCKET.name));
        let mut host = provisioner_home(&organisation, &server, settings).start();
        await_log(&mut host, "became the provisioning leader").await;
        Self { organisation, server, bootstrap, bus, names, _host: host }
    }

    /// Writes the entry that `rpc org push` writes last.
    pub(crate) async fn mark_names_as_written(&self) {
        self.names.set_issued_at(muster_tests::now()).await.unwrap();
    }

    pub(crate) fn create_machine(&self, name: &str) -> DaemonHome {
        let identity = format!("identity = \"{name}\"\n");
        let url = self.server.url();
        DaemonHome::bootstrapping(&self.organisation, &self.bootstrap, &url, &identity, "")
    }

    /// Checks that a new machine with its own key is not enrolled, for the expected reason.
    async fn assert_refused(&self, name: &str, expected: &str) {
        let mut machine = self.create_machine(name).start();
        await_log(&mut machine, expected).await;
        assert!(!machine.home().path("state/node.creds").exists(), "{name}");
    }
}

/// The home of the provisioner's host, as `rpc provision host` creates it.
fn provisioner_home(
    organisation: &Organisation,
    server: &NatsServer,
    settings: &str,
) -> DaemonHome {
    let node = organisation.node("prov1.example.com");
    let files = [
        ("service.creds", organisation.service(ServiceRight::Provision, "provisioner")),
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
    for (file, user) in files {
        let creds = UserCredentials::new(&user.token(), user.key_pair().clone()).unwrap();
        home.write(file, &creds.to_text(), 0o600);
    }
    home.write("newcomers.jwt", organisation.bootstrap_account().token(), 0o644);
    let node_key = organisation.role_key(UserRole::Node).seed_text();
    home.write("node.nk", &node_key, 0o600);
    home
}

pub(crate) async fn await_log(daemon: &mut Rpcd, expected: &str) {
    await_state(expected, || {
        let log = daemon.log();
        assert!(log.contains(expected) || daemon.is_running(), "rpcd ended: {log}");
        log.contains(expected)
    })
    .await;
}

fn parse_identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

pub(crate) fn name_entry(user: &Signer) -> NameEntry {
    NameEntry {
        identity: user.identity().clone(),
        key: user.public_key(),
        credential: None,
        at: muster_tests::now(),
        released: false,
        revoked: false,
        former: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bootstrap_token_never_gets_the_name_of_an_existing_node() {
    let fleet = EnrolledFleet::new().await;
    // `rpc org push` has not been run yet.
    fleet.assert_refused("web-1.example.com", "run `rpc org push` once").await;
    fleet.mark_names_as_written().await;

    // The name is issued, and the node is not connected.
    let disconnected = fleet.organisation.node("web-1.example.com");
    let entry = name_entry(&disconnected);
    let write = |_| (Some(entry.clone()), ());
    fleet.names.edit_entry(disconnected.identity(), write).await.unwrap();
    fleet.assert_refused("web-1.example.com", "belongs to another key").await;

    // The node is connected, and the name is not registered.
    let connected = fleet.organisation.node("web-2.example.com");
    let url = fleet.server.url();
    let mut node = DaemonHome::new(&fleet.organisation, &connected, &url, "").start();
    await_log(&mut node, "ready identity=").await;
    fleet.assert_refused("web-2.example.com", "is registered or connected").await;

    // The name is registered by the provisioner, and the node is not connected.
    let record = serde_json::json!({
        "identity": "web-3.example.com", "id": uuid::Uuid::now_v7(), "state": "done", "done": [],
        "current": null, "since": 0, "changed": 0,
    });
    let bucket = fleet.bus.bucket(PROVISION_BUCKET.name);
    let bytes = Bytes::from(record.to_string());
    bucket.put("node.web-3.example.com", bytes).await.unwrap();
    fleet.assert_refused("web-3.example.com", "is registered or connected").await;

    // The name is released, and the node is still connected.
    let entry = NameEntry { released: true, ..name_entry(&connected) };
    let write = |_| (Some(entry.clone()), ());
    fleet.names.edit_entry(connected.identity(), write).await.unwrap();
    fleet.assert_refused("web-2.example.com", "is registered or connected").await;

    // A free name is assigned.
    let mut machine = fleet.create_machine("web-4.example.com").start();
    await_log(&mut machine, "ready identity=").await;
    let entry = fleet.names.get(&parse_identity("web-4.example.com")).await.unwrap();
    assert!(entry.unwrap().is_enrolled());
}

/// Deletes the credentials of an enrolled machine, but not its key.
fn delete_credentials(home: &DaemonHome) {
    for file in ["state/node.creds", "state/enrolled.json"] {
        std::fs::remove_file(home.path(file)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_node_is_not_enrolled_again_with_its_key_or_name() {
    let mut fleet = EnrolledFleet::new().await;
    fleet.mark_names_as_written().await;
    let mut homes = Vec::new();
    for name in ["web-1.example.com", "web-2.example.com"] {
        let mut machine = fleet.create_machine(name).start();
        await_log(&mut machine, "ready identity=").await;
        homes.push(machine.home().clone());
    }
    // A machine that lost its credentials is enrolled again by its key, unless it is revoked.
    delete_credentials(&homes[0]);
    await_log(&mut homes[0].clone().start(), "ready identity=").await;

    // Revoked by the account token only, as by `rpc org revoke KEY` on a host without the register of names.
    let text = std::fs::read_to_string(homes[0].path("state/node.creds")).unwrap();
    let revoked = Signer::new(UserCredentials::parse(&text).unwrap()).unwrap();
    let token = fleet.organisation.revoke_user(&revoked);
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let trust = administrator.bucket(TRUST_BUCKET.name);
    trust.put(TRUST_ACCOUNT_KEY, Bytes::from(token)).await.unwrap();
    delete_credentials(&homes[0]);
    await_log(&mut homes[0].clone().start(), "was revoked").await;
    assert!(!homes[0].path("state/node.creds").exists());

    // Revoked by the mark on its name only.
    let name = parse_identity("web-2.example.com");
    let mark_revoked = |entry: Option<NameEntry>| {
        let mut entry = entry.unwrap();
        entry.revoked = true;
        (Some(entry), ())
    };
    fleet.names.edit_entry(&name, mark_revoked).await.unwrap();
    delete_credentials(&homes[1]);
    await_log(&mut homes[1].clone().start(), "was revoked").await;
    fleet.assert_refused(name.as_str(), "`rpc provision release web-2.example.com`").await;

    // After the release the name is free for another key, and the revoked key is still refused.
    assert!(fleet.names.release_name(&name).await.unwrap());
    await_log(&mut homes[1].clone().start(), "was revoked").await;
    let record = fleet.bus.bucket(PROVISION_BUCKET.name);
    assert!(record.get("node.web-2.example.com").await.unwrap().is_some());
    let mut machine = fleet.create_machine(name.as_str()).start();
    await_log(&mut machine, "ready identity=").await;
}
