//! `rpc release promote` and `rollback`: signs a promotion, rolls it out, and stores it for nodes that are away.

use muster_base::unix_millis_now;
use muster_calls::ServiceCallError;
use muster_client::load_offline_signer;
use muster_contract::compiler::{CompilerPromote, CompilerPromoteInput};
use muster_contract::release::{
    ReleaseHeld, ReleaseHeldInput, ReleaseHeldOutput, ReleasePromote, ReleasePromoteInput,
};
use muster_display::node_count_text;
use muster_filter::NodeFilter;
use muster_schedule::MaintenanceWindows;
use muster_wire::catalog::release::{ApplyTimes, Promotion, Release};
use muster_wire::identity::SubjectName;
use muster_wire::token::ServiceRight;
use uuid::Uuid;

use super::{ReleaseCommandError, check_filter, fetch_release, verify_release};
use crate::commands::release::args::ReleasePromoteArgs;
use crate::flags::filters::QueryArgs;
use crate::flags::json::JsonArgs;
use crate::flags::request::RequestArgs;
use crate::flags::request_flags::RequestFlags;
use crate::request::inquiry::query_nodes;
use crate::request::send;
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandResult, Result};
use crate::session::errors::AllNodesError;

pub async fn run(mut args: ReleasePromoteArgs, cx: CommandContext<'_>) -> CommandResult {
    args.filters.conditions.select.extend(args.to.take());
    let target = cx.read_target(&args.filters)?;
    if !args.all && !target.is_filtered() {
        let command = "rpc release promote".to_owned();
        return Err(AllNodesError { command, effect: "changes" }.into());
    }
    check_filter(&target.filter)?;
    let times = apply_times(&args)?;
    let fleet = connect_to_services(args.filters.target.clone(), cx).await?;
    let (release, has_service) = match fetch_release(&fleet, &args.name).await {
        Ok(release) => (release, true),
        Err(error @ (ServiceCallError::Absent(_) | ServiceCallError::Timeout(_))) => {
            let held = ask_for_release(&args, cx).await?;
            (held.ok_or(error)?, false)
        }
        Err(error) => return Err(error.into()),
    };
    verify_release(&fleet, &release, &args.name)?;
    let promotion = sign(fleet.collective(), &release, target.filter.clone(), times, cx)?;
    let input = ReleasePromoteInput {
        promotion: promotion.clone(),
        release: release.clone(),
        apply: args.no_apply.then_some(false),
    };
    // What is stored goes by the filter alone.
    let is_for_all = args.filters.nodes.is_none() && args.pace.node_limit().is_none();
    let request = RequestArgs {
        pace: args.pace,
        flags: RequestFlags { yes: args.yes || args.all, ..RequestFlags::default() },
        output: args.output,
        filters: args.filters,
        ..RequestArgs::of_action::<ReleasePromote>(&input)
    };
    let sent = Box::pin(send::run_to_end(request, cx)).await?;
    if !is_for_all {
        cx.printer.print_message(
            "nodes that are away do not get the release: the request was for some nodes only",
        );
    } else if sent.is_stopped {
        cx.printer
            .print_warning("the rollout stopped, so nodes that are away do not get the release");
    } else if sent.has_only_failed {
        cx.printer.print_warning("every run failed, so nodes that are away do not get the release");
    } else if !has_service {
        cx.printer.print_warning(
            "the compiler does not answer, so nodes that are away do not get the release; promote it again later",
        );
    } else {
        let input = CompilerPromoteInput { promotion, release };
        let service = ServiceRight::Compile;
        let stored = fleet.client.call_service::<CompilerPromote>(service, &input).await?;
        if stored.nodes > 0 {
            let nodes = node_count_text(stored.nodes);
            cx.printer.print_message(format_args!(
                "stored for {nodes} of the release that match; those that are away find it when they return"
            ));
        }
    }
    Ok(sent.code)
}

/// The release from a node that has it, for a return to it while the service is away.
async fn ask_for_release(
    args: &ReleasePromoteArgs,
    cx: CommandContext<'_>,
) -> Result<Option<String>> {
    let query = QueryArgs { json: JsonArgs::default(), filters: args.filters.clone() };
    let input = ReleaseHeldInput { name: Some(args.name.to_string()) };
    let result = query_nodes::<ReleaseHeld>(&query, &input, cx).await?;
    let rows = result.report.rows::<ReleaseHeldOutput>();
    Ok(rows.into_iter().find_map(|row| row.outputs.release))
}

/// When nodes may apply the release by themselves.
fn apply_times(args: &ReleasePromoteArgs) -> Result<Option<ApplyTimes>> {
    if !args.always && args.windows.is_empty() {
        return Ok(None);
    }
    let times = ApplyTimes { windows: args.windows.clone(), time_zone: args.time_zone.clone() };
    MaintenanceWindows::parse(&times.windows, times.time_zone.as_deref())
        .map_err(ReleaseCommandError::Window)?;
    Ok(Some(times))
}

fn sign(
    collective: &SubjectName,
    release: &str,
    filter: NodeFilter,
    apply: Option<ApplyTimes>,
    cx: CommandContext<'_>,
) -> Result<String> {
    let signer = load_offline_signer(cx.settings()?)?.signer;
    let promotion = Promotion {
        id: Uuid::now_v7(),
        author: signer.identity().clone(),
        collective: collective.clone(),
        release: Release::address_of(release),
        filter,
        issued_at: unix_millis_now(),
        apply,
    };
    Ok(promotion.sign(&signer).map_err(ReleaseCommandError::from)?)
}
