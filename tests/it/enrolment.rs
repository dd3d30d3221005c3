//! Bootstrapping nodes with the real `rpcd`: each enrols exactly once, and refused ones do not become nodes.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use muster_bus::Bytes;
use muster_node::config::Config;
use muster_node::trust::enrolment;
use muster_tests::bootstrap::EnrolmentService;
use muster_tests::command::find_program;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect, options};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok, simulate_delay};
use muster_wire::enrol::{EnrolmentOutcome, EnrolmentRefusalReason};
use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::node_fixture::TestCaller;

const WEB_TAGS: [&str; 2] = ["name:web-*.example.com", "fact:role=web"];

/// An organisation with its broker.
struct EnrolmentFixture {
    organisation: Organisation,
    server: NatsServer,
}

impl EnrolmentFixture {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Self { organisation, server }
    }

    fn bootstrap(&self, tags: &[&str]) -> Signer {
        self.organisation.bootstrap_account().bootstrap(tags, None)
    }

    /// The files of a machine whose configuration sets this name.
    fn create_machine(&self, name: &str, bootstrap: &Signer) -> DaemonHome {
        self.create_machine_with(&format!("identity = \"{name}\"\n"), bootstrap, "")
    }

    fn create_machine_with(&self, first: &str, bootstrap: &Signer, more: &str) -> DaemonHome {
        let url = self.server.url();
        DaemonHome::bootstrapping(&self.organisation, bootstrap, &url, first, more)
    }

    async fn connect_caller(&self) -> TestCaller {
        let rip = self.organisation.caller("rip");
        TestCaller::connect(&self.organisation, &self.server, rip).await
    }
}

async fn await_ready(node: &mut Rpcd) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().contains("ready identity=")
    })
    .await;
}

fn file_mode(home: &DaemonHome, name: &str) -> u32 {
    let metadata = std::fs::metadata(home.path(name)).unwrap();
    metadata.permissions().mode() & 0o777
}

fn read_credentials(home: &DaemonHome) -> UserCredentials {
    let text = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    UserCredentials::parse(&text).unwrap()
}

/// Starts a metadata service with one document; returns its URL.
fn start_metadata_service(document: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap_or(0);
            let request = String::from_utf8_lossy(bytes.get(..length).unwrap()).into_owned();
            let (status, body) = if request.starts_with("GET /openstack/latest/meta_data.json ") {
                ("200 OK", document.to_string())
            } else {
                ("404 Not Found", String::new())
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

async fn read_fact(caller: &TestCaller, node: &str, fact: &str) -> Value {
    let answer = caller.call_action(node, "rpcutil", "get_fact", json!({"fact": fact})).await;
    answer.reply.data.get("value").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bootstrap_token_enrols_a_node_restricted_until_provisioned() {
    let fixture = EnrolmentFixture::new().await;
    let mut enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, true).await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let cloud = start_metadata_service(json!({
        "uuid": "d8e02d56", "hostname": "Web-7.Example.com", "availability_zone": "nova", "meta": {"team": "shop"},
    }));
    // The name is that of the cloud's metadata.
    let facts = format!("[facts]\ncloud = \"auto\"\ncloud_url = \"{cloud}\"\n");
    let mut node = fixture.create_machine_with("", &bootstrap, &facts).start();
    await_ready(&mut node).await;
    let (name, outcome) = enrolment.answered.recv().await.unwrap();
    assert_eq!(name.as_str(), "web-7.example.com");
    assert!(matches!(outcome, EnrolmentOutcome::Welcome(_)));

    let home = node.home().clone();
    for secret in ["state/node.creds", "state/newcomer.json"] {
        assert_eq!(file_mode(&home, secret), 0o600, "{secret}");
    }
    assert!(
        !home.path("node.creds").exists(),
        "the daemon must not write to the configuration's directory"
    );
    let seed = read_credentials(&home).key_pair().seed_text();
    assert!(!node.log().contains(seed.as_str()));

    let caller = fixture.connect_caller().await;
    let inventory = || caller.call_action("web-7.example.com", "rpcutil", "inventory", json!({}));
    let offered = inventory().await.reply.data["agents"].clone();
    assert_eq!(offered, json!(["provision", "rpcutil"]), "other agents must not be offered yet");
    assert_eq!(read_fact(&caller, "web-7.example.com", "role").await, "web");
    assert_eq!(read_fact(&caller, "web-7.example.com", "cloud.tags.team").await, "shop");
    assert_eq!(read_fact(&caller, "web-7.example.com", "cloud.provider").await, "openstack");

    // The provisioner removes the marker file.
    std::fs::remove_file(home.path("state/provisioning")).unwrap();
    let timeout = Duration::from_secs(20);
    poll_until_ok("all agents are offered", timeout, async || {
        let data = inventory().await.reply.data;
        let offered = data.get("agents").and_then(Value::as_array);
        let is_all = offered.is_some_and(|agents| agents.len() > 3);
        is_all.then_some(()).ok_or(data)
    })
    .await;

    // After a restart the node is still enrolled, and sends no request for enrolment.
    drop(node);
    drop(enrolment);
    let mut again = home.start();
    await_ready(&mut again).await;
    assert!(!again.log().contains("requesting enrolment"), "{}", again.log());
    poll_until_ok("the node replies", timeout, async || {
        let offered = inventory().await.reply.data["agents"].as_array().map(Vec::len);
        offered.filter(|offered| *offered > 3).ok_or(offered)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrolment_killed_at_random_moments_keeps_key_and_name() {
    let fixture = EnrolmentFixture::new().await;
    let enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, false).await;
    let bootstrap = fixture.bootstrap(&["name:web-*.example.com", "uses:21"]);
    let started = Instant::now();
    await_ready(&mut fixture.create_machine("web-0.example.com", &bootstrap).start()).await;
    let enrolment_time = started.elapsed();
    for round in 1..=20 {
        let name = format!("web-{round}.example.com");
        let home = fixture.create_machine(&name, &bootstrap);
        let mut node = home.clone().start();
        simulate_delay(enrolment_time.mul_f64(rand::random::<f64>())).await;
        kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
        await_state("the daemon has ended", || !node.is_running()).await;
        let key_before = std::fs::read(home.path("state/newcomer.json")).ok();
        drop(node);
        let mut again = home.clone().start();
        await_ready(&mut again).await;
        if let Some(before) = key_before {
            let after = std::fs::read(home.path("state/newcomer.json")).unwrap();
            assert_eq!(before, after, "round {round}");
        }
        let entries = enrolment.enrolment_store().all_entries();
        let entry = entries.iter().find(|entry| entry.identity.as_str() == name);
        assert_eq!(entry.unwrap().key, read_credentials(&home).key_pair().public_key());
    }
    assert_eq!(enrolment.enrolment_store().all_entries().len(), 21);
    assert_eq!(enrolment.enrolment_store().use_count(&bootstrap.public_key()), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharing_a_bootstrap_token_reveals_no_usable_credentials() {
    let fixture = EnrolmentFixture::new().await;
    let _enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, false).await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let eavesdropper = connect(&fixture.server, &bootstrap).await;
    let inbox = format!("_R.{}.>", bootstrap.public_key());
    let mut replies = eavesdropper.subscribe_all(&[inbox]).await.unwrap();
    let mut node = fixture.create_machine("web-1.example.com", &bootstrap).start();
    await_ready(&mut node).await;
    let answer = replies[0].next().await.unwrap();
    let text = String::from_utf8(answer.payload().to_vec()).unwrap();
    let own = read_credentials(node.home());
    assert!(text.contains(own.jwt()), "the eavesdropper must see the token");
    assert!(!text.contains(own.key_pair().seed_text().as_str()));
    // Without the private key of the token, the broker refuses the connection.
    let other = fixture.organisation.node("web-1.example.com");
    let mut stolen = options(&fixture.server, &other);
    let (token, key) = (own.jwt().to_owned(), other.key_pair().clone());
    stolen.credentials = Some(muster_bus::BrokerCredentials::new(
        move || token.clone(),
        move |nonce| key.sign(nonce).to_bytes().to_vec(),
    ));
    let refused = stolen.connect().await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("authorization"), "{refused}");
    // The bootstrap credential does not permit replies in the name of the service.
    let events = eavesdropper.subscribe_events();
    let somewhere = format!("_R.{}.x.enroller", bootstrap.public_key());
    eavesdropper.publish(&somewhere, Bytes::from_static(b"welcome")).await.unwrap();
    eavesdropper.flush().await.unwrap();
    assert!(crate::trust::await_refusal(events).await.contains(&somewhere));
}

/// At an early boot, a machine may have a bare host name, which no bootstrap token allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_types, reason = "changes the host name in the daemon's namespace")]
async fn refused_host_name_is_reported_and_tried_again_when_it_changes() {
    let fixture = EnrolmentFixture::new().await;
    let _enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, true).await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let home = fixture.create_machine_with("", &bootstrap, "");
    let rename = "hostname web-9; exec \"$@\"";
    let rpcd = find_program("rpcd").into_os_string();
    let namespace = ["unshare", "--uts", "sh", "-c", rename, "sh"].map(OsString::from);
    let command: Vec<OsString> = namespace.into_iter().chain([rpcd]).collect();
    let mut node = home.start_through(&command);
    await_state("the refusal is reported", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().contains("set `identity = ")
    })
    .await;
    let log = node.log();
    assert!(log.contains("enrolment as `web-9") && log.contains("host name"), "{log}");
    let pid = node.pid().to_string();
    let output = std::process::Command::new("nsenter")
        .args(["-t", &pid, "--uts", "hostname", "web-9.example.com"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // HUP checks at once; otherwise the name is checked every 10 s.
    kill(Pid::from_raw(node.pid()), Signal::SIGHUP).unwrap();
    await_ready(&mut node).await;
    assert!(node.log().contains("ready identity=web-9.example.com"), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_node_exits_with_the_reason() {
    let fixture = EnrolmentFixture::new().await;
    let mut enrolment =
        EnrolmentService::start(&fixture.organisation, &fixture.server, false).await;
    let used_up = fixture.bootstrap(&["name:web-*.example.com", "uses:1"]);
    await_ready(&mut fixture.create_machine("web-1.example.com", &used_up).start()).await;
    for (name, bootstrap, code, reason) in [
        (
            "db-1.example.com",
            fixture.bootstrap(&WEB_TAGS),
            "name_not_allowed",
            EnrolmentRefusalReason::NameNotAllowed,
        ),
        ("web-2.example.com", used_up, "used_up", EnrolmentRefusalReason::UsedUp),
    ] {
        let mut node = fixture.create_machine(name, &bootstrap).start();
        let mut status = None;
        await_state("the daemon ends", || {
            status = node.exit_status();
            status.is_some()
        })
        .await;
        assert_eq!(status.unwrap().code(), Some(3), "{}", node.log());
        assert!(node.log().contains(code), "{}", node.log());
        assert!(!node.home().path("state/node.creds").exists());
        let outcome = loop {
            let (identity, outcome) = enrolment.answered.recv().await.unwrap();
            if identity.as_str() == name {
                break outcome;
            }
        };
        assert!(matches!(outcome, EnrolmentOutcome::Refused(refused) if refused.reason == reason));
    }
    assert_eq!(enrolment.enrolment_store().all_entries().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_waits_until_a_taken_name_is_released() {
    let fixture = EnrolmentFixture::new().await;
    let enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, false).await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let first = fixture.create_machine("web-1.example.com", &bootstrap);
    await_ready(&mut first.clone().start()).await;
    let mut second = fixture.create_machine("web-1.example.com", &bootstrap).start();
    await_state("the second node is refused", || second.log().contains("name_taken")).await;
    assert!(second.is_running() && !second.home().path("state/node.creds").exists());
    enrolment.enrolment_store().release_name(&"web-1.example.com".parse().unwrap());
    kill(Pid::from_raw(second.pid()), Signal::SIGHUP).unwrap();
    await_ready(&mut second).await;
    let entries = enrolment.enrolment_store().all_entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].key, read_credentials(second.home()).key_pair().public_key());
    assert_ne!(entries[0].key, read_credentials(&first).key_pair().public_key());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_waits_for_an_enroller_and_can_be_stopped() {
    let fixture = EnrolmentFixture::new().await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let mut node = fixture.create_machine("web-1.example.com", &bootstrap).start();
    await_state("the node finds no enroller", || node.log().contains("no enroller is connected"))
        .await;
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    let mut status = None;
    await_state("the daemon ends", || {
        status = node.exit_status();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success(), "{}", node.log());
    let _enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, false).await;
    let home = node.home().clone();
    drop(node);
    await_ready(&mut home.start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_refuses_an_expired_bootstrap_token() {
    let fixture = EnrolmentFixture::new().await;
    let expiry = muster_tests::now() / 1000 - 30;
    let expired = fixture.organisation.bootstrap_account().bootstrap(&WEB_TAGS, Some(expiry));
    let refused = options(&fixture.server, &expired).connect().await.unwrap_err();
    assert!(refused.to_string().to_lowercase().contains("authorization"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_machines_enrol_at_once_under_their_own_names() {
    let fixture = EnrolmentFixture::new().await;
    let enrolment = EnrolmentService::start(&fixture.organisation, &fixture.server, true).await;
    let bootstrap = fixture.bootstrap(&WEB_TAGS);
    let homes: Vec<DaemonHome> = (0..100)
        .map(|n| fixture.create_machine(&format!("web-{n}.example.com"), &bootstrap))
        .collect();
    let started = Instant::now();
    let enrolments = homes.iter().map(|home| {
        let config = Config::load(&home.path("rpcd.toml")).unwrap();
        tokio::spawn(
            async move { enrolment::ensure_enrolled(&config, &Notify::new()).await.unwrap() },
        )
    });
    let enrolments: Vec<_> = enrolments.collect();
    for (n, enrolled) in enrolments.into_iter().enumerate() {
        let config = enrolled.await.unwrap();
        assert_eq!(config.identity.as_str(), format!("web-{n}.example.com"));
        let stored = homes[n].path("state/node.creds").canonicalize();
        let configured = config.broker.credentials.canonicalize();
        assert_eq!(configured.unwrap(), stored.unwrap());
    }
    let elapsed = started.elapsed();
    print_line(&format!("100 machines were enrolled in {elapsed:?}"));
    assert_eq!(enrolment.enrolment_store().all_entries().len(), 100);
    assert!(elapsed < Duration::from_mins(1), "{elapsed:?}");
}

#[expect(clippy::print_stderr, reason = "prints a measurement next to the test's result")]
fn print_line(line: &str) {
    eprintln!("{line}");
}
