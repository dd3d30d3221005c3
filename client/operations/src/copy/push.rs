//! Copies a file of this machine to nodes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use muster_base::error_chain;
use muster_calls::ClientError;
use muster_client::{
    BatchPace, FleetConnection, FleetRequestError, Located, RequestEvent, RequestObserver,
};
use muster_contract::filecopy::{
    FilecopyBeginInput, FilecopyTransferInput, FilecopyWriteInput, FilecopyWriteOutput,
    begin_state, encode_chunk,
};
use muster_wire::identity::Identity;
use tokio::task::JoinSet;

use super::local_file::{LocalFile, LocalFileError};
use super::report::{CopyReport, NodeCopyOutcome, NodeCopyResult};
use super::transfers::{MAX_GROUP_NODES, Receiver, Receivers, chunk_size, window_size};
use super::{ABORT, BEGIN, FINISH, WRITE};
use crate::batches::collect_results;
use crate::steps::{StepAnswer, StepChannel};

/// A file for nodes.
#[derive(Debug, Clone, Copy)]
pub struct PushRequest<'a> {
    /// The file.
    pub file: &'a LocalFile,
    /// The target: an absolute path on the nodes.
    pub path: &'a str,
    /// Mode of the target, in octal; an existing target keeps its own, and a new one gets that of the file.
    pub mode: Option<&'a str>,
    /// Owner of the target, a name or number on the node.
    pub owner: Option<&'a str>,
    /// Group of the target, a name or number on the node.
    pub group: Option<&'a str>,
    /// Batches and stop conditions.
    pub pace: BatchPace,
}

/// Results by node.
type CopyResults = BTreeMap<Identity, NodeCopyResult>;

/// What the answers to a part were, and how many bytes it has.
type PartAnswers = (u64, BTreeMap<Identity, StepAnswer<FilecopyWriteOutput>>);

/// The state of a copy to nodes.
struct FilePusher<'a> {
    request: &'a PushRequest<'a>,
    channel: StepChannel,
    observer: &'a dyn RequestObserver,
    chunk_bytes: u64,
    /// Bytes that were copied, or need not be.
    counted: Cell<u64>,
}

/// Copies the file to the nodes, batch by batch. An interrupt ends the copy; the nodes keep the parts that they have, so that another copy
/// continues from there.
pub async fn push_file(
    fleet: &FleetConnection,
    request: &PushRequest<'_>,
    found: Located,
    observer: &dyn RequestObserver,
) -> Result<CopyReport, FleetRequestError> {
    let Located { nodes, filter, .. } = found;
    let pusher = FilePusher {
        request,
        channel: StepChannel::new(fleet, filter),
        observer,
        chunk_bytes: chunk_size(fleet.client.max_payload()),
        counted: Cell::new(0),
    };
    let total = request.file.size.saturating_mul(nodes.len() as u64);
    observer.observe(RequestEvent::CopyStarted(total));
    let report = collect_results(nodes, request.pace, observer, async |batch, results| {
        pusher.push_to_batch(batch, results).await
    });
    Ok(report.await?)
}

impl FilePusher<'_> {
    /// Copies the file to the nodes of a batch, some of them at a time.
    async fn push_to_batch(
        &self,
        batch: BTreeSet<Identity>,
        results: &mut CopyResults,
    ) -> Result<(), ClientError> {
        let nodes: Vec<Identity> = batch.into_iter().collect();
        for group in nodes.chunks(MAX_GROUP_NODES) {
            let group = group.iter().cloned().collect();
            Box::pin(self.push_to_group(group, results)).await?;
        }
        Ok(())
    }

    async fn push_to_group(
        &self,
        group: BTreeSet<Identity>,
        results: &mut CopyResults,
    ) -> Result<(), ClientError> {
        let mut receivers = self.begin(group, results).await?;
        let sent = self.send_parts(&mut receivers, results).await?;
        match sent.and_then(|()| self.request.file.check_unchanged()) {
            Ok(()) => self.finish(receivers, results).await,
            Err(problem) => self.abandon(receivers, &problem, results).await,
        }
    }

    /// Prepares the copy on the nodes. Nodes that need no parts have a result afterwards.
    async fn begin(
        &self,
        nodes: BTreeSet<Identity>,
        results: &mut CopyResults,
    ) -> Result<Receivers, ClientError> {
        let PushRequest { file, path, mode, owner, group, .. } = *self.request;
        let text = |value: Option<&str>| value.map(str::to_owned);
        let input = FilecopyBeginInput {
            path: path.to_owned(),
            size: file.size,
            sha256: file.sha256.clone(),
            chunk_bytes: self.chunk_bytes,
            mode: text(mode),
            new_mode: Some(format!("{:04o}", file.mode)),
            owner: text(owner),
            group: text(group),
        };
        let mut receivers = Receivers::default();
        for (node, answer) in self.channel.ask_nodes(&BEGIN, &input, nodes).await? {
            match answer {
                StepAnswer::Done(begun) if begun.state == begin_state::READY => {
                    let receiver = Receiver::from(begun);
                    self.count_bytes(file.size - self.missing_bytes(&receiver));
                    receivers.insert(node, receiver);
                }
                StepAnswer::Done(begun) => {
                    let outcome = match begun.state.as_str() {
                        begin_state::ATTRIBUTES => NodeCopyOutcome::AttributesSet,
                        _ => NodeCopyOutcome::Unchanged,
                    };
                    results.insert(node, self.result(outcome, Some(begun.path), 0));
                    self.count_bytes(file.size);
                }
                answer => {
                    let outcome = failed_outcome(answer, "at the start");
                    results.insert(node, self.result(outcome, None, 0));
                    self.count_bytes(file.size);
                }
            }
        }
        Ok(receivers)
    }

    /// Sends each part to the nodes that lack it. Nodes that fail are removed and have a result.
    async fn send_parts(
        &self,
        receivers: &mut Receivers,
        results: &mut CopyResults,
    ) -> Result<Result<(), LocalFileError>, ClientError> {
        let window = window_size(self.chunk_bytes, receivers.len());
        let mut tasks: JoinSet<Result<PartAnswers, ClientError>> = JoinSet::new();
        let mut next = receivers.next_missing(0);
        loop {
            while let Some(index) = next.filter(|_| tasks.len() < window) {
                if let Err(problem) = self.spawn_part(index, receivers, &mut tasks) {
                    return Ok(Err(problem));
                }
                next = receivers.next_missing(index + 1);
            }
            let Some(ended) = tasks.join_next().await else {
                return Ok(Ok(()));
            };
            let (bytes, answers) = ended.map_err(|_| ClientError::Unfinished)??;
            for (node, answer) in answers {
                self.count_bytes(bytes);
                let outcome = match answer {
                    StepAnswer::Done(_) => continue,
                    answer => failed_outcome(answer, "while the parts were sent"),
                };
                // Several of its parts may have failed.
                if let Some(receiver) = receivers.remove(&node) {
                    results.insert(node, self.result(outcome, Some(receiver.path), 0));
                }
            }
        }
    }

    /// Reads a part, and sends it to the nodes that lack it.
    fn spawn_part(
        &self,
        index: u64,
        receivers: &Receivers,
        tasks: &mut JoinSet<Result<PartAnswers, ClientError>>,
    ) -> Result<(), LocalFileError> {
        let file = self.request.file;
        let offset = index.saturating_mul(self.chunk_bytes);
        let bytes = self.chunk_bytes.min(file.size.saturating_sub(offset));
        let content = encode_chunk(&file.read_part(offset, bytes)?);
        for (transfer, nodes) in receivers.lacking(index) {
            let input = FilecopyWriteInput { transfer, index, content: content.clone() };
            let channel = self.channel.clone();
            tasks.spawn(async move {
                let answers = channel.ask_nodes(&WRITE, &input, nodes).await?;
                Ok((bytes, answers))
            });
        }
        Ok(())
    }

    /// Lets the nodes verify the file and put it into its place.
    async fn finish(
        &self,
        mut receivers: Receivers,
        results: &mut CopyResults,
    ) -> Result<(), ClientError> {
        for (transfer, nodes) in receivers.by_transfer() {
            let input = FilecopyTransferInput { transfer };
            for (node, answer) in self.channel.ask_nodes(&FINISH, &input, nodes).await? {
                let Some(receiver) = receivers.remove(&node) else { continue };
                let outcome = match answer {
                    StepAnswer::Done(_) => NodeCopyOutcome::Copied,
                    answer => failed_outcome(answer, "while the file was verified"),
                };
                let resumed = self.request.file.size - self.missing_bytes(&receiver);
                results.insert(node, self.result(outcome, Some(receiver.path), resumed));
            }
        }
        Ok(())
    }

    /// Removes the copy from the nodes, because the file cannot be read or has changed.
    async fn abandon(
        &self,
        mut receivers: Receivers,
        problem: &LocalFileError,
        results: &mut CopyResults,
    ) -> Result<(), ClientError> {
        let message = error_chain(problem);
        for (transfer, nodes) in receivers.by_transfer() {
            let input = FilecopyTransferInput { transfer };
            // A node that cannot be reached removes the copy when it has expired.
            for (node, _) in self.channel.ask_nodes(&ABORT, &input, nodes).await? {
                let path = receivers.remove(&node).map(|receiver| receiver.path);
                let outcome = NodeCopyOutcome::Failed(message.as_str().into());
                results.insert(node, self.result(outcome, path, 0));
            }
        }
        Ok(())
    }

    /// Bytes of the parts that a node lacked at the start.
    fn missing_bytes(&self, receiver: &Receiver) -> u64 {
        let bytes = receiver.missing_chunks.saturating_mul(self.chunk_bytes);
        // The last part is shorter; it is counted as missing if any part is.
        bytes.min(self.request.file.size)
    }

    fn result(
        &self,
        outcome: NodeCopyOutcome,
        path: Option<String>,
        resumed_bytes: u64,
    ) -> NodeCopyResult {
        let file = self.request.file;
        let sha256 = outcome.is_ok().then(|| file.sha256.clone());
        let path = path.map(PathBuf::from);
        NodeCopyResult { outcome, bytes: file.size, resumed_bytes, file: path, sha256 }
    }

    fn count_bytes(&self, bytes: u64) {
        self.counted.set(self.counted.get().saturating_add(bytes));
        self.observer.observe(RequestEvent::BytesCounted(self.counted.get()));
    }
}

/// The outcome of a step that did not succeed.
pub(super) fn failed_outcome<T>(answer: StepAnswer<T>, when: &str) -> NodeCopyOutcome {
    match answer {
        StepAnswer::Failed(message) | StepAnswer::Busy(message) => NodeCopyOutcome::Failed(message),
        StepAnswer::Absent => NodeCopyOutcome::NoReply(format!("not connected {when}").into()),
        StepAnswer::Silent | StepAnswer::Done(_) => {
            NodeCopyOutcome::NoReply(format!("no reply {when}").into())
        }
    }
}
