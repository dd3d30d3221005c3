//! One side of a measurement in a separate process, and the protocol with its parent.
//!
//! ```text
//! parent -> worker   {"measure":{"contender":"raw_signed","pause":...}}\n     the end of input ends the worker
//! worker -> parent   {"ready":{...}}\n                 once: the broker's version, and the address of the fleet
//!                    {"took":{"wall":...,"cpu":...}}\n
//! ```
//!
//! Sides are processes because a fleet of 10,000 nodes needs as many open files as one process usually may have;
//! callers are processes so that their cost can be separated from the nodes' cost.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use clap::Subcommand;
use muster_calls::OfflineSigner;
use muster_wire::identity::SubjectName;
use serde::{Deserialize, Serialize};

use crate::caller::BenchCaller;
use crate::fleet::DaemonFleet;
use crate::floor::{Floor, FloorCaller};
use crate::measure::Contender;
use crate::process::TimeSpent;

/// Number of threads that all nodes and the caller of a side share.
const THREADS: usize = 2;

/// The role of a worker.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum WorkerRole {
    /// Nodes on plain connections, their broker, and a caller.
    Floor {
        #[arg(long)]
        nodes: usize,
        #[arg(long)]
        shared: Option<usize>,
    },
    /// Daemons, their broker, and a caller.
    Muster {
        #[arg(long)]
        nodes: usize,
        #[arg(long)]
        shared: Option<usize>,
    },
    /// A caller of another worker's plain nodes.
    FloorAsker {
        #[arg(long)]
        nodes: usize,
        #[arg(long)]
        url: String,
    },
    /// A caller of another worker's daemons.
    MusterAsker {
        #[arg(long)]
        nodes: usize,
        #[arg(long)]
        url: String,
        #[arg(long)]
        home: PathBuf,
        #[arg(long)]
        operator: String,
        #[arg(long)]
        collective: String,
    },
}

impl WorkerRole {
    /// The arguments of `load worker`.
    fn to_arguments(&self) -> Vec<String> {
        let text = |text: &str| text.to_owned();
        let fleet = |line: &str, nodes: &usize, shared: &Option<usize>| {
            let mut arguments = vec![text(line), text("--nodes"), nodes.to_string()];
            arguments.extend(shared.iter().flat_map(|k| [text("--shared"), k.to_string()]));
            arguments
        };
        match self {
            Self::Floor { nodes, shared } => fleet("floor", nodes, shared),
            Self::Muster { nodes, shared } => fleet("muster", nodes, shared),
            Self::FloorAsker { nodes, url } => {
                let mut arguments = fleet("floor-asker", nodes, &None);
                arguments.extend([text("--url"), url.clone()]);
                arguments
            }
            Self::MusterAsker { nodes, url, home, operator, collective } => {
                let mut arguments = fleet("muster-asker", nodes, &None);
                arguments.extend([text("--url"), url.clone()]);
                arguments.extend([text("--home"), home.display().to_string()]);
                arguments.extend([text("--operator"), operator.clone()]);
                arguments.extend([text("--collective"), collective.clone()]);
                arguments
            }
        }
    }
}

/// The address of a fleet, for other processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct FleetAddress {
    pub(crate) broker: String,
    pub(crate) url: String,
    /// For daemons: the directory with the command's configuration.
    pub(crate) home: PathBuf,
    pub(crate) operator: String,
    pub(crate) collective: String,
}

/// A request of the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkerRequest {
    Measure {
        contender: Contender,
        /// How long a caller stops its thread after a request was sent.
        pause: Duration,
    },
}

/// A reply of the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WorkerReply {
    Ready(FleetAddress),
    Took(TimeSpent),
}

/// The parent's side.
pub(crate) struct Worker {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    address: FleetAddress,
}

impl Worker {
    /// Starts a worker, and waits until it is connected.
    #[expect(clippy::disallowed_types, reason = "the bench starts its own workers")]
    pub(crate) fn start(role: &WorkerRole) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("worker")
            .args(role.to_arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut worker = Self {
            requests: child.stdin.take(),
            replies: BufReader::new(child.stdout.take().unwrap()),
            child,
            address: FleetAddress::default(),
        };
        match worker.read_reply() {
            WorkerReply::Ready(address) => worker.address = address,
            WorkerReply::Took(_) => panic!("the worker replied without a request"),
        }
        worker
    }

    /// The address of its fleet.
    pub(crate) fn address(&self) -> &FleetAddress {
        &self.address
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes one measurement.
    pub(crate) fn measure(&mut self, contender: Contender) -> TimeSpent {
        self.measure_after(contender, Duration::ZERO)
    }

    /// Makes one measurement with a caller that stops its thread for this time after a request was sent.
    pub(crate) fn measure_after(&mut self, contender: Contender, pause: Duration) -> TimeSpent {
        let line = serde_json::to_string(&WorkerRequest::Measure { contender, pause }).unwrap();
        writeln!(self.requests.as_mut().unwrap(), "{line}").unwrap();
        match self.read_reply() {
            WorkerReply::Took(took) => took,
            WorkerReply::Ready(_) => panic!("the worker is ready twice"),
        }
    }

    fn read_reply(&mut self) -> WorkerReply {
        let mut line = String::new();
        let read = self.replies.read_line(&mut line).unwrap();
        assert!(read > 0, "the worker ended; its messages are above");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

/// The worker's side: connects, and executes the parent's requests.
pub(crate) fn serve(role: WorkerRole) {
    // A command has one thread, and so have the callers that it is compared with.
    let is_caller = matches!(role, WorkerRole::FloorAsker { .. } | WorkerRole::MusterAsker { .. });
    let mut runtime = if is_caller {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(THREADS).enable_all().build().unwrap();
    // The work is spawned so that the caller shares the threads with the nodes; the main thread would be a third one.
    let work = runtime.spawn(run_worker(role));
    runtime.block_on(work).unwrap();
    // 10,000 regular disconnects would take longer than the measurement; the process ends instead.
    runtime.shutdown_background();
}

/// Reports that it is ready, and executes requests until the parent closes its input.
async fn run_worker(role: WorkerRole) {
    let (mut side, address) = MeasuredSide::connect(role).await;
    send_reply(&WorkerReply::Ready(address));
    while let Some(WorkerRequest::Measure { contender, pause }) = read_request().await {
        send_reply(&WorkerReply::Took(side.measure(contender, pause).await));
    }
}

/// The measured side.
enum MeasuredSide {
    Floor(Box<Floor>),
    Muster(Box<DaemonFleet>),
    FloorAsker(Box<FloorCaller>),
    MusterAsker(Box<BenchCaller>),
}

impl MeasuredSide {
    /// Connects the side; returns it with its address.
    async fn connect(role: WorkerRole) -> (Self, FleetAddress) {
        match role {
            WorkerRole::Floor { nodes, shared } => {
                let floor = Floor::connect(nodes, shared).await;
                let address = FleetAddress {
                    broker: floor.broker(),
                    url: floor.url(),
                    ..FleetAddress::default()
                };
                (Self::Floor(Box::new(floor)), address)
            }
            WorkerRole::Muster { nodes, shared } => {
                let fleet = DaemonFleet::connect(nodes, shared).await;
                let organisation = fleet.organisation();
                let address = FleetAddress {
                    broker: fleet.broker(),
                    url: fleet.url(),
                    home: fleet.home(),
                    operator: organisation.trust().operator_key().to_string(),
                    collective: organisation.collective().to_string(),
                };
                (Self::Muster(Box::new(fleet)), address)
            }
            WorkerRole::FloorAsker { nodes, url } => {
                let is_caller = FloorCaller::connect(&url, nodes).await;
                (Self::FloorAsker(Box::new(is_caller)), FleetAddress::default())
            }
            WorkerRole::MusterAsker { nodes, url, home, operator, collective } => {
                let (creds, account) = (home.join("caller.creds"), home.join("account.jwt"));
                let user = OfflineSigner::load(&creds, &operator, &account).unwrap();
                let collective = SubjectName::parse(&collective).unwrap();
                let caller = BenchCaller::connect(url, user.signer, user.trust, collective, nodes);
                (Self::MusterAsker(Box::new(caller.await)), FleetAddress::default())
            }
        }
    }

    async fn measure(&mut self, contender: Contender, pause: Duration) -> TimeSpent {
        match self {
            Self::Floor(floor) => floor.measure(contender).await,
            Self::Muster(fleet) => fleet.measure(contender).await,
            Self::FloorAsker(is_caller) => {
                is_caller.pause = pause;
                is_caller.measure(contender).await
            }
            Self::MusterAsker(caller) => {
                caller.pause = pause;
                match contender {
                    Contender::Command => caller.measure_command().await,
                    Contender::NewClient => caller.measure_new_client().await,
                    _ => caller.measure_warm().await,
                }
            }
        }
    }
}

fn send_reply(answer: &WorkerReply) {
    println!("{}", serde_json::to_string(answer).unwrap());
}

/// The next request; `None` when the parent has closed its input.
async fn read_request() -> Option<WorkerRequest> {
    let read = || std::io::stdin().lines().next().map(Result::unwrap);
    let line = tokio::task::spawn_blocking(read).await.unwrap()?;
    Some(serde_json::from_str(&line).unwrap())
}
