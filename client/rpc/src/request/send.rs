//! Calls an action on all matching nodes and shows their replies.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use muster_calls::{DiscoverySource, ReplyDelivery, choose_nodes};
use muster_client::{
    ApprovalFileError, FleetConnection, FleetRequest, FleetRequestError, JobRecorder,
    LoadedApproval, Located, RequestPlan, RequestReport, RpcSettings, TargetSelection,
    load_approval, request_noop,
};
use muster_ddl::Action;
use muster_display::node_count_text;
use muster_wire::identity::Identity;
use muster_wire::trace::TraceContext;
use uuid::Uuid;

use crate::flags::filters::QueryArgs;
use crate::flags::json::JsonArgs;
use crate::flags::output::OutputArgs;
use crate::flags::request::RequestArgs;
use crate::flags::request_flags::RequestFlags;
use crate::report::progress::MessagePrinter;
use crate::report::request_form::{RequestOutputForm, run_with_form};
use crate::report::request_output::RequestOutput;
use crate::report::rollout_preview::RolloutPreview;
use crate::report::trace::RequestTrace;
use crate::request::input_values::{StdinUse, read_input_values};
use crate::request::propose::write_proposal;
use crate::request::refresh::refresh_stale_ddl;
use crate::request::resume::EarlierJob;
use crate::request::save::{JobCandidate, open_journal};
use crate::request::words::request_words;
use crate::session::context::{
    CommandContext, CommandExitCode, CommandResult, Result, describe_change,
};
use crate::session::environment::ProcessEnvironment;
use crate::session::form;

/// Interval in which output that is held back is checked.
const HELD_OUTPUT_INTERVAL: Duration = Duration::from_millis(200);

/// The end of a request.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest {
    pub code: CommandExitCode,
    /// Whether some nodes were not asked, because a rollout stopped.
    pub is_stopped: bool,
    /// Whether nodes replied, and each of them failed.
    pub has_only_failed: bool,
}

impl From<CommandExitCode> for SentRequest {
    fn from(code: CommandExitCode) -> Self {
        Self { code, is_stopped: false, has_only_failed: false }
    }
}

/// Prints replies as they arrive, unless they are sorted or part of a document.
pub async fn run(args: RequestArgs, cx: CommandContext<'_>) -> CommandResult {
    Ok(run_to_end(args, cx).await?.code)
}

/// The same, for a command that goes on after the request.
pub async fn run_to_end(args: RequestArgs, cx: CommandContext<'_>) -> Result<SentRequest> {
    let flags = args.output.clone();
    run_with_form(&flags, cx, async |form| Box::pin(ask_action(args, form, cx)).await).await
}

/// Sends a request of this action, as `rpc do` does with the default options.
pub async fn send_action<A: Action>(
    input: &A::Input,
    yes: bool,
    query: QueryArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let QueryArgs { json: JsonArgs { json, jq }, filters } = query;
    let request = RequestArgs {
        output: OutputArgs { json, jq, ..OutputArgs::default() },
        flags: RequestFlags { yes, ..RequestFlags::default() },
        filters,
        ..RequestArgs::of_action::<A>(input)
    };
    Box::pin(run(request, cx)).await
}

async fn ask_action(
    args: RequestArgs,
    form: &RequestOutputForm,
    cx: CommandContext<'_>,
) -> Result<SentRequest> {
    let target = cx.read_target(&args.filters)?;
    let earlier_job = EarlierJob::from_flags(&args.flags, cx.environment)?;
    let words = request_words(&args, earlier_job.as_ref(), cx)?;
    // A usage error is reported before a missing configuration.
    let mut schemas = cx.load_schemas()?;
    schemas.commands.clone_from(&args.commands);
    refresh_stale_ddl(&mut schemas, &words, &target, cx).await?;
    let (ddl, action) = schemas.find_action(&words)?;
    form.check_outputs(action)?;
    let filter = form::parse_reply_filter(args.output.filter_replies.as_deref(), action)?;
    if args.approval.approve.is_some() && !target.filter.is_empty() {
        return Err(ApprovalFileError::WithFilters.into());
    }
    let job_nodes = earlier_job.as_ref().map(|job| job.remaining_nodes(ddl.name(), action.name()));
    let nodes = job_nodes.transpose()?;
    let mut target = target.with_agent(ddl.name())?;
    let source = target.discovery_source(cx.settings().ok())?;
    let (inputs, base) = match &earlier_job {
        Some(earlier_job) => earlier_job.merge_inputs(&words.inputs)?,
        None => (words.inputs.clone(), args.base.clone()),
    };
    let stdin_use = match source {
        DiscoverySource::Stdin { .. } => StdinUse::Nodes,
        _ => StdinUse::Free,
    };
    let mut inputs = read_input_values(action, inputs, stdin_use, cx.printer).await?;
    if args.flags.noop {
        request_noop(ddl, action, &mut inputs)?;
    }
    let checking = args.flags.attribute_checking();
    let plan = RequestPlan::with_base_inputs((ddl, action), base, &inputs, checking)?;
    if let Some(earlier_job) = &earlier_job {
        target.collective.get_or_insert(earlier_job.job.header.collective.clone());
    }

    let settings = cx.settings()?;
    let approve = args.approval.approve.as_ref();
    let loaded_approval = approve.map(|path| load_approval(path, &plan, settings)).transpose()?;
    let (nodes, approval) = match loaded_approval {
        Some(LoadedApproval { nodes, text }) => (Some(nodes), Some(text)),
        None => (nodes, None),
    };
    if nodes.is_none() {
        target.check_required_filter(action, settings)?;
    }
    let fleet = cx.connect(&target).await?;
    if let Some(earlier_job) = &earlier_job {
        fleet.check_job(&earlier_job.job)?;
    }
    let progress = form.progress_reporter(&args.output, cx);
    let mut found = if let Some(nodes) = nodes {
        let filter = earlier_job.as_ref().map(|earlier| earlier.job.header.filter.clone());
        let filter = filter.unwrap_or_default();
        Located { filter, ..Located::from_names(nodes) }
    } else {
        fleet.locate(&target, &progress).await?
    };
    if let Some(limit) = args.pace.node_limit() {
        found.nodes = choose_nodes(&found.nodes, limit, args.pace.limit_seed);
    }
    if let Some(path) = &args.approval.propose {
        let lifetime = args.approval.lifetime;
        let written = write_proposal((path, lifetime), &plan, &target, found.nodes, settings, cx);
        return written.map(Into::into);
    }
    let mut request = build_fleet_request(&args, &plan, (form, earlier_job.as_ref()), cx);
    request.approval = approval;
    fleet.check_request_size(&request, &found)?;
    confirm_request(&request, (&found.nodes, &target), &args, settings, cx).await?;
    let candidate = JobCandidate {
        request: &request,
        nodes: &found.nodes,
        filter: &found.filter,
        fleet: &fleet,
        target: &target,
        earlier_job: earlier_job.as_ref(),
    };
    let journal = open_journal(&candidate, args.flags.job.as_ref(), cx)?;
    request.job = journal.as_ref().map(|journal| journal.job_id().to_owned());
    let destination = answer_destination(&args, &fleet)?;
    let pending_request = PendingRequest { fleet: &fleet, request, found, target: &target, cx };
    if let Some(delivery) = destination {
        let messages = MessagePrinter(cx.printer);
        let recorder = JobRecorder::new(journal, &messages);
        let sent = pending_request.send_without_waiting(delivery, &recorder).await;
        return sent.map(Into::into);
    }
    let output = RequestOutput::new(form, filter, &args.output, action, cx)
        .with_noop(plan.is_noop())
        .with_job(pending_request.request.job.clone());
    let recorder = JobRecorder::new(journal, &output);
    pending_request.gather_replies(&output, &recorder, form).await
}

/// Builds the request and its options from the flags or from the resumed job.
fn build_fleet_request<'a>(
    args: &RequestArgs,
    plan: &'a RequestPlan<'a>,
    (form, earlier_job): (&RequestOutputForm, Option<&EarlierJob>),
    cx: CommandContext<'_>,
) -> FleetRequest<'a> {
    let expect = args.flags.expect;
    let mut request = FleetRequest {
        plan,
        timeout: args.timeout,
        ttl: args.ttl,
        stream: form.shows_progress() && args.output.wants_progress(plan.action),
        limits: args.pace.batches.limits(),
        pause: args.pace.pause(),
        expect: expect.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        trace: args.flags.trace,
        traceparent: request_traceparent(args.flags.trace, cx.environment),
        approval: None,
        job: None,
    };
    if let Some(earlier_job) = earlier_job {
        earlier_job.apply_shaping(&mut request, &args.pace);
    }
    request
}

struct PendingRequest<'a> {
    fleet: &'a FleetConnection,
    request: FleetRequest<'a>,
    found: Located,
    target: &'a TargetSelection,
    cx: CommandContext<'a>,
}

impl PendingRequest<'_> {
    /// Sends the request and prints replies.
    async fn gather_replies(
        self,
        output: &RequestOutput<'_>,
        recorder: &JobRecorder<'_>,
        form: &RequestOutputForm,
    ) -> Result<SentRequest> {
        let RequestPlan { ddl, action, .. } = self.request.plan;
        let (cx, trace) = (self.cx, self.request.trace);
        output.print_found((ddl.name(), action.name()), &self.found.nodes)?;
        output.print_job()?;
        let replies = self.fleet.run_request(self.request, self.found, recorder);
        let mut report = show_meanwhile(replies, output, form).await?;
        output.print_end(&mut report, Some(self.target))?;
        if trace && form.is_human_readable() {
            cx.printer
                .print_text(RequestTrace::from_report(&report).render_text(cx.is_verbose()))?;
        }
        cx.warn_of_gaps(&report);
        // Named nodes may not exist, so only nodes that replied are remembered.
        cx.remember_found(self.target, report.replies.iter().map(|reply| &reply.node));
        cx.suggest_nodes(&report.stats.not_connected);
        print_next_steps(&report, recorder.job_id().as_deref(), cx);
        let stats = &report.stats;
        let is_stopped = !stats.not_asked.is_empty();
        let has_only_failed =
            report.successes().next().is_none() && report.failures().next().is_some();
        Ok(SentRequest { code: stats.outcome().into(), is_stopped, has_only_failed })
    }

    /// Sends the request without waiting for replies, and prints that it was sent.
    async fn send_without_waiting(
        self,
        delivery: ReplyDelivery,
        recorder: &JobRecorder<'_>,
    ) -> CommandResult {
        let printer = self.cx.printer;
        if self.found.nodes.is_empty() {
            self.cx.report_no_nodes(self.target);
            return Ok(CommandExitCode::Local);
        }
        let count = self.found.nodes.len();
        let sending =
            self.fleet.send_without_waiting(&self.request, self.found, delivery, recorder);
        let (request, skipped) = sending.await?;
        let sent_count = count.saturating_sub(skipped.len());
        if sent_count > 0 {
            printer.print_line(format_args!("Request sent with id: {request}"))?;
            printer.print_detail(format_args!("to {}", node_count_text(sent_count)));
        }
        if skipped.is_empty() {
            return Ok(CommandExitCode::Passed);
        }
        let names = skipped.iter().map(Identity::as_str).collect::<Vec<_>>().join(", ");
        printer.print_warning(format_args!(
            "no request sent to nodes whose key for the encryption of secrets is not known: {names}"
        ));
        Ok(if sent_count > 0 { CommandExitCode::SomeFailed } else { CommandExitCode::NoneAnswered })
    }
}

/// Waits for the replies, and prints output that was held back meanwhile.
async fn show_meanwhile(
    replies: impl Future<Output = Result<RequestReport, FleetRequestError>>,
    output: &RequestOutput<'_>,
    form: &RequestOutputForm,
) -> Result<RequestReport> {
    let mut replies = pin!(replies);
    let mut ticks = tokio::time::interval(HELD_OUTPUT_INTERVAL);
    loop {
        tokio::select! {
            report = &mut replies => return Ok(report?),
            _ = ticks.tick(), if form.holds_lines() => output.print_overdue()?,
        }
    }
}

/// Prints what will be done, and asks for confirmation if required.
async fn confirm_request(
    request: &FleetRequest<'_>,
    (nodes, target): (&BTreeSet<Identity>, &TargetSelection),
    args: &RequestArgs,
    settings: &RpcSettings,
    cx: CommandContext<'_>,
) -> Result<()> {
    let RequestPlan { ddl, action, .. } = request.plan;
    let (limits, pause) = (request.limits, request.pause);
    let preview = RolloutPreview { request: (ddl.name(), action.name()), nodes, limits, pause };
    let conditions = (request.plan.changes_nothing(), nodes.len(), args.flags.yes);
    let question = || preview.render_text() + &describe_change(settings, target, request.plan);
    let was_asked = cx.confirm_request(conditions, question).await?;
    if !was_asked && request.limits.batches(nodes.iter().cloned()).len() >= 2 {
        cx.printer.print_message_lines(preview.render_text().trim_end());
    }
    Ok(())
}

/// Where replies go, if not to this process: nowhere, or to another subject.
fn answer_destination(
    args: &RequestArgs,
    fleet: &FleetConnection,
) -> Result<Option<ReplyDelivery>, FleetRequestError> {
    if args.flags.no_results {
        return Ok(Some(ReplyDelivery::Unwanted));
    }
    let mailbox = args.flags.reply_to.as_deref();
    let address = mailbox.map(|name| fleet.client.mailbox_address(name)).transpose()?;
    Ok(address.map(ReplyDelivery::Elsewhere))
}

/// The trace context of the request: the one from the environment, or a new one if tracing was requested.
pub fn request_traceparent(trace: bool, environment: &ProcessEnvironment) -> Option<TraceContext> {
    let given = environment.traceparent.as_deref();
    // The W3C Trace Context standard requires treating an unreadable context as absent.
    given
        .and_then(|text| TraceContext::parse(text).ok())
        .or_else(|| trace.then(|| TraceContext::new_trace(Uuid::now_v7(), Uuid::now_v7())))
}

/// Prints next steps after a request that did not reach all nodes or did not succeed on all.
fn print_next_steps(report: &RequestReport, job: Option<&str>, cx: CommandContext<'_>) {
    let Some(job) = job else { return };
    cx.printer.print_detail(format_args!("job {job}"));
    if !report.stats.not_asked.is_empty() {
        let nodes = node_count_text(report.stats.not_asked.len());
        cx.printer.print_hint(format_args!(
            "run `rpc do --resume {job}` to call the {nodes} that received no request"
        ));
    }
    if report.may_succeed_later() {
        cx.printer.print_hint(format_args!(
            "run `rpc do --retry-failed {job}` to retry the nodes that failed or did not reply"
        ));
    }
}
