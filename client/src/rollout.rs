//! Sends a request to known nodes, batch by batch, within the limits of the rollout. Shows nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{
    CallEvent, CallTarget, ClientError, ReplyDelivery, RolloutLimits, RolloutStopReason, RpcCall,
};
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use muster_wire::trace::TraceContext;

use crate::jobs::JobEnd;

use crate::batches::{BatchPace, BatchProgress, run_batches};
use crate::collect::ReportBuilder;
use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::located::Located;
use crate::observer::{RequestEvent, RequestObserver};
use crate::plan::RequestPlan;
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
    /// The job that records the request.
    pub job: Option<String>,
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
            job: None,
        }
    }
}

impl FleetConnection {
    /// Sends the request to the nodes; the sink receives each reply as it arrives. Without nodes, nothing is sent. An interrupt ends the wait and the
    /// rollout, but not the actions that nodes have started. A batch that cannot be sent does the same, unless it is the first: then it is an error,
    /// because no node received the request. If the sink is closed meanwhile, the report is incomplete.
    pub async fn run_request(
        &self,
        request: FleetRequest<'_>,
        found: Located,
        sink: &dyn RequestObserver,
    ) -> Result<RequestReport, FleetRequestError> {
        let mut stats = found.request_stats();
        let Located { nodes, filter, .. } = found;
        (stats.expected_replies, stats.traceparent) = (request.expect, request.traceparent);
        let (agent, action) = (request.plan.ddl.name(), request.plan.action);
        let mut builder = ReportBuilder::new(agent, action, nodes.len(), stats);
        builder.set_noop(request.plan.is_noop());
        if nodes.is_empty() {
            return Ok(builder.into_report(nodes));
        }
        sink.observe(RequestEvent::CallsStarted(nodes.len()));
        let pace = BatchPace { limits: request.limits, pause: request.pause };
        let mut unasked = nodes.clone();
        let (mut ended_batches, mut is_waiting) = (0, false);
        let stop = run_batches(&nodes, pace, sink, async |batch| {
            unasked.retain(|node| !batch.contains(node));
            is_waiting = true;
            builder.begin_batch(batch.clone());
            let ended = self.follow_call(&request, batch, &filter, &mut builder, sink).await;
            builder.end_batch();
            is_waiting = false;
            let failed = builder.stats().unsuccessful_count();
            let progress = BatchProgress { failed, results: ended_batches };
            ended_batches += 1;
            (ended, progress)
        })
        .await?;
        match stop {
            Some(RolloutStopReason::Interrupted) => builder.add_gap(ResultGap::Interrupted),
            Some(RolloutStopReason::Broken) => builder.add_gap(ResultGap::Broken),
            _ => {}
        }
        let job = request.job;
        if stop == Some(RolloutStopReason::Interrupted)
            && is_waiting
            && !action.is_read_only()
            && let Some(id) = job.as_deref().or(builder.current_request())
        {
            sink.observe(RequestEvent::NodesContinue(id));
        }
        Ok(RequestReport { job, stop, ..builder.into_report(unasked) })
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
        sink: &dyn RequestObserver,
    ) -> Result<(String, BTreeSet<Identity>), FleetRequestError> {
        let Located { nodes, filter, .. } = found;
        let is_rollout = false;
        sink.observe(RequestEvent::BatchStarted { number: 1, count: 1, nodes: &nodes, is_rollout });
        let call = RpcCall { reply_delivery, ..self.build_call(request, nodes, &filter)? };
        let mut events = self.client.call(call);
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Finished(stats) => {
                    let id = stats.request.to_string();
                    sink.observe(RequestEvent::Sent(&id));
                    stats.missing.iter().for_each(|node| sink.observe(RequestEvent::Absent(node)));
                    sink.observe(RequestEvent::BatchEnded);
                    sink.observe(RequestEvent::CallsEnded(JobEnd::Unattended));
                    return Ok((id, stats.missing));
                }
                CallEvent::Failed(error) => {
                    sink.observe(RequestEvent::CallsEnded(JobEnd::Broken));
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Err(FleetRequestError::Interrupted)
    }

    /// Runs one call to its end, or until the sink is closed.
    async fn follow_call(
        &self,
        request: &FleetRequest<'_>,
        nodes: BTreeSet<Identity>,
        filter: &NodeFilter,
        builder: &mut ReportBuilder<'_>,
        sink: &dyn RequestObserver,
    ) -> Result<(), ClientError> {
        let mut events = self.client.call(self.build_call(request, nodes, filter)?);
        while let Some(event) = events.next().await
            && !sink.is_closed()
        {
            builder.handle_event(event, sink)?;
            sink.observe(RequestEvent::RepliesCounted(builder.heard_count()));
        }
        Ok(())
    }

    fn build_call(
        &self,
        request: &FleetRequest<'_>,
        nodes: BTreeSet<Identity>,
        filter: &NodeFilter,
    ) -> Result<RpcCall, ClientError> {
        let RequestPlan { ddl, action, data } = request.plan;
        let call = RpcCall::new(ddl.name(), action.name(), CallTarget::Nodes(nodes))?;
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
