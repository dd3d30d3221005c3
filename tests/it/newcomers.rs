//! Machines that are nobody yet, with the real `rpcd`: they become nodes, once each, and those that may not do not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use muster_agent::config::Config;
use muster_agent::enrolment;
use muster_bus::Bytes;
use muster_tests::nats_server::NatsServer;
use muster_tests::newcomers::EnrolmentService;
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

use crate::ask::Caller;

const WEB: [&str; 2] = ["name:web-*.example.com", "fact:role=web"];

/// An organisation with its broker.
struct Place {
    organisation: Organisation,
    server: NatsServer,
}

impl Place {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Self { organisation, server }
    }

    fn bootstrap(&self, tags: &[&str]) -> Signer {
        self.organisation.bootstrap_account().bootstrap(tags, None)
    }

    /// A machine whose configuration gives it this name.
    fn machine(&self, name: &str, bootstrap: &Signer) -> DaemonHome {
        self.machine_with(&format!("identity = \"{name}\"\n"), bootstrap, "")
    }

    fn machine_with(&self, first: &str, bootstrap: &Signer, more: &str) -> DaemonHome {
        let url = self.server.url();
        DaemonHome::bootstrapping(&self.organisation, bootstrap, &url, first, more)
    }

    async fn caller(&self) -> Caller {
        let rip = self.organisation.caller("rip");
        Caller::connect(&self.organisation, &self.server, rip).await
    }
}

async fn ready(node: &mut Rpcd) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().contains("ready identity=")
    })
    .await;
}

fn mode(home: &DaemonHome, name: &str) -> u32 {
    let metadata = std::fs::metadata(home.path(name)).unwrap();
    metadata.permissions().mode() & 0o777
}

fn creds(home: &DaemonHome) -> UserCredentials {
    let text = std::fs::read_to_string(home.path("state/node.creds")).unwrap();
    UserCredentials::parse(&text).unwrap()
}

/// A metadata service that knows one document.
fn metadata_service(document: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).unwrap_or(0);
            let asked = String::from_utf8_lossy(bytes.get(..length).unwrap()).into_owned();
            let (status, body) = if asked.starts_with("GET /openstack/latest/meta_data.json ") {
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

async fn fact(caller: &Caller, node: &str, fact: &str) -> Value {
    let answer = caller.ask(node, "rpcutil", "get_fact", json!({"fact": fact})).await;
    answer.reply.data.get("value").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_with_a_bootstrap_token_becomes_a_node_that_is_held_back_until_it_is_provisioned()
{
    let place = Place::new().await;
    let mut door = EnrolmentService::start(&place.organisation, &place.server, true).await;
    let bootstrap = place.bootstrap(&WEB);
    let cloud = metadata_service(json!({
        "uuid": "d8e02d56", "hostname": "Web-7.Example.com", "availability_zone": "nova", "meta": {"team": "shop"},
    }));
    // Its name comes from its cloud.
    let facts = format!("[facts]\ncloud = \"auto\"\ncloud_url = \"{cloud}\"\n");
    let mut node = place.machine_with("", &bootstrap, &facts).start();
    ready(&mut node).await;
    let (name, outcome) = door.answered.recv().await.unwrap();
    assert_eq!(name.as_str(), "web-7.example.com");
    assert!(matches!(outcome, EnrolmentOutcome::Welcome(_)));

    let home = node.home().clone();
    for secret in ["state/node.creds", "state/newcomer.json"] {
        assert_eq!(mode(&home, secret), 0o600, "{secret}");
    }
    assert!(
        !home.path("node.creds").exists(),
        "the configuration's directory is not the daemon's to write"
    );
    let seed = creds(&home).key_pair().seed_text();
    assert!(!node.log().contains(seed.as_str()));

    let caller = place.caller().await;
    let inventory = || caller.ask("web-7.example.com", "rpcutil", "inventory", json!({}));
    let offered = inventory().await.reply.data["agents"].clone();
    assert_eq!(offered, json!(["provision", "rpcutil"]), "agents are held back");
    assert_eq!(fact(&caller, "web-7.example.com", "role").await, "web");
    assert_eq!(fact(&caller, "web-7.example.com", "cloud.tags.team").await, "shop");
    assert_eq!(fact(&caller, "web-7.example.com", "cloud.provider").await, "openstack");

    // Whoever provisions it takes the mark away.
    std::fs::remove_file(home.path("state/provisioning")).unwrap();
    let patience = Duration::from_secs(20);
    poll_until_ok("everything is offered", patience, async || {
        let data = inventory().await.reply.data;
        let offered = data.get("agents").and_then(Value::as_array);
        let is_all = offered.is_some_and(|agents| agents.len() > 3);
        is_all.then_some(()).ok_or(data)
    })
    .await;

    // Started again it is the same, and asks nobody.
    drop(node);
    drop(door);
    let mut again = home.start();
    ready(&mut again).await;
    assert!(!again.log().contains("requesting enrolment"), "{}", again.log());
    poll_until_ok("it answers", patience, async || {
        let offered = inventory().await.reply.data["agents"].as_array().map(Vec::len);
        offered.filter(|offered| *offered > 3).ok_or(offered)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_it_comes_back_with_its_key_and_name() {
    let place = Place::new().await;
    let door = EnrolmentService::start(&place.organisation, &place.server, false).await;
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:21"]);
    let begun = Instant::now();
    ready(&mut place.machine("web-0.example.com", &bootstrap).start()).await;
    let whole = begun.elapsed();
    for round in 1..=20 {
        let name = format!("web-{round}.example.com");
        let home = place.machine(&name, &bootstrap);
        let mut node = home.clone().start();
        simulate_delay(whole.mul_f64(rand::random::<f64>())).await;
        kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
        await_state("it is dead", || !node.is_running()).await;
        let key_before = std::fs::read(home.path("state/newcomer.json")).ok();
        drop(node);
        let mut again = home.clone().start();
        ready(&mut again).await;
        if let Some(before) = key_before {
            let after = std::fs::read(home.path("state/newcomer.json")).unwrap();
            assert_eq!(before, after, "round {round}");
        }
        let entries = door.enrolment_store().all_entries();
        let entry = entries.iter().find(|entry| entry.identity.as_str() == name);
        assert_eq!(entry.unwrap().key, creds(&home).key_pair().public_key());
    }
    assert_eq!(door.enrolment_store().all_entries().len(), 21);
    assert_eq!(door.enrolment_store().use_count(&bootstrap.public_key()), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_the_token_hears_others_answers_and_gains_nothing() {
    let place = Place::new().await;
    let _door = EnrolmentService::start(&place.organisation, &place.server, false).await;
    let bootstrap = place.bootstrap(&WEB);
    let eavesdropper = connect(&place.server, &bootstrap).await;
    let inbox = format!("_R.{}.>", bootstrap.public_key());
    let mut heard = eavesdropper.subscribe_all(&[inbox]).await.unwrap();
    let mut node = place.machine("web-1.example.com", &bootstrap).start();
    ready(&mut node).await;
    let answer = heard[0].next().await.unwrap();
    let text = String::from_utf8(answer.payload().to_vec()).unwrap();
    let own = creds(node.home());
    assert!(text.contains(own.jwt()), "the token is there to be read");
    assert!(!text.contains(own.key_pair().seed_text().as_str()));
    // Without the key that it is about, the broker does not take it.
    let other = place.organisation.node("web-1.example.com");
    let mut stolen = options(&place.server, &other);
    let (token, key) = (own.jwt().to_owned(), other.key_pair().clone());
    stolen.credentials = Some(muster_bus::BrokerCredentials::new(
        move || token.clone(),
        move |nonce| key.sign(nonce).to_bytes().to_vec(),
    ));
    let refused = stolen.connect().await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("authorization"), "{refused}");
    // Nor can it answer in the service's stead.
    let events = eavesdropper.subscribe_events();
    let somewhere = format!("_R.{}.x.enroller", bootstrap.public_key());
    eavesdropper.publish(&somewhere, Bytes::from_static(b"welcome")).await.unwrap();
    eavesdropper.flush().await.unwrap();
    assert!(crate::trust::await_refusal(events).await.contains(&somewhere));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_come_in_ends_and_says_why() {
    let place = Place::new().await;
    let mut door = EnrolmentService::start(&place.organisation, &place.server, false).await;
    let used_up = place.bootstrap(&["name:web-*.example.com", "uses:1"]);
    ready(&mut place.machine("web-1.example.com", &used_up).start()).await;
    for (name, bootstrap, word, reason) in [
        (
            "db-1.example.com",
            place.bootstrap(&WEB),
            "name_not_allowed",
            EnrolmentRefusalReason::NameNotAllowed,
        ),
        ("web-2.example.com", used_up, "used_up", EnrolmentRefusalReason::UsedUp),
    ] {
        let mut node = place.machine(name, &bootstrap).start();
        let mut status = None;
        await_state("it ends", || {
            status = node.exit_status();
            status.is_some()
        })
        .await;
        assert_eq!(status.unwrap().code(), Some(3), "{}", node.log());
        assert!(node.log().contains(word), "{}", node.log());
        assert!(!node.home().path("state/node.creds").exists());
        let told = loop {
            let (who, outcome) = door.answered.recv().await.unwrap();
            if who.as_str() == name {
                break outcome;
            }
        };
        assert!(matches!(told, EnrolmentOutcome::Refused(refused) if refused.reason == reason));
    }
    assert_eq!(door.enrolment_store().all_entries().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_waited_for_until_it_is_released() {
    let place = Place::new().await;
    let door = EnrolmentService::start(&place.organisation, &place.server, false).await;
    let bootstrap = place.bootstrap(&WEB);
    let first = place.machine("web-1.example.com", &bootstrap);
    ready(&mut first.clone().start()).await;
    let mut second = place.machine("web-1.example.com", &bootstrap).start();
    await_state("it is refused", || second.log().contains("name_taken")).await;
    assert!(second.is_running() && !second.home().path("state/node.creds").exists());
    door.enrolment_store().release_name(&"web-1.example.com".parse().unwrap());
    kill(Pid::from_raw(second.pid()), Signal::SIGHUP).unwrap();
    ready(&mut second).await;
    let entries = door.enrolment_store().all_entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].key, creds(second.home()).key_pair().public_key());
    assert_ne!(entries[0].key, creds(&first).key_pair().public_key());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_whoever_enrols_and_can_be_stopped_while_it_does() {
    let place = Place::new().await;
    let bootstrap = place.bootstrap(&WEB);
    let mut node = place.machine("web-1.example.com", &bootstrap).start();
    await_state("it finds no enroller", || node.log().contains("no enroller is connected")).await;
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    let mut status = None;
    await_state("it ends", || {
        status = node.exit_status();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success(), "{}", node.log());
    let _door = EnrolmentService::start(&place.organisation, &place.server, false).await;
    let home = node.home().clone();
    drop(node);
    ready(&mut home.start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_whose_time_is_over_does_not_even_reach_the_broker() {
    let place = Place::new().await;
    let over = muster_tests::now() / 1000 - 30;
    let late = place.organisation.bootstrap_account().bootstrap(&WEB, Some(over));
    let refused = options(&place.server, &late).connect().await.unwrap_err();
    assert!(refused.to_string().to_lowercase().contains("authorization"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_machines_come_in_at_once_each_as_itself() {
    let place = Place::new().await;
    let door = EnrolmentService::start(&place.organisation, &place.server, true).await;
    let bootstrap = place.bootstrap(&WEB);
    let homes: Vec<DaemonHome> =
        (0..100).map(|n| place.machine(&format!("web-{n}.example.com"), &bootstrap)).collect();
    let begun = Instant::now();
    let arriving = homes.iter().map(|home| {
        let config = Config::load(&home.path("rpcd.toml")).unwrap();
        tokio::spawn(
            async move { enrolment::ensure_enrolled(&config, &Notify::new()).await.unwrap() },
        )
    });
    let arriving: Vec<_> = arriving.collect();
    for (n, arrived) in arriving.into_iter().enumerate() {
        let config = arrived.await.unwrap();
        assert_eq!(config.identity.as_str(), format!("web-{n}.example.com"));
        let kept = homes[n].path("state/node.creds").canonicalize();
        let known = config.broker.credentials.canonicalize();
        assert_eq!(known.unwrap(), kept.unwrap());
    }
    let took = begun.elapsed();
    say(&format!("100 machines were enrolled in {took:?}"));
    assert_eq!(door.enrolment_store().all_entries().len(), 100);
    assert!(took < Duration::from_mins(1), "{took:?}");
}

#[expect(clippy::print_stderr, reason = "a figure beside the test's result")]
fn say(line: &str) {
    eprintln!("{line}");
}
