//! Copies a file of nodes to this machine.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_calls::{ClientError, RolloutStopReason};
use muster_client::jobs::JobEnd;
use muster_client::{
    FleetConnection, FleetRequestError, InterruptListener, Located, RequestEvent, RequestObserver,
};
use muster_contract::filecopy::{
    FilecopyInspectInput, FilecopyInspectOutput, FilecopyReadInput, FilecopyReadOutput,
    MAX_READ_BYTES, decode_chunk,
};
use muster_wire::identity::Identity;
use tokio::task::{JoinHandle, JoinSet};

use super::part_file::{PartFile, TargetState};
use super::push::failed_outcome;
use super::report::{CopyReport, NodeCopyOutcome, NodeCopyResult};
use super::{INSPECT, READ};
use crate::steps::{StepAnswer, StepChannel};

/// Maximum number of nodes that send their file at the same time.
const MAX_NODES: usize = 4;
/// Maximum number of parts in flight from a node.
const WINDOW: usize = 4;
/// Interval in which progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// A file of nodes.
#[derive(Debug, Clone, Copy)]
pub struct FetchRequest<'a> {
    /// The file: an absolute path on the nodes.
    pub path: &'a str,
    /// Where it is written on this machine.
    pub destination: &'a FetchDestination,
}

/// Where fetched files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchDestination {
    /// A file, for one node.
    File(PathBuf),
    /// A directory, with a file for each node: the name of the file, a dot, and the name of the node.
    Directory(PathBuf),
}

impl FetchDestination {
    /// The file for this node.
    pub fn file_for(&self, path: &str, node: &Identity) -> PathBuf {
        match self {
            Self::File(file) => file.clone(),
            Self::Directory(directory) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                directory.join(format!("{name}.{node}"))
            }
        }
    }
}

/// Copies the file of each node to this machine. An interrupt ends the copies; another call continues them.
pub async fn fetch_file(
    fleet: &FleetConnection,
    request: FetchRequest<'_>,
    found: Located,
    observer: &dyn RequestObserver,
) -> Result<CopyReport, FleetRequestError> {
    let started = Instant::now();
    let Located { nodes, filter, .. } = found;
    let channel = StepChannel::new(fleet, filter);
    let (mut results, mut stop) = (BTreeMap::new(), None);
    let (total, copied) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    observer.observe(RequestEvent::CopyStarted(0));
    let mut waiting: VecDeque<Identity> = nodes.iter().cloned().collect();
    let mut tasks: JoinSet<Result<(Identity, NodeCopyResult), ClientError>> = JoinSet::new();
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    let mut interrupt = InterruptListener::listen();
    loop {
        while tasks.len() < MAX_NODES
            && let Some(node) = waiting.pop_front()
        {
            let fetcher = FileFetcher {
                channel: channel.clone(),
                path: request.path.to_owned(),
                target: request.destination.file_for(request.path, &node),
                node,
                total: Arc::clone(&total),
                copied: Arc::clone(&copied),
            };
            tasks.spawn(fetcher.run());
        }
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => break,
                Some(ended) => {
                    let (node, result) = ended.map_err(|_| ClientError::Unfinished)??;
                    results.insert(node, result);
                }
            },
            _ = ticks.tick() => {
                observer.observe(RequestEvent::CopyStarted(total.load(Ordering::Relaxed)));
                observer.observe(RequestEvent::BytesCounted(copied.load(Ordering::Relaxed)));
            }
            () = interrupt.wait_for_signal() => {
                stop = Some(RolloutStopReason::Interrupted);
                tasks.shutdown().await;
                break;
            }
        }
    }
    observer.observe(RequestEvent::CallsEnded(JobEnd::of_rollout(stop)));
    Ok(CopyReport::complete(results, nodes, stop, started))
}

/// Copies the file of one node.
struct FileFetcher {
    channel: StepChannel,
    node: Identity,
    path: String,
    target: PathBuf,
    /// Bytes of all files.
    total: Arc<AtomicU64>,
    /// Bytes that were copied, or need not be.
    copied: Arc<AtomicU64>,
}

/// Why a file was not fetched.
#[derive(Debug)]
enum FetchFailure {
    /// The result of the node.
    Outcome(NodeCopyOutcome),
    /// A file of this machine cannot be read or written.
    Local(io::Error),
    /// The request cannot be sent.
    Client(ClientError),
}

impl From<io::Error> for FetchFailure {
    fn from(error: io::Error) -> Self {
        Self::Local(error)
    }
}

impl From<ClientError> for FetchFailure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl FileFetcher {
    async fn run(self) -> Result<(Identity, NodeCopyResult), ClientError> {
        let fetched = match self.inspect().await {
            Ok(remote) => {
                self.fetch(&remote).await.map(|(outcome, resumed_bytes)| NodeCopyResult {
                    outcome,
                    bytes: remote.size,
                    resumed_bytes,
                    file: Some(self.target.clone()),
                    sha256: Some(remote.sha256),
                })
            }
            Err(failure) => Err(failure),
        };
        let result = match fetched {
            Ok(result) => result,
            Err(FetchFailure::Outcome(outcome)) => NodeCopyResult::new(outcome),
            Err(FetchFailure::Local(error)) => {
                let message = format!("cannot write {}: {error}", self.target.display());
                NodeCopyResult::new(NodeCopyOutcome::Failed(message.into()))
            }
            Err(FetchFailure::Client(error)) => return Err(error),
        };
        Ok((self.node, result))
    }

    async fn inspect(&self) -> Result<FilecopyInspectOutput, FetchFailure> {
        let input = FilecopyInspectInput { path: self.path.clone() };
        let answer = self.channel.ask_node(&INSPECT, &input, &self.node).await?;
        read_answer(answer, "at the start")
    }

    /// Receives, verifies and renames the file. Returns the outcome, and the bytes that an interrupted copy had left.
    async fn fetch(
        &self,
        remote: &FilecopyInspectOutput,
    ) -> Result<(NodeCopyOutcome, u64), FetchFailure> {
        self.total.fetch_add(remote.size, Ordering::Relaxed);
        let state = examine_blocking(&self.target, remote).await?;
        if state == TargetState::Same {
            self.copied.fetch_add(remote.size, Ordering::Relaxed);
            return Ok((NodeCopyOutcome::Unchanged, 0));
        }
        let mut parts = PartFile::open(&self.target, &self.node, remote)?;
        let resumed = parts.length;
        self.copied.fetch_add(resumed, Ordering::Relaxed);
        match self.receive(remote, &mut parts).await {
            Ok(()) => {}
            // A node that is away for a time: another copy continues with the parts.
            Err(failure @ FetchFailure::Outcome(NodeCopyOutcome::NoReply(_))) => {
                return Err(failure);
            }
            Err(failure) => {
                parts.remove();
                return Err(failure);
            }
        }
        let sha256 = remote.sha256.clone();
        let (parts, is_same) = tokio::task::spawn_blocking(move || {
            let is_same = parts.has_digest(&sha256);
            (parts, is_same)
        })
        .await
        .map_err(io::Error::other)?;
        if !is_same? {
            parts.remove();
            let message = "the copy was discarded: its SHA-256 differs; copy it again".to_owned();
            return Err(FetchFailure::Outcome(NodeCopyOutcome::Failed(message.into())));
        }
        parts.replace_target(&state)?;
        Ok((NodeCopyOutcome::Copied, resumed))
    }

    /// Reads the parts that are missing, in order, several of them at a time.
    async fn receive(
        &self,
        remote: &FilecopyInspectOutput,
        parts: &mut PartFile,
    ) -> Result<(), FetchFailure> {
        let mut requested = parts.length;
        let mut window: VecDeque<AbortingTask> = VecDeque::new();
        loop {
            while window.len() < WINDOW && requested < remote.size {
                let bytes = MAX_READ_BYTES.min(remote.size - requested);
                window.push_back(self.spawn_read(remote, (requested, bytes)));
                requested += bytes;
            }
            let Some(mut first) = window.pop_front() else {
                return Ok(());
            };
            let answer = (&mut first.0).await.map_err(io::Error::other)??;
            let output = read_answer(answer, "while the parts were read")?;
            let content = decode_chunk(&output.content).filter(|content| {
                let left = remote.size - parts.length;
                content.len() as u64 == MAX_READ_BYTES.min(left)
            });
            let Some(content) = content else {
                let message = "the node sent a part of the wrong size".to_owned();
                return Err(FetchFailure::Outcome(NodeCopyOutcome::Failed(message.into())));
            };
            parts.append(&content)?;
            self.copied.fetch_add(content.len() as u64, Ordering::Relaxed);
        }
    }

    fn spawn_read(
        &self,
        remote: &FilecopyInspectOutput,
        (offset, bytes): (u64, u64),
    ) -> AbortingTask {
        let input = FilecopyReadInput {
            path: self.path.clone(),
            version: remote.version.clone(),
            offset,
            bytes,
        };
        let (channel, node) = (self.channel.clone(), self.node.clone());
        AbortingTask(tokio::spawn(async move { channel.ask_node(&READ, &input, &node).await }))
    }
}

/// A read in a task of its own; dropping it aborts the task.
struct AbortingTask(JoinHandle<Result<StepAnswer<FilecopyReadOutput>, ClientError>>);

impl Drop for AbortingTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn examine_blocking(
    target: &Path,
    remote: &FilecopyInspectOutput,
) -> Result<TargetState, FetchFailure> {
    let (target, remote) = (target.to_owned(), remote.clone());
    let examined = tokio::task::spawn_blocking(move || TargetState::examine(&target, &remote));
    Ok(examined.await.map_err(io::Error::other)??)
}

/// The outputs of a step.
fn read_answer<T>(answer: StepAnswer<T>, when: &str) -> Result<T, FetchFailure> {
    match answer {
        StepAnswer::Done(output) => Ok(output),
        answer => Err(FetchFailure::Outcome(failed_outcome(answer, when))),
    }
}

#[cfg(test)]
mod tests {
    use super::FetchDestination;

    #[test]
    fn directory_has_a_file_for_each_node() {
        let node = "web1.acme.net".parse().unwrap();
        let directory = FetchDestination::Directory("logs".into());
        assert_eq!(
            directory.file_for("/var/log/app.log", &node),
            "logs/app.log.web1.acme.net".as_ref() as &std::path::Path
        );
        let file = FetchDestination::File("x".into());
        assert_eq!(file.file_for("/var/log/app.log", &node), "x".as_ref() as &std::path::Path);
    }
}
