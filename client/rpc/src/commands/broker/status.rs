//! `rpc broker status`: the state of the broker's servers, leaf nodes and streams.

use muster_base::unix_millis_now;
use muster_display::TextPage;
use muster_display::printer::OutputPrinter;
use muster_display::table::Table;
use muster_organisation::{BrokerStatus, LeafStatus, ServerStatus, StreamStatus};
use serde::Serialize;

use crate::flags::org_directory::OrgDocumentArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// The document that `-j` prints.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BrokerStatusDocument {
    schema: &'static str,
    organisation: String,
    #[serde(flatten)]
    status: BrokerStatus,
}

pub async fn run(args: &OrgDocumentArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    let status = organisation.query_broker_status(unix_millis_now()).await?;
    let verdict = CommandExitCode::from_verdict(status.problems.is_empty());
    if args.json {
        let organisation = organisation.profile().name.clone();
        let schema = "muster.broker.status.v1";
        cx.printer.print_json(&BrokerStatusDocument { schema, organisation, status })?;
        return Ok(verdict);
    }
    cx.printer.print_text(render_status(&status, cx.table_width()))?;
    print_problems(&status, cx.printer);
    Ok(verdict)
}

fn print_problems(status: &BrokerStatus, printer: &OutputPrinter) {
    for problem in &status.problems {
        printer.print_warning(problem);
    }
}

/// Renders a table for each kind of thing of which there are any. Names are those that servers report of themselves.
fn render_status(status: &BrokerStatus, width: usize) -> String {
    let heading =
        ["SERVER", "STATE", "VERSION", "UPTIME", "CLIENTS", "ROUTES", "LEAFS", "SLOW", "CLUSTER"];
    let mut page = TextPage::default();
    page.push_text(Table::new(heading).rows(status.servers.iter().map(server_cells)).render(width));
    let mut leafs = Table::new(["LEAF", "SERVER", "ADDRESS", "ROUND TRIP"]);
    leafs.rows(status.leafs.iter().map(leaf_cells));
    let heading = ["STREAM", "REPLICAS", "LEADER", "MESSAGES", "BYTES", "COPIES"];
    let mut streams = Table::new(heading);
    streams.rows(status.streams.iter().map(stream_cells));
    for table in [leafs, streams].iter().filter(|table| !table.is_empty()) {
        page.push_gap();
        page.push_text(table.render(width));
    }
    page.into_text()
}

fn server_cells(server: &ServerStatus) -> [String; 9] {
    let name = server.name.clone();
    let Some(running) = &server.running else {
        let mut cells = std::array::from_fn(|_| "-".to_owned());
        [cells[0], cells[1]] = [name, "no answer".to_owned()];
        return cells;
    };
    [
        name,
        if running.is_meta_leader { "leader" } else { "running" }.to_owned(),
        running.version.clone(),
        running.uptime.clone(),
        running.connections.to_string(),
        running.routes.to_string(),
        running.leafs.to_string(),
        running.slow_consumers.to_string(),
        running.cluster.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

fn leaf_cells(leaf: &LeafStatus) -> [String; 4] {
    [&leaf.name, &leaf.server, &leaf.address, &leaf.round_trip].map(String::clone)
}

fn stream_cells(stream: &StreamStatus) -> [String; 6] {
    let copies = stream.followers.iter().map(|follower| {
        let state = match follower {
            follower if follower.is_offline => " (offline)".to_owned(),
            follower if follower.is_current => String::new(),
            follower => format!(" ({} behind)", follower.lag),
        };
        format!("{}{state}", follower.server)
    });
    let copies = copies.collect::<Vec<_>>().join(", ");
    [
        stream.name.clone(),
        stream.replicas.to_string(),
        stream.leader.clone().unwrap_or_else(|| "-".to_owned()),
        stream.messages.to_string(),
        stream.bytes.to_string(),
        if copies.is_empty() { "-".to_owned() } else { copies },
    ]
}
