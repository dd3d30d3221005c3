//! From the events of a call to a report. A plain fold: it neither waits nor prints.

use std::collections::BTreeSet;
use std::time::Instant;

use muster_client::{Answer, ClientError, Event, Stats};
use muster_ddl::Action;
use muster_ddl::aggregate::Summarizer;
use muster_wire::identity::Identity;

use crate::report::{Gap, Reply, Report, RequestStats};

/// A report that grows.
#[derive(Debug)]
pub(super) struct Gathering<'a> {
    action: &'a Action,
    summarizer: Summarizer,
    report: Report,
    awaited: BTreeSet<Identity>,
    published: Option<Instant>,
    begun: Instant,
}

/// What an event means for whoever watches.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// An answer was added.
    Reply(&'a Reply),
    /// The call is over.
    Over,
    /// Nothing to show.
    Quiet,
}

impl<'a> Gathering<'a> {
    /// Nothing has happened yet to a request to these nodes. `stats` says how they were found.
    pub(super) fn new(
        agent: &str,
        action: &'a Action,
        nodes: BTreeSet<Identity>,
        stats: RequestStats,
    ) -> Self {
        let report = Report {
            agent: agent.to_owned(),
            action: action.name().to_owned(),
            replies: Vec::new(),
            summaries: Vec::new(),
            stats: RequestStats {
                discovered: nodes.len(),
                ..stats
            },
        };
        let (summarizer, begun) = (Summarizer::new(action), Instant::now());
        Self {
            action,
            summarizer,
            report,
            awaited: nodes,
            published: None,
            begun,
        }
    }

    /// How many nodes have been heard of, present or absent.
    pub(super) fn heard(&self) -> usize {
        self.report.stats.discovered - self.awaited.len()
    }

    /// Takes one event in.
    pub(super) fn take(&mut self, event: Event) -> Result<Step<'_>, ClientError> {
        let stats = &mut self.report.stats;
        match event {
            Event::Published { request, .. } => {
                stats.request = Some(request.to_string());
                stats.publishing = self.begun.elapsed();
                self.published = Some(Instant::now());
            }
            Event::Reply(answer) => return Ok(self.reply(*answer)),
            Event::Unexpected(answer) => drop(stats.unexpected.insert(answer.reply.sender)),
            Event::Absent(node) => {
                self.awaited.remove(&node);
                stats.missing.insert(node.clone());
                stats.not_connected.insert(node);
            }
            Event::Disbelieved(word) => *stats.disbelieved.entry(word).or_default() += 1,
            Event::Finished(finished) => {
                self.finish(&finished);
                return Ok(Step::Over);
            }
            Event::Failed(error) => return Err(error),
        }
        Ok(Step::Quiet)
    }

    fn reply(&mut self, answer: Answer) -> Step<'_> {
        let Answer { reply, after } = answer;
        let stats = &mut self.report.stats;
        self.awaited.remove(&reply.sender);
        stats.waiting = stats.waiting.max(after);
        let reply = Reply {
            node: reply.sender,
            status: reply.statuscode,
            message: reply.statusmsg,
            reason: reply.reason,
            data: self.action.redact_output(&reply.data),
            took: reply.took,
        };
        if reply.is_ok() {
            stats.ok += 1;
            self.summarizer.add(&reply.data);
        } else {
            stats.failed += 1;
        }
        self.report.replies.push(reply);
        self.report.replies.last().map_or(Step::Quiet, Step::Reply)
    }

    /// The library's own balance: it knows times, and what was lost.
    fn finish(&mut self, finished: &Stats) {
        let stats = &mut self.report.stats;
        stats.publishing = finished.publishing;
        stats.waiting = finished.waiting;
        stats.gaps.extend(finished.incomplete.map(Gap::from));
        if self.awaited.is_empty() {
            self.published = None;
        }
    }

    /// The user does not want to wait any longer.
    pub(super) fn interrupt(&mut self) {
        self.report.stats.gaps.insert(Gap::Interrupted);
    }

    /// The report of what came.
    pub(super) fn report(mut self) -> Report {
        let stats = &mut self.report.stats;
        stats.missing.append(&mut self.awaited);
        // Whoever is missing was waited for until now, not only until the last answer.
        if let Some(published) = self.published {
            stats.waiting = published.elapsed();
        }
        self.report.summaries = self.summarizer.finish();
        self.report
    }
}

#[cfg(test)]
mod tests;
