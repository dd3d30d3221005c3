//! Part of a measurement in a process of its own, and the line that its parent has to it.
//!
//! ```text
//! parent -> worker   {"measure":"raw_signed"}\n       what to do next; the end of input is the end of the worker
//! worker -> parent   {"ready":{...}}\n                 once: the broker's version, and how others can reach the fleet
//!                    {"took":{"wall":...,"cpu":...}}\n
//! ```
//!
//! Sides are processes because a fleet of ten thousand fills the open files that one process commonly may have; askers, so that what they
//! cost can be told from what nodes cost.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use clap::Subcommand;
use muster_client::OfflineSigner;
use muster_wire::identity::SubjectName;
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::fleet::Fleet;
use crate::floor::{Asker, Floor};
use crate::measure::Contender;
use crate::process::Took;

/// Threads that all nodes and the asker of a side share.
const THREADS: usize = 2;

/// What a worker is.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Part {
    /// Bare nodes, their broker, and an asker.
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
    /// Somebody who asks another worker's bare nodes.
    FloorAsker {
        #[arg(long)]
        nodes: usize,
        #[arg(long)]
        url: String,
    },
    /// Somebody who asks another worker's daemons.
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

impl Part {
    /// As arguments of `load worker`.
    fn words(&self) -> Vec<String> {
        let text = |text: &str| text.to_owned();
        let fleet = |word: &str, nodes: &usize, shared: &Option<usize>| {
            let mut words = vec![text(word), text("--nodes"), nodes.to_string()];
            words.extend(shared.iter().flat_map(|k| [text("--shared"), k.to_string()]));
            words
        };
        match self {
            Self::Floor { nodes, shared } => fleet("floor", nodes, shared),
            Self::Muster { nodes, shared } => fleet("muster", nodes, shared),
            Self::FloorAsker { nodes, url } => {
                let mut words = fleet("floor-asker", nodes, &None);
                words.extend([text("--url"), url.clone()]);
                words
            }
            Self::MusterAsker { nodes, url, home, operator, collective } => {
                let mut words = fleet("muster-asker", nodes, &None);
                words.extend([text("--url"), url.clone()]);
                words.extend([text("--home"), home.display().to_string()]);
                words.extend([text("--operator"), operator.clone()]);
                words.extend([text("--collective"), collective.clone()]);
                words
            }
        }
    }
}

/// How a fleet can be reached by others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EnrolmentService {
    pub(crate) broker: String,
    pub(crate) url: String,
    /// Of daemons: a directory with the command's configuration.
    pub(crate) home: PathBuf,
    pub(crate) operator: String,
    pub(crate) collective: String,
}

/// What the parent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    Measure {
        contender: Contender,
        /// How long an asker looks away once it has asked.
        pause: Duration,
    },
}

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready(EnrolmentService),
    Took(Took),
}

/// The parent's end.
pub(crate) struct Worker {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    door: EnrolmentService,
}

impl Worker {
    /// Starts a worker, and waits until it is connected.
    #[expect(clippy::disallowed_types, reason = "the bench starts its own parts")]
    pub(crate) fn start(part: &Part) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("worker")
            .args(part.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut worker = Self {
            questions: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            door: EnrolmentService::default(),
        };
        match worker.answer() {
            Answer::Ready(door) => worker.door = door,
            Answer::Took(_) => panic!("the worker answers what nobody asked"),
        }
        worker
    }

    /// How its fleet can be reached.
    pub(crate) fn door(&self) -> &EnrolmentService {
        &self.door
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// One measurement.
    pub(crate) fn measure(&mut self, contender: Contender) -> Took {
        self.measure_after(contender, Duration::ZERO)
    }

    /// One measurement by an asker that looks away for so long once it has asked.
    pub(crate) fn measure_after(&mut self, contender: Contender, pause: Duration) -> Took {
        let word = serde_json::to_string(&Question::Measure { contender, pause }).unwrap();
        writeln!(self.questions.as_mut().unwrap(), "{word}").unwrap();
        match self.answer() {
            Answer::Took(took) => took,
            Answer::Ready(_) => panic!("the worker is ready twice"),
        }
    }

    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).unwrap();
        assert!(read > 0, "the worker ended; what it said is above");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.questions.take());
        let _ = self.child.wait();
    }
}

/// The worker's end: connects, and measures what it is told to.
pub(crate) fn serve(part: Part) {
    // A command has one thread, and so has whoever is compared with it.
    let asker = matches!(part, Part::FloorAsker { .. } | Part::MusterAsker { .. });
    let mut runtime = if asker {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(THREADS).enable_all().build().unwrap();
    // Spawned, so that the asker shares the threads with the nodes: this one would be a third.
    let work = runtime.spawn(work(part));
    runtime.block_on(work).unwrap();
    // Ten thousand orderly good-byes would take longer than the measurement; the process ends instead.
    runtime.shutdown_background();
}

/// Says that it is ready, and does what it is told until the parent wants no more.
async fn work(part: Part) {
    let (mut subject, door) = Subject::of(part).await;
    say(&Answer::Ready(door));
    while let Some(Question::Measure { contender, pause }) = question().await {
        say(&Answer::Took(subject.measure(contender, pause).await));
    }
}

/// What is measured.
enum Subject {
    Floor(Box<Floor>),
    Muster(Box<Fleet>),
    FloorAsker(Box<Asker>),
    MusterAsker(Box<Caller>),
}

impl Subject {
    /// Connected, and how others can reach it.
    async fn of(part: Part) -> (Self, EnrolmentService) {
        match part {
            Part::Floor { nodes, shared } => {
                let floor = Floor::connect(nodes, shared).await;
                let door = EnrolmentService {
                    broker: floor.broker(),
                    url: floor.url(),
                    ..EnrolmentService::default()
                };
                (Self::Floor(Box::new(floor)), door)
            }
            Part::Muster { nodes, shared } => {
                let fleet = Fleet::connect(nodes, shared).await;
                let organisation = fleet.organisation();
                let door = EnrolmentService {
                    broker: fleet.broker(),
                    url: fleet.url(),
                    home: fleet.home(),
                    operator: organisation.trust().operator_key().to_string(),
                    collective: organisation.collective().to_string(),
                };
                (Self::Muster(Box::new(fleet)), door)
            }
            Part::FloorAsker { nodes, url } => {
                let asker = Asker::connect(&url, nodes).await;
                (Self::FloorAsker(Box::new(asker)), EnrolmentService::default())
            }
            Part::MusterAsker { nodes, url, home, operator, collective } => {
                let (creds, account) = (home.join("caller.creds"), home.join("account.jwt"));
                let person = OfflineSigner::load(&creds, &operator, &account).unwrap();
                let collective = SubjectName::parse(&collective).unwrap();
                let caller = Caller::connect(url, person.signer, person.trust, collective, nodes);
                (Self::MusterAsker(Box::new(caller.await)), EnrolmentService::default())
            }
        }
    }

    async fn measure(&mut self, contender: Contender, pause: Duration) -> Took {
        match self {
            Self::Floor(floor) => floor.measure(contender).await,
            Self::Muster(fleet) => fleet.measure(contender).await,
            Self::FloorAsker(asker) => {
                asker.pause = pause;
                asker.measure(contender).await
            }
            Self::MusterAsker(caller) => {
                caller.pause = pause;
                match contender {
                    Contender::Command => caller.command().await,
                    Contender::NewClient => caller.forgetful().await,
                    _ => caller.warm().await,
                }
            }
        }
    }
}

fn say(answer: &Answer) {
    println!("{}", serde_json::to_string(answer).unwrap());
}

/// What to do next; `None` when the parent wants no more.
async fn question() -> Option<Question> {
    let read = || std::io::stdin().lines().next().map(Result::unwrap);
    let line = tokio::task::spawn_blocking(read).await.unwrap()?;
    Some(serde_json::from_str(&line).unwrap())
}
