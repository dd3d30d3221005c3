//! A request to nodes that are known: batch after batch, as long as the rollout allows. Tells how it goes on; draws no
//! results.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use muster_client::{Aim, Answers, Call, ClientError, Event, Rollout, Stop, Tale};
use muster_wire::identity::Identity;
use muster_wire::trace::Traceparent;

use super::error::AskError;
use super::fleet::{Fleet, Found};
use super::gather::{Gathering, Step};
use super::interrupt::Interrupt;
use super::plan::Plan;
use super::progress::{Progress, Waiting};
use super::recorder::Recorder;
use crate::error::Error;
use crate::jobs::End;
use crate::report::{Gap, Reply, Report};

/// A request, and how long it may take.
#[derive(Debug)]
pub struct Question<'a> {
    /// What is asked.
    pub plan: &'a Plan<'a>,
    /// How long the action may take on a node; as long as its schema says when absent.
    pub timeout: Option<Duration>,
    /// How long a node may take until it begins.
    pub ttl: Duration,
    /// Whether nodes are to tell of progress.
    pub stream: bool,
    /// In which batches.
    pub rollout: Rollout,
    /// How long to pause between batches.
    pub pause: Duration,
    /// So many answers are enough.
    pub expect: Option<usize>,
    /// Nodes tell how long each of their stages took.
    pub trace: bool,
    /// The trace that it is part of.
    pub traceparent: Option<Traceparent>,
    /// That a second person agrees.
    pub approval: Option<String>,
}

/// Something of a request that can be shown at once.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// A node has answered.
    Reply(&'a Reply),
    /// A node tells how far it is.
    Progress(&'a Tale),
}

/// How waiting for a batch ended, when it was not by itself.
enum Broken {
    /// The user wants no more.
    Interrupted,
    /// The batch could not be sent.
    Failed(ClientError),
    /// The answers cannot be shown.
    Output(Error),
}

impl<'a> Question<'a> {
    /// A question to all nodes at once, which may begin within a minute.
    pub fn new(plan: &'a Plan<'a>) -> Self {
        Self {
            plan,
            timeout: None,
            ttl: Duration::from_mins(1),
            stream: false,
            rollout: Rollout::default(),
            pause: Duration::ZERO,
            expect: None,
            trace: false,
            traceparent: None,
            approval: None,
        }
    }
}

impl Fleet {
    /// Asks the nodes, and shows each answer as it comes. Nothing is sent if there is no node. An interruption ends the
    /// waiting and the rollout, not what nodes do that were asked. So does a batch that cannot be sent, unless it is the
    /// first: then nobody was asked, and it is an error.
    pub async fn ask(
        &self,
        question: Question<'_>,
        found: Found,
        recorder: &mut Recorder<'_>,
        progress: &Progress<'_>,
        mut show: impl FnMut(News<'_>) -> Result<(), Error>,
    ) -> Result<Report, Error> {
        let Found { nodes, mut stats } = found;
        (stats.wanted, stats.traceparent) = (question.expect, question.traceparent);
        let (agent, action) = (question.plan.ddl.name(), question.plan.action);
        let mut gathering = Gathering::new(agent, action, nodes.len(), stats);
        if nodes.is_empty() {
            return Ok(gathering.report(nodes));
        }
        let mut batches = VecDeque::from(question.rollout.batches(&nodes));
        let (count, mut asked) = (batches.len(), 0);
        let mut end = End::Finished;
        let waiting = progress.calling(nodes.len());
        let mut interrupt = Interrupt::listen();
        while let Some(batch) = batches.pop_front() {
            asked += 1;
            progress.batch(&waiting, (asked, count), batch.len());
            recorder.wave(asked, &batch);
            gathering.begin(batch.clone());
            let call = self.call(&question, batch)?;
            let ended = self
                .wait(
                    call,
                    (&mut gathering, recorder),
                    &mut interrupt,
                    &waiting,
                    &mut show,
                )
                .await;
            recorder.waved(&gathering.stats().not_connected);
            gathering.end();
            match ended {
                Ok(()) => {}
                Err(Broken::Interrupted) => {
                    end = End::Interrupted;
                    gathering.gap(Gap::Interrupted);
                    let id = recorder.id().or(gathering.current());
                    if let (Some(id), false) = (id, action.read_only()) {
                        let command = format_args!("nodes go on; `rpc cancel {id}` stops them");
                        progress.hint(&waiting, command);
                    }
                    break;
                }
                Err(Broken::Failed(error)) if asked == 1 => {
                    recorder.end(End::Broken);
                    return Err(AskError::from(error).into());
                }
                Err(Broken::Failed(error)) => {
                    end = End::Broken;
                    gathering.gap(Gap::Broken);
                    progress.complain(&waiting, error);
                    break;
                }
                Err(Broken::Output(error)) => return Err(error),
            }
            if batches.is_empty() {
                break;
            }
            let bad = gathering.stats().bad();
            if let Err(stop) = question.rollout.verdict(asked, bad, nodes.len()) {
                progress.complain(&waiting, reason(stop, (asked, count)));
                end = End::Stopped;
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(question.pause) => {}
                () = interrupt.came() => {
                    end = End::Interrupted;
                    gathering.gap(Gap::Interrupted);
                    break;
                }
            }
        }
        waiting.over();
        recorder.end(end);
        Ok(gathering.report(batches.into_iter().flatten().collect()))
    }

    /// Asks the nodes at once, and leaves the answers to nobody or to somebody else; returns the request's id when the broker has
    /// the question, and the nodes that were not asked, because they did not tell the key that a secret would be sealed for.
    pub async fn give(
        &self,
        question: &Question<'_>,
        nodes: BTreeSet<Identity>,
        answers: Answers,
        recorder: &mut Recorder<'_>,
    ) -> Result<(String, BTreeSet<Identity>), AskError> {
        recorder.wave(1, &nodes);
        let call = Call {
            answers,
            ..self.call(question, nodes)?
        };
        let mut events = self.client.call(call);
        while let Some(event) = events.next().await {
            match event {
                Event::Finished(stats) => {
                    let request = stats.request.to_string();
                    recorder.sent(&request);
                    recorder.waved(&stats.missing);
                    recorder.end(End::Unattended);
                    return Ok((request, stats.missing));
                }
                Event::Failed(error) => {
                    recorder.end(End::Broken);
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Err(AskError::Interrupted)
    }

    /// Makes one call, and waits for its end.
    async fn wait(
        &self,
        call: Call,
        (gathering, recorder): (&mut Gathering<'_>, &mut Recorder<'_>),
        interrupt: &mut Interrupt,
        waiting: &Waiting,
        show: &mut impl FnMut(News<'_>) -> Result<(), Error>,
    ) -> Result<(), Broken> {
        let mut events = self.client.call(call);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.came() => return Err(Broken::Interrupted),
            };
            let Some(event) = event else { return Ok(()) };
            match gathering.take(event).map_err(Broken::Failed)? {
                Step::Sent(request) => recorder.sent(&request),
                Step::Reply(reply) => {
                    recorder.reply(reply);
                    waiting
                        .aside(|| show(News::Reply(reply)))
                        .map_err(Broken::Output)?;
                }
                Step::Progress(tale) => waiting
                    .aside(|| show(News::Progress(&tale)))
                    .map_err(Broken::Output)?,
                Step::Over => return Ok(()),
                Step::Quiet => {}
            }
            waiting.count(gathering.heard());
        }
    }

    fn call(&self, question: &Question<'_>, nodes: BTreeSet<Identity>) -> Result<Call, AskError> {
        let Plan { ddl, action, data } = question.plan;
        let call =
            Call::new(ddl.name(), action.name(), Aim::Nodes(nodes)).map_err(ClientError::from)?;
        let wait = question.timeout.unwrap_or(ddl.timeout_of(action)) + self.listen;
        let sensitive = data.keys().filter(|name| action.is_sensitive(name));
        let sensitive = sensitive.filter(|_| !self.plain_secrets).cloned().collect();
        Ok(Call {
            sensitive,
            data: data.clone(),
            timeout: question.timeout,
            stream: question.stream,
            ttl: question.ttl,
            expect: question.expect,
            trace: question.trace,
            traceparent: question.traceparent,
            approval: question.approval.clone(),
            wait,
            ..call
        })
    }
}

/// Why nobody else is asked, in words.
fn reason(stop: Stop, (asked, count): (usize, usize)) -> String {
    let why = match stop {
        Stop::Canary { bad } => {
            format!("{bad} of the canaries failed or did not answer")
        }
        Stop::Failures { bad, allowed } => {
            format!("{bad} nodes failed or did not answer, and {allowed} may")
        }
    };
    format!("stopped after batch {asked} of {count}: {why}")
}
