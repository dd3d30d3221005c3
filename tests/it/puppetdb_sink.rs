//! What a `PuppetDB` gets of a fleet, while it answers, is away, refuses and hangs. A server of the test is the `PuppetDB`.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::sign::Signer;
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::monitoring::{METRICS_CONFIG, await_metrics_address, await_sample, scrape};

const HOST: &str = "services.acme.net";
const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nexcluded_facts = [\"networking.interfaces\", \"mountpoints\"]\n";
const ENGINE: &str = "[plugins.puppetral]\ndeny_types = []\n[plugins.catalog]\nenabled = true\nstate_dir = \"../engine\"\npuppet_state = []\n";

/// What the server does with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// It reads the command and never answers.
    Nothing,
}

/// A command that was received.
#[derive(Debug, Clone)]
struct ReceivedCommand {
    parameters: BTreeMap<String, String>,
    body: Value,
    answer: Answer,
}

#[derive(Debug, Default)]
struct ReceiverState {
    received: Vec<ReceivedCommand>,
    /// By the name of the command: what is answered to the next ones. Then all are accepted.
    next: BTreeMap<String, VecDeque<Answer>>,
}

/// A server that takes commands.
#[derive(Debug)]
struct CommandReceiver {
    url: String,
    state: Arc<Mutex<ReceiverState>>,
    running: JoinHandle<()>,
}

fn lock(state: &Mutex<ReceiverState>) -> MutexGuard<'_, ReceiverState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommandReceiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<ReceiverState>> = Arc::default();
        let shared = Arc::clone(&state);
        let running = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive_command(stream, Arc::clone(&shared)));
            }
        });
        Self { url, state, running }
    }

    /// What the next commands of this name are answered.
    fn answer_next(&self, command: &str, answers: &[Answer]) {
        let next = answers.iter().copied().collect();
        lock(&self.state).next.insert(command.to_owned(), next);
    }

    /// The commands of this name about a node, also those that were not accepted.
    fn received(&self, command: &str, node: &str) -> Vec<ReceivedCommand> {
        let all = lock(&self.state).received.clone();
        let is_wanted = |received: &ReceivedCommand| {
            received.parameters["command"] == command && received.parameters["certname"] == node
        };
        all.into_iter().filter(is_wanted).collect()
    }

    /// The bodies that were accepted, without those that were sent again.
    fn accepted(&self, command: &str, node: &str) -> Vec<Value> {
        let mut bodies: Vec<Value> = Vec::new();
        for received in self.received(command, node) {
            if received.answer == Answer::Status(200) && !bodies.contains(&received.body) {
                bodies.push(received.body);
            }
        }
        bodies
    }

    async fn await_accepted(&self, command: &str, node: &str, count: usize) -> Vec<Value> {
        poll_until_ok("the commands are accepted", TIMEOUT, async || {
            let accepted = self.accepted(command, node);
            if accepted.len() >= count {
                Ok(accepted)
            } else {
                Err(format!("{} of {count}", accepted.len()))
            }
        })
        .await
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Reads one command, and answers as is planned for it.
async fn receive_command(mut stream: TcpStream, state: Arc<Mutex<ReceiverState>>) {
    let mut bytes = Vec::new();
    let (head, start) = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break (String::from_utf8(bytes[..end].to_vec()).unwrap(), end + 4);
        }
        if stream.read_buf(&mut bytes).await.unwrap_or_default() == 0 {
            return;
        }
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let end = start + length.unwrap_or(0_usize);
    while bytes.len() < end {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the body is cut off");
    }
    let target = head.split_whitespace().nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap();
    assert_eq!(path, "/pdb/cmd/v1");
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    let parameters: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_owned(), value.replace("%3A", ":"))).collect();
    let answer = {
        let mut state = lock(&state);
        let next = state.next.get_mut(&parameters["command"]);
        let answer = next.and_then(VecDeque::pop_front).unwrap_or(Answer::Status(200));
        let body = serde_json::from_slice(&bytes[start..end]).unwrap();
        state.received.push(ReceivedCommand { parameters, body, answer });
        answer
    };
    let Answer::Status(status) = answer else { return pending().await };
    let body = if status == 200 { r#"{"uuid": "x"}"# } else { r#"{"error": "not now"}"# };
    let text = format!(
        "HTTP/1.1 {status} Planned\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
}

/// A broker, a host with the directory, the history and the sink, and the files of a node.
struct SinkFleet {
    organisation: Organisation,
    server: NatsServer,
    rpc: RpcCommand,
    receiver: CommandReceiver,
}

impl SinkFleet {
    async fn start() -> Self {
        let mut organisation = Organisation::new(&["muster"]);
        organisation.list_services(ServiceRight::History, &["history1"]);
        let server = organisation.start_broker_with_stores().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        Self { organisation, server, rpc, receiver: CommandReceiver::start().await }
    }

    fn home(&self, name: &str, more: &str) -> DaemonHome {
        let node = self.organisation.node(name);
        let more = format!("{REGISTRATION}{more}");
        DaemonHome::new(&self.organisation, &node, &self.server.url(), &more)
    }

    fn host(&self) -> DaemonHome {
        let home = self.home(HOST, METRICS_CONFIG);
        let history = self.organisation.service(ServiceRight::History, "history1");
        let directory = self.organisation.service(ServiceRight::Directory, "directory1");
        write_credentials(&home, "history.creds", &history);
        write_credentials(&home, "directory.creds", &directory);
        let options = format!(
            "[plugins.directory]\nenabled = true\ncredentials = \"../directory.creds\"\n\
             [plugins.history]\nenabled = true\ncredentials = \"../history.creds\"\ndirectory = \"{}\"\n\
             [plugins.puppetdb]\nenabled = true\nurl = \"{}\"\ndirectory = \"{}\"\ntimeout_seconds = 1\n",
            home.path("index").display(),
            self.receiver.url,
            home.path("sink").display(),
        );
        home.write("conf.d/services.toml", &options, 0o644);
        home
    }

    /// Applies a catalog on the node.
    async fn apply(&self, home: &DaemonHome, message: &str) {
        let resource = json!({"type": "Notify", "title": message, "tags": [], "exported": false});
        let catalog = json!({
            "name": NODE, "version": 1, "environment": "production", "catalog_format": 1,
            "resources": [resource], "edges": [], "classes": [],
        });
        home.write("catalog.json", &catalog.to_string(), 0o644);
        let file = format!("file={}", home.path("catalog.json").display());
        let output = self.rpc.run(&["do", "catalog", "apply", &file, "-I", NODE]).await;
        assert!(output.status.success(), "{}", describe_output(&output));
    }
}

fn write_credentials(home: &DaemonHome, name: &str, service: &Signer) {
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write(name, &creds.to_text(), 0o600);
}

fn messages(reports: &[Value]) -> Vec<&str> {
    reports
        .iter()
        .map(|report| report["resources"][0]["resource_title"].as_str().unwrap())
        .collect()
}

fn dead_letters(host: &Rpcd) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.home().path("sink/dead")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_arrive_in_order_also_after_failures_and_a_restart() {
    let fleet = SinkFleet::start().await;
    let receiver = &fleet.receiver;
    receiver.answer_next("replace_facts", &[Answer::Status(503)]);
    let refused = [Answer::Status(503), Answer::Status(200), Answer::Status(400), Answer::Nothing];
    receiver.answer_next("store_report", &refused);
    let mut host = fleet.host().start();
    let address = await_metrics_address(&mut host).await;
    let home = fleet.home(NODE, ENGINE);
    home.write("facts.d/site.json", r#"{"role": "first"}"#, 0o644);
    let node = home.clone().start();

    // Facts of both nodes, although the first command was not accepted.
    let facts = receiver.await_accepted("replace_facts", NODE, 1).await;
    receiver.await_accepted("replace_facts", HOST, 1).await;
    assert_eq!(facts[0]["values"]["role"], "first");
    assert_eq!(facts[0]["values"]["trusted"]["certname"], NODE);
    for message in ["one", "two", "three"] {
        fleet.apply(&home, message).await;
    }
    // The first report was repeated, the second one is refused, and the third one is not answered.
    poll_until_ok("the third report is sent", TIMEOUT, async || {
        let count = receiver.received("store_report", NODE).len();
        if count >= 4 { Ok(()) } else { Err(count) }
    })
    .await;
    await_sample(&address, "muster_puppetdb_failed_total{command=\"report\"}", "1").await;
    let samples = scrape(&address).await;
    assert_eq!(samples["muster_puppetdb_sent_total{command=\"report\"}"], "1");
    let [letter] = &dead_letters(&host)[..] else { panic!("{:?}", dead_letters(&host)) };
    let letter: Value = serde_json::from_slice(&fs::read(letter).unwrap()).unwrap();
    assert_eq!((&letter["status"], &letter["command"]), (&json!(400), &json!("store_report")));
    assert_eq!(letter["reason"], r#"{"error": "not now"}"#);
    assert_eq!(letter["payload"]["resources"][0]["resource_title"], "two");
    // Without a stored state, the next daemon would send it again.
    let run = letter["payload"]["transaction_uuid"].as_str().unwrap();
    let state = host.home().path("sink/state.json");
    await_state("the state is stored", || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains(run))
    })
    .await;

    // While the sink is away, a run ends and a fact changes.
    host.kill_and_wait();
    fleet.apply(&home, "four").await;
    home.write("facts.d/site.json", r#"{"role": "second"}"#, 0o644);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(node.pid()),
        nix::sys::signal::Signal::SIGHUP,
    )
    .unwrap();
    let host = host.home().clone().start();
    let reports = receiver.await_accepted("store_report", NODE, 3).await;
    assert_eq!(messages(&reports), ["one", "three", "four"]);
    let last = poll_until_ok("the changed fact arrives", TIMEOUT, async || {
        let facts = receiver.accepted("replace_facts", NODE);
        let last = facts.last().cloned().unwrap();
        if last["values"]["role"] == "second" { Ok(facts) } else { Err(facts.len()) }
    })
    .await;
    let times: Vec<&str> =
        last.iter().map(|facts| facts["producer_timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
    assert_eq!(dead_letters(&host).len(), 1);
    for received in receiver.received("store_report", NODE) {
        let time = received.body["producer_timestamp"].as_str().unwrap();
        assert_eq!(received.parameters["producer-timestamp"], time);
        assert_eq!(received.parameters["version"], "8");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_without_anything_to_send_is_refused() {
    let fleet = SinkFleet::start().await;
    let options = format!("[plugins.puppetdb]\nenabled = true\nurl = \"{}\"\n", fleet.receiver.url);
    let mut host = fleet.home(HOST, &options).start();
    let status = poll_until_ok("the daemon ends", TIMEOUT, async || {
        host.exit_status().ok_or_else(|| host.log())
    })
    .await;
    assert!(!status.success());
    assert!(
        host.log().contains("enable directory, compiler or history here, too"),
        "{}",
        host.log()
    );
}
