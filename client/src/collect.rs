//! Builds a report from the events of a call, which become events of the request. A fold without waiting or printing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_calls::{CallEvent, CallStats, ClientError, ReceivedReply};
use muster_ddl::ActionSchema;
use muster_ddl::aggregate::ReplySummarizer;
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::node_reply::NodeReply;
use crate::observer::{RequestEvent, RequestObserver};
use crate::report::{RequestReport, RequestStats, ResultGap};

/// A report that accumulates over batches.
#[derive(Debug)]
pub(crate) struct ReportBuilder<'a> {
    action: &'a ActionSchema,
    summarizer: ReplySummarizer,
    report: RequestReport,
    awaited: BTreeSet<Identity>,
    published: Option<Instant>,
    batch_start: Instant,
    /// Times of the current batch.
    signing: Duration,
    publishing: Duration,
    waiting: Duration,
}

impl<'a> ReportBuilder<'a> {
    /// Starts the report of a request to this many nodes. `stats` describes the discovery.
    pub(crate) fn new(
        agent: &str,
        action: &'a ActionSchema,
        discovered: usize,
        stats: RequestStats,
    ) -> Self {
        let stats = RequestStats { discovered, ..stats };
        let report = RequestReport { stats, ..RequestReport::empty(agent, action.name()) };
        let (summarizer, batch_start) = (ReplySummarizer::new(action), Instant::now());
        Self {
            action,
            summarizer,
            report,
            awaited: BTreeSet::new(),
            published: None,
            batch_start,
            signing: Duration::ZERO,
            publishing: Duration::ZERO,
            waiting: Duration::ZERO,
        }
    }

    /// Sets whether the request only reports what would change.
    pub(crate) fn set_noop(&mut self, noop: bool) {
        self.report.noop = noop;
        self.summarizer = ReplySummarizer::for_request(self.action, noop);
    }

    /// Starts a batch with these nodes.
    pub(crate) fn begin_batch(&mut self, batch: BTreeSet<Identity>) {
        self.awaited = batch;
        self.batch_start = Instant::now();
    }

    /// Ends the batch: its nodes without a reply are missing.
    pub(crate) fn end_batch(&mut self) {
        let stats = &mut self.report.stats;
        // If nodes are missing, the wait lasted until now, not only until the last reply.
        if let Some(published) = self.published.take().filter(|_| !self.awaited.is_empty()) {
            self.waiting = published.elapsed();
        }
        let has_enough = stats.expected_replies.is_some() && !stats.wants_more();
        let unanswered = if has_enough { &mut stats.not_awaited } else { &mut stats.missing };
        unanswered.append(&mut self.awaited);
        stats.signing += std::mem::take(&mut self.signing);
        stats.publishing += std::mem::take(&mut self.publishing);
        stats.waiting += std::mem::take(&mut self.waiting);
    }

    /// Accepts replies to this request, from any node.
    pub(crate) fn note_request(&mut self, request: Uuid) {
        let request = request.to_string();
        let requests = &mut self.report.stats.requests;
        if !requests.contains(&request) {
            requests.push(request);
        }
    }

    /// The id of the latest request.
    pub(crate) fn current_request(&self) -> Option<&str> {
        self.report.stats.requests.last().map(String::as_str)
    }

    /// The statistics so far.
    pub(crate) fn stats(&self) -> &RequestStats {
        &self.report.stats
    }

    /// Number of nodes that replied or are absent.
    pub(crate) fn heard_count(&self) -> usize {
        let stats = &self.report.stats;
        stats.response_count() + stats.missing.len()
    }

    /// Adds an event of the call, and passes on what it means for the request.
    pub(crate) fn handle_event(
        &mut self,
        event: CallEvent,
        sink: &dyn RequestObserver,
    ) -> Result<(), ClientError> {
        let stats = &mut self.report.stats;
        match event {
            CallEvent::Published { request, .. } => {
                let request = request.to_string();
                sink.observe(RequestEvent::Sent(&request));
                stats.requests.push(request);
                self.publishing = self.batch_start.elapsed();
                self.published = Some(Instant::now());
            }
            CallEvent::Progress(update) => sink.observe(RequestEvent::Progress(&update)),
            CallEvent::Reply(received) => {
                let reply = self.add_reply(*received);
                sink.observe(RequestEvent::Reply(&reply));
                self.report.replies.push(reply);
            }
            CallEvent::Unexpected(answer) => drop(stats.unexpected.insert(answer.reply.sender)),
            CallEvent::Absent(node) => {
                sink.observe(RequestEvent::Absent(&node));
                self.awaited.remove(&node);
                stats.missing.insert(node.clone());
                stats.not_connected.insert(node);
            }
            CallEvent::Rejected(reason) => *stats.rejected.entry(reason).or_default() += 1,
            CallEvent::Finished(finished) => self.add_call_stats(&finished),
            CallEvent::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// Counts the reply, and returns it with sensitive outputs redacted.
    fn add_reply(&mut self, received: ReceivedReply) -> NodeReply {
        let stats = &mut self.report.stats;
        self.awaited.remove(&received.reply.sender);
        self.waiting = self.waiting.max(received.after);
        if received.is_ok() {
            stats.ok += 1;
            self.summarizer.add_reply(&received.reply.data);
        } else {
            stats.failed += 1;
        }
        let data = self.action.redact_output(&received.reply.data);
        NodeReply::new(received, data)
    }

    /// Adds the client library's statistics: times and losses.
    fn add_call_stats(&mut self, finished: &CallStats) {
        let stats = &mut self.report.stats;
        self.signing = finished.signing;
        self.publishing = finished.publishing;
        self.waiting = finished.waiting;
        stats.gaps.extend(finished.incomplete.map(ResultGap::from));
        stats.cloned.extend(finished.cloned.iter().cloned());
    }

    /// Marks the result as incomplete.
    pub(crate) fn add_gap(&mut self, gap: ResultGap) {
        self.report.stats.gaps.insert(gap);
    }

    /// Returns the report. `not_asked` are target nodes that received no request.
    pub(crate) fn into_report(mut self, not_asked: BTreeSet<Identity>) -> RequestReport {
        self.end_batch();
        self.report.stats.not_asked = not_asked;
        self.report.summaries = self.summarizer.to_summaries();
        self.report
    }
}

#[cfg(test)]
mod tests;
