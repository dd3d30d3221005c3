//! `rpc inventory --collectives` and `--map`: shows which nodes are in which collective.

use muster_contract::rpcutil::RpcutilCollectiveInfo;
use muster_files::files;

use crate::commands::inventory::args::InventoryArgs;
use crate::commands::inventory::collectives_output::{CollectiveMembers, CollectivesDocument};
use crate::report::documents::ReportDocument;
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandResult};

/// Collects the data, and prints the table or writes the graph.
pub async fn run(args: &InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<RpcutilCollectiveInfo>(&args.query, &[], cx).await?;
    let report = &result.report;
    let members = CollectiveMembers::from_report(report);
    let content = CollectivesDocument { collectives: &members.0 };
    let document = ReportDocument::new("muster.collectives.v1", content, report);
    result.print_answered(&document, || match &args.map {
        None => Ok(cx.printer.print_text(members.render_table(cx.table_width()))?),
        Some(path) if path.as_os_str() == "-" => Ok(cx.printer.print_text(members.render_dot())?),
        Some(path) => {
            Ok(std::fs::write(path, members.render_dot())
                .map_err(files::file_error("write", path))?)
        }
    })
}
