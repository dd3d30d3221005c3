//! Sends a request to known nodes, batch by batch, within the limits of the rollout. Shows nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::jobs::JobEnd;
use muster_calls::{
    CallEvent, CallTarget, ClientError, ProgressUpdate, ReplyDelivery, RolloutLimits,
    RolloutSchedule, RolloutStopReason, RpcCall,
};
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use muster_wire::trace::TraceContext;

use crate::collect::{ReportBuilder, ReportUpdate};
use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::InterruptListener;
use crate::located::Located;
use crate::node_reply::NodeReply;
use crate::observer::{RequestEvent, RequestObserver};
use crate::plan::RequestPlan;
use crate::recorder::JobRecorder;
use crate::report::{RequestReport, ResultGap};

/// A request and its time limits.
#[derive(Debug)]
pub struct FleetRequest<'a> {
    /// The validated request.
    pub plan: &'a RequestPlan<'a>,
    /// Time limit of the action on a node; the DDL's timeout when absent.
    pub timeout: Option<Duration>,
    /// Maximum time until a node starts the action.
    pub ttl: Duration,
    /// Whether nodes send progress.
    pub stream: bool,
    /// Batch parameters.
    pub limits: RolloutLimits,
    /// Pause between batches.
    pub pause: Duration,
    /// Stop after this many replies.
    pub expect: Option<usize>,
    /// Nodes report the duration of each of their stages.
    pub trace: bool,
    /// The trace context of the request.
    pub traceparent: Option<TraceContext>,
    /// The approval by a second user.
    pub approval: Option<String>,
}

/// An update to show immediately.
#[derive(Debug, Clone, Copy)]
pub enum FleetRequestUpdate<'a> {
    /// A node replied.
    Reply(&'a NodeReply),
    /// A node reports progress.
    Progress(&'a ProgressUpdate),
    /// A batch of a rollout is about to be sent.
    Batch {
        /// Number of the batch, from 1.
        number: usize,
        /// Number of batches.
        count: usize,
        /// The nodes in it.
        nodes: &'a BTreeSet<Identity>,
    },
    /// The rollout ended before all nodes received the request.
    Stopped {
        /// Why.
        reason: RolloutStopReason,
        /// The job that stores it.
        job: Option<&'a str>,
    },
}

/// How the wait for a batch ended.
enum BatchEnd {
    /// All replies are in, or the deadline has passed.
    Finished,
    /// The user interrupted the wait.
    Interrupted,
    /// The batch could not be sent.
    Failed(ClientError),
}

impl<'a> FleetRequest<'a> {
    /// Creates a request to all nodes in one batch, with a ttl of one minute.
    pub fn new(plan: &'a RequestPlan<'a>) -> Self {
        Self {
            plan,
            timeout: None,
            ttl: Duration::from_mins(1),
            stream: false,
            limits: RolloutLimits::default(),
            pause: Duration::ZERO,
            expect: None,
            trace: false,
            traceparent: None,
            approval: None,
        }
    }
}

/// Decides after a batch with this number of failures so far whether the rollout continues, and waits for the pause before the next batch. If it
/// does not continue, the schedule has the reason.
pub async fn wait_for_next_batch(
    schedule: &mut RolloutSchedule,
    (failed, pause): (usize, Duration),
    interrupt: &mut InterruptListener,
    observer: &dyn RequestObserver,
) -> bool {
    if let Some(stop) = schedule.record_batch_end(failed) {
        observer.observe(RequestEvent::RolloutStopped(stop));
        return false;
    }
    tokio::select! {
        () = tokio::time::sleep(pause) => true,
        () = interrupt.wait_for_signal() => {
            schedule.stop(RolloutStopReason::Interrupted);
            false
        }
    }
}

impl FleetConnection {
    /// Sends the request to the nodes, and shows each reply as it arrives. Without nodes, nothing is sent. An interrupt ends the wait and the
    /// rollout, but not the actions that nodes have started. A batch that cannot be sent does the same, unless it is the first: then it is an error,
    /// because no node received the request.
    pub async fn run_request<E: From<FleetRequestError>>(
        &self,
        request: FleetRequest<'_>,
        found: Located,
        recorder: &mut JobRecorder<'_>,
        observer: &dyn RequestObserver,
        mut show: impl FnMut(FleetRequestUpdate<'_>) -> Result<(), E>,
    ) -> Result<RequestReport, E> {
        let mut stats = found.request_stats();
        let Located { nodes, filter, .. } = found;
        (stats.expected_replies, stats.traceparent) = (request.expect, request.traceparent);
        let (agent, action) = (request.plan.ddl.name(), request.plan.action);
        let job = recorder.job_id().map(str::to_owned);
        let mut builder = ReportBuilder::new(agent, action, nodes.len(), stats);
        builder.set_noop(request.plan.is_noop());
        if nodes.is_empty() {
            return Ok(builder.into_report(nodes));
        }
        let count = request.limits.batches(nodes.iter().cloned()).len();
        let is_rollout = request.limits.canary > 0 || request.limits.batch.is_some();
        observer.observe(RequestEvent::CallsStarted(nodes.len()));
        let mut schedule = RolloutSchedule::new(nodes.into_iter().collect(), request.limits);
        let mut number = 0;
        let mut interrupt = InterruptListener::listen();
        while let Some(batch) = schedule.next_batch() {
            number += 1;
            observer.observe(RequestEvent::BatchStarted { number, count, nodes: batch.len() });
            recorder.record_wave(number, &batch);
            if is_rollout {
                show(FleetRequestUpdate::Batch { number, count, nodes: &batch })?;
            }
            builder.begin_batch(batch.clone());
            let call = self.build_call(&request, batch, &filter)?;
            let collectors = (&mut builder, &mut *recorder);
            let end =
                self.wait_for_batch(call, collectors, &mut interrupt, observer, &mut show).await;
            recorder.record_not_connected(&builder.stats().not_connected);
            builder.end_batch();
            match end? {
                BatchEnd::Finished => {}
                BatchEnd::Interrupted => {
                    schedule.stop(RolloutStopReason::Interrupted);
                    let id = recorder.job_id().or(builder.current_request());
                    if let Some(id) = id.filter(|_| !action.is_read_only()) {
                        observer.observe(RequestEvent::NodesContinue(id));
                    }
                    break;
                }
                BatchEnd::Failed(error) if number == 1 => {
                    recorder.record_end(JobEnd::Broken);
                    return Err(FleetRequestError::from(error).into());
                }
                BatchEnd::Failed(error) => {
                    schedule.stop(RolloutStopReason::Broken);
                    builder.add_gap(ResultGap::Broken);
                    observer.observe(RequestEvent::BatchFailed(&error));
                    break;
                }
            }
            let failed = builder.stats().unsuccessful_count();
            if number == count
                || !wait_for_next_batch(
                    &mut schedule,
                    (failed, request.pause),
                    &mut interrupt,
                    observer,
                )
                .await
            {
                break;
            }
        }
        observer.observe(RequestEvent::CallsEnded);
        let stop = schedule.stop_reason();
        if stop == Some(RolloutStopReason::Interrupted) {
            builder.add_gap(ResultGap::Interrupted);
        }
        recorder.record_end(JobEnd::of_rollout(stop));
        if let Some(reason) = stop {
            show(FleetRequestUpdate::Stopped { reason, job: job.as_deref() })?;
        }
        let report = builder.into_report(schedule.unasked_nodes().cloned().collect());
        Ok(RequestReport { job, stop, ..report })
    }

    /// Checks that the request to these nodes is below the limits of the broker and of the nodes. Sends nothing.
    pub fn check_request_size(
        &self,
        request: &FleetRequest<'_>,
        found: &Located,
    ) -> Result<(), FleetRequestError> {
        let call = self.build_call(request, found.nodes.clone(), &found.filter)?;
        Ok(self.client.check_request_size(&call)?)
    }

    /// Sends the request to all nodes without waiting for replies, which go to another process or are not wanted. Returns the request's id once the
    /// broker has accepted it, and the nodes that received no request because their encryption key is unknown.
    pub async fn send_without_waiting(
        &self,
        request: &FleetRequest<'_>,
        found: Located,
        reply_delivery: ReplyDelivery,
        recorder: &mut JobRecorder<'_>,
    ) -> Result<(String, BTreeSet<Identity>), FleetRequestError> {
        let Located { nodes, filter, .. } = found;
        recorder.record_wave(1, &nodes);
        let call = RpcCall { reply_delivery, ..self.build_call(request, nodes, &filter)? };
        let mut events = self.client.call(call);
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Finished(stats) => {
                    let id = stats.request.to_string();
                    recorder.record_request(&id);
                    recorder.record_not_connected(&stats.missing);
                    recorder.record_end(JobEnd::Unattended);
                    return Ok((id, stats.missing));
                }
                CallEvent::Failed(error) => {
                    recorder.record_end(JobEnd::Broken);
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Err(FleetRequestError::Interrupted)
    }

    /// Runs one call to its end.
    async fn wait_for_batch<E>(
        &self,
        call: RpcCall,
        (builder, recorder): (&mut ReportBuilder<'_>, &mut JobRecorder<'_>),
        interrupt: &mut InterruptListener,
        observer: &dyn RequestObserver,
        show: &mut impl FnMut(FleetRequestUpdate<'_>) -> Result<(), E>,
    ) -> Result<BatchEnd, E> {
        let mut events = self.client.call(call);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.wait_for_signal() => return Ok(BatchEnd::Interrupted),
            };
            let Some(event) = event else { return Ok(BatchEnd::Finished) };
            match builder.handle_event(event) {
                Err(error) => return Ok(BatchEnd::Failed(error)),
                Ok(ReportUpdate::Finished) => return Ok(BatchEnd::Finished),
                Ok(ReportUpdate::Sent(id)) => recorder.record_request(&id),
                Ok(ReportUpdate::Reply(reply)) => {
                    recorder.record_reply(reply);
                    show(FleetRequestUpdate::Reply(reply))?;
                }
                Ok(ReportUpdate::Progress(update)) => show(FleetRequestUpdate::Progress(&update))?,
                Ok(ReportUpdate::Nothing) => {}
            }
            observer.observe(RequestEvent::RepliesCounted(builder.heard_count()));
        }
    }

    fn build_call(
        &self,
        request: &FleetRequest<'_>,
        nodes: BTreeSet<Identity>,
        filter: &NodeFilter,
    ) -> Result<RpcCall, FleetRequestError> {
        let RequestPlan { ddl, action, data } = request.plan;
        let call = RpcCall::new(ddl.name(), action.name(), CallTarget::Nodes(nodes))
            .map_err(ClientError::from)?;
        let wait = request.timeout.unwrap_or(ddl.timeout_of(action)) + self.reply_grace_time();
        let sensitive = data.keys().filter(|name| action.is_sensitive(name));
        let sensitive = sensitive.filter(|_| !self.settings.plain_secrets).cloned().collect();
        Ok(RpcCall {
            sensitive,
            filter: filter.clone(),
            data: data.clone(),
            timeout: request.timeout,
            stream: request.stream,
            ttl: request.ttl,
            expect: request.expect,
            trace: request.trace,
            traceparent: request.traceparent,
            approval: request.approval.clone(),
            wait,
            ..call
        })
    }
}
