//! `rpc inventory --collectives` and `--map`: shows which nodes are in which collective.

use muster_contract::rpcutil::RpcutilCollectiveInfo;
use muster_ddl::EmptyInput;
use muster_files::files;

use crate::commands::inventory::args::InventoryArgs;
use crate::commands::inventory::collectives_output::{CollectiveMembers, CollectivesDocument};
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandResult};

/// Collects the data, and prints the table or writes the graph.
pub async fn run(args: &InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<RpcutilCollectiveInfo>(&args.query, &EmptyInput {}, cx).await?;
    let members = CollectiveMembers::from_report(&result.report);
    let content = CollectivesDocument { collectives: &members.0 };
    result.print_answered("muster.collectives.v1", content, || match &args.map {
        None => Ok(cx.printer.print_text(members.render_table(cx.table_width()))?),
        Some(path) if path.as_os_str() == "-" => Ok(cx.printer.print_text(members.render_dot())?),
        Some(path) => {
            Ok(std::fs::write(path, members.render_dot())
                .map_err(files::file_error("write", path))?)
        }
    })
}
