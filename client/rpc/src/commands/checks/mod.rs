//! `rpc checks`: lists the scheduled checks of the fleet, and changes them. `follow` follows them.

pub mod args;
pub mod follow;
pub mod output;

use muster_base::unix_millis_now;
use muster_client::{FleetConnection, TargetSelection};
use muster_contract::nrpe::{
    AcknowledgeInput, CheckNameInput, MaintenanceInput, NrpeAcknowledge, NrpeAgent, NrpeChecks,
    NrpeEndMaintenance, NrpeMaintenance, NrpeTrigger, NrpeUnacknowledge, ScheduledChecksInput,
};
use muster_ddl::{Action, AgentContract as _};
use muster_operations::check::{FleetCheckList, list_recorded_checks};

use crate::commands::checks::args::{
    AcknowledgeArgs, CheckListArgs, CheckNameArgs, ChecksArgs, ChecksCommand, MaintenanceArgs,
};
use crate::commands::checks::follow::follow_checks;
use crate::commands::checks::output::{
    FleetChecksDocument, render_check_names, render_checks_table, render_checks_totals,
};
use crate::flags::list_form::NodeListForm;
use crate::report::list_form::print_in_form;
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_nodes;
use crate::request::send::send_action;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

pub async fn run(args: ChecksArgs, cx: CommandContext<'_>) -> CommandResult {
    match args.command {
        None if args.list.follow => follow_checks(&args.list, cx).await,
        None => list_checks(args.list, cx).await,
        Some(ChecksCommand::Ack(args)) => acknowledge(args, cx).await,
        Some(ChecksCommand::Unack(args)) => send_check::<NrpeUnacknowledge>(args, cx).await,
        Some(ChecksCommand::Maintenance(args)) => maintain(args, cx).await,
        Some(ChecksCommand::Run(args)) => send_check::<NrpeTrigger>(args, cx).await,
    }
}

async fn list_checks(args: CheckListArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let target = cx.read_target(&args.filters)?;
    let fleet = cx.connect(&target).await?;
    let (list, source) = find_checks(&fleet, &target, &args, cx).await?;
    let state = list.overall_state();
    let document = FleetChecksDocument::new(&list, source, &args);
    if json.is_some() {
        cx.print_result(json.as_ref(), &document, String::new)?;
    } else {
        print_list(&document, &args, cx)?;
    }
    if !list.current {
        cx.printer.print_warning(
            "the directory is not up to date: it has just started, or has lost its connection",
        );
    }
    if list.checks.is_empty() && list.missing.is_empty() {
        let nodes = target.filter.explain();
        cx.printer.print_message(format_args!("no scheduled checks found; looked for {nodes}"));
        cx.suggest_names(&target);
    }
    Ok(if args.exit_state {
        CommandExitCode::from_check_state(state)
    } else {
        CommandExitCode::from_found(!list.checks.is_empty())
    })
}

/// The checks, from the directory if there is one, and otherwise from the nodes. Returns the name of the source.
pub async fn find_checks(
    fleet: &FleetConnection,
    target: &TargetSelection,
    args: &CheckListArgs,
    cx: CommandContext<'_>,
) -> Result<(FleetCheckList, &'static str)> {
    if !args.live {
        match list_recorded_checks(fleet, target, false).await {
            Ok(list) => return Ok((list, "directory")),
            Err(error) if error.is_directory_away() => {
                cx.printer.print_detail(format_args!("{error}; asking the nodes"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let target = target.clone().with_agent(NrpeAgent::NAME)?;
    let schemas = cx.load_schemas()?;
    let plan = schemas.plan::<NrpeChecks>(&ScheduledChecksInput { check: None })?;
    let shows_progress = !args.json.json && args.json.jq.is_none() && !args.follow;
    let progress = ProgressReporter::new(cx.printer, shows_progress);
    let found = fleet.locate(&target, &progress).await?;
    let report = ask_nodes(fleet, &plan, found, &progress).await?;
    cx.warn_of_gaps(&report);
    Ok((FleetCheckList::from_replies(&report), "nodes"))
}

fn print_list(
    document: &FleetChecksDocument<'_>,
    args: &CheckListArgs,
    cx: CommandContext<'_>,
) -> Result<()> {
    let now = unix_millis_now() / 1000;
    print_in_form(args.output.as_ref(), document, cx, |form| match form {
        NodeListForm::Name => render_check_names(document),
        form => {
            let is_wide = matches!(form, NodeListForm::Wide);
            render_checks_table(document, now, cx.table_width(), is_wide)
                + &render_checks_totals(document)
        }
    })
}

async fn acknowledge(args: AcknowledgeArgs, cx: CommandContext<'_>) -> CommandResult {
    let AcknowledgeArgs { comment, time, check: CheckNameArgs { check, yes, query } } = args;
    let input = AcknowledgeInput { check, comment, seconds: time.map(|time| time.as_secs()) };
    send_action::<NrpeAcknowledge>(&input, yes, query, cx).await
}

async fn maintain(args: MaintenanceArgs, cx: CommandContext<'_>) -> CommandResult {
    let MaintenanceArgs { check, time, comment, end, yes, query } = args;
    // The command line requires one of the two.
    let (Some(time), false) = (time, end) else {
        let input = ScheduledChecksInput { check };
        return send_action::<NrpeEndMaintenance>(&input, yes, query, cx).await;
    };
    let input = MaintenanceInput { check, seconds: time.as_secs(), comment };
    send_action::<NrpeMaintenance>(&input, yes, query, cx).await
}

async fn send_check<A: Action<Input = CheckNameInput>>(
    args: CheckNameArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let CheckNameArgs { check, yes, query } = args;
    send_action::<A>(&CheckNameInput { check }, yes, query, cx).await
}
