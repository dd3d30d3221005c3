//! `rpc broker balance`: spreads connections over the servers of a cluster.

use muster_display::table::Table;
use muster_organisation::{BalanceReport, ServerLoad};
use serde::Serialize;

use crate::commands::broker::args::BrokerBalanceArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// The document that `-j` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BrokerBalanceDocument {
    schema: &'static str,
    organisation: String,
    #[serde(flatten)]
    report: BalanceReport,
}

pub async fn run(args: &BrokerBalanceArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    let report = if args.dry_run {
        organisation.count_connections().await?
    } else {
        organisation.balance_connections(args.rate).await?
    };
    let verdict = CommandExitCode::from_verdict(report.is_balanced);
    if args.json {
        let organisation = organisation.profile().name.clone();
        let schema = "muster.broker.balance.v1";
        cx.printer.print_json(&BrokerBalanceDocument { schema, organisation, report })?;
        return Ok(verdict);
    }
    let heading: &[&str] =
        if args.dry_run { &["SERVER", "CONNECTIONS"] } else { &["SERVER", "BEFORE", "AFTER"] };
    let cells = |load| load_cells(load).into_iter().take(heading.len());
    let rows = report.servers.iter().map(cells);
    cx.printer.print_text(Table::new(heading).rows(rows).render(cx.table_width()))?;
    if !report.is_balanced {
        let problem = if args.dry_run {
            "the connections are not balanced; run `rpc broker balance`"
        } else {
            "the connections are not balanced: some clients did not move; clients of other versions move only when they reconnect"
        };
        cx.printer.print_warning(problem);
    }
    Ok(verdict)
}

fn load_cells(load: &ServerLoad) -> [String; 3] {
    [load.server.clone(), load.before.to_string(), load.after.to_string()]
}
