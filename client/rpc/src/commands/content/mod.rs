//! `rpc content`: the files that catalogs and releases name, as the broker stores them.

pub mod args;
pub mod output;

use muster_client::documents::ServiceDocument;
use muster_contract::compiler::{
    CompilerCollect, CompilerContent, CompilerContentInput, CompilerVerify,
};
use muster_ddl::EmptyInput;
use muster_wire::token::ServiceRight;

use crate::commands::content::args::ContentCommand;
use crate::commands::content::output::{
    ContentList, render_collected, render_content, render_verified,
};
use crate::flags::json::JsonArgs;
use crate::request::service::{connect_to_services, query_service};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

const SERVICE: ServiceRight = ServiceRight::Compile;

pub async fn run(command: ContentCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ContentCommand::List(json) => list(&json, cx).await,
        ContentCommand::Gc(json) => {
            let shown = (&json, "muster.content.collected.v1");
            query_service::<CompilerCollect>(SERVICE, &EmptyInput {}, shown, render_collected, cx)
                .await
        }
        ContentCommand::Verify(json) => verify(&json, cx).await,
    }
}

/// Lists all pages.
async fn list(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = json.form()?;
    let fleet = connect_to_services(None, cx).await?;
    let (mut list, mut after) = (ContentList::default(), None);
    loop {
        let input = CompilerContentInput { after };
        let page = fleet.client.call_service::<CompilerContent>(SERVICE, &input).await?;
        list.files.extend(page.files);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let document = ServiceDocument { schema: "muster.content.v1", output: &list };
    cx.print_result(json.as_ref(), &document, || render_content(&list, cx.table_width()))?;
    Ok(CommandExitCode::Passed)
}

async fn verify(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = json.form()?;
    let fleet = connect_to_services(None, cx).await?;
    let found = fleet.client.call_service::<CompilerVerify>(SERVICE, &EmptyInput {}).await?;
    let document = ServiceDocument { schema: "muster.content.verified.v1", output: &found };
    cx.print_result(json.as_ref(), &document, || render_verified(&found))?;
    Ok(CommandExitCode::from_verdict(found.defects_total == 0))
}
