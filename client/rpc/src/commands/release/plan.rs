//! `rpc release plan`: what a release would change, by the nodes' own account.

use muster_contract::release::{ReleasePlan, ReleasePlanInput};

use super::{fetch_release, verify_release};
use crate::commands::release::args::ReleasePlanArgs;
use crate::commands::release::output::{ReleasePlanDocument, fold_plans, render_plan};
use crate::request::inquiry::query_nodes;
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandResult};

pub async fn run(args: ReleasePlanArgs, cx: CommandContext<'_>) -> CommandResult {
    let collective = args.query.filters.target.clone();
    let fleet = connect_to_services(collective, cx).await?;
    let release = fetch_release(&fleet, &args.name).await?;
    verify_release(&fleet, &release, &args.name)?;
    let input = ReleasePlanInput { release };
    let result = query_nodes::<ReleasePlan>(&args.query, &input, cx).await?;
    let plan = fold_plans(&result.report);
    result.print_answered("muster.release.plan.v1", ReleasePlanDocument(&plan), || {
        Ok(cx.printer.print_text(render_plan(&plan))?)
    })
}
