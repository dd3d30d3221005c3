//! One side of the comparison in a process of its own, and the line that its parent has to it.
//!
//! ```text
//! parent -> worker   "raw_signed"\n          what to measure next; the end of input is the end of the worker
//! worker -> parent   ready 2.15.1\n          once, with the broker's version
//!                    81234\n                 microseconds
//! ```
//!
//! Two processes, because a fleet of ten thousand fills the open files that one process commonly may have.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use crate::fleet::Fleet;
use crate::floor::Floor;
use crate::measure::{Contender, Side};

/// Threads that all nodes and the asker of a side share.
const THREADS: usize = 2;

/// The parent's end.
pub(crate) struct Worker {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    broker: String,
}

impl Worker {
    /// Starts a worker, and waits until its fleet is connected.
    #[expect(clippy::disallowed_types, reason = "the bench starts its own sides")]
    pub(crate) fn start(side: Side, nodes: usize) -> Self {
        let word = match side {
            Side::Floor => "floor",
            Side::Muster => "muster",
        };
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["worker", word, "--nodes", &nodes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut worker = Self {
            questions: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            broker: String::new(),
        };
        let ready = worker.line();
        ready
            .strip_prefix("ready ")
            .unwrap()
            .clone_into(&mut worker.broker);
        worker
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> &str {
        &self.broker
    }

    /// One measurement.
    pub(crate) fn measure(&mut self, contender: Contender) -> Duration {
        let word = serde_json::to_string(&contender).unwrap();
        writeln!(self.questions.as_mut().unwrap(), "{word}").unwrap();
        Duration::from_micros(self.line().parse().unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).unwrap();
        assert!(read > 0, "the worker ended; what it said is above");
        line.trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.questions.take());
        let _ = self.child.wait();
    }
}

/// The worker's end: connects a fleet, and measures what it is told to.
pub(crate) fn serve(side: Side, nodes: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    // Spawned, so that the asker shares the threads with the nodes: this one would be a third.
    let work = runtime.spawn(work(side, nodes));
    runtime.block_on(work).unwrap();
    // Ten thousand orderly good-byes would take longer than the measurement; the process ends instead.
    runtime.shutdown_background();
}

async fn work(side: Side, nodes: usize) {
    match side {
        Side::Floor => {
            let mut floor = Floor::connect(nodes).await;
            println!("ready {}", floor.broker());
            while let Some(contender) = question().await {
                println!("{}", floor.measure(contender).await.as_micros());
            }
        }
        Side::Muster => {
            let fleet = Fleet::connect(nodes).await;
            println!("ready {}", fleet.broker());
            while let Some(contender) = question().await {
                println!("{}", fleet.measure(contender).await.as_micros());
            }
        }
    }
}

/// What to measure next; `None` when the parent wants no more.
async fn question() -> Option<Contender> {
    let read = || std::io::stdin().lines().next().map(Result::unwrap);
    let line = tokio::task::spawn_blocking(read).await.unwrap()?;
    Some(serde_json::from_str(&line).unwrap())
}
