//! `rpc compile` and `rpc catalog`: catalogs that the compiler makes before nodes ask for them.

pub mod args;
pub mod output;

use muster_client::documents::ServiceDocument;
use muster_contract::compiler::{
    CompilerAgent, CompilerAnnounce, CompilerAnnounceInput, CompilerCatalog, CompilerCatalogInput,
    CompilerCheck, CompilerCheckInput, CompilerCheckRow, CompilerCompile, CompilerCompileInput,
    CompilerEnvironments, CompilerList, CompilerListInput, CompilerNodeInput, CompilerShow,
};
use muster_ddl::{Action, EmptyInput};
use muster_wire::token::ServiceRight;

use crate::commands::catalog::args::{
    CatalogCommand, CatalogListArgs, CatalogShowArgs, CatalogWhyArgs, CompileArgs,
};
use crate::commands::catalog::output::{
    CatalogDocument, CatalogList, CatalogReadError, read_catalog, render_announced, render_catalog,
    render_check, render_compiled, render_environments, render_list, render_why,
};
use crate::flags::filters::{ConditionArgs, FilterArgs};
use crate::flags::json::JsonArgs;
use crate::request::service::{connect_to_services, query_service};
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};
use crate::session::errors::AllNodesError;

impl CommandError for CatalogReadError {}

/// Code is compiled for all nodes that it changes.
#[derive(Debug, thiserror::Error)]
#[error("`--environment` compiles all nodes that the code changes, and takes no filter")]
struct FilteredCodeError;

impl CommandError for FilteredCodeError {
    fn hints(&self) -> Vec<String> {
        vec!["compile the nodes of a filter without `--environment`".to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

pub async fn compile(args: CompileArgs, cx: CommandContext<'_>) -> CommandResult {
    let filter = read_filter(args.conditions, cx)?;
    if let Some(environment) = args.environment {
        if filter.is_some() {
            return Err(FilteredCodeError.into());
        }
        let input = CompilerAnnounceInput { environment, code: args.code };
        let shown = (&args.json, "muster.compile.announced.v1");
        return query::<CompilerAnnounce>(&input, shown, render_announced, cx).await;
    }
    if args.check_inputs {
        return check_inputs(filter, &args.json, cx).await;
    }
    if filter.is_none() && !args.all {
        let command = "rpc compile".to_owned();
        return Err(AllNodesError { command, effect: "compiles" }.into());
    }
    let input = CompilerCompileInput { filter };
    query::<CompilerCompile>(&input, (&args.json, "muster.compile.v1"), render_compiled, cx).await
}

async fn check_inputs(
    filter: Option<String>,
    json: &JsonArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = json.form()?;
    let fleet = connect_to_services(None, cx).await?;
    let input = CompilerCheckInput { filter };
    let found = fleet.client.call_service::<CompilerCheck>(ServiceRight::Compile, &input).await?;
    let document = ServiceDocument { schema: "muster.compile.check.v1", output: &found };
    cx.print_result(json.as_ref(), &document, || render_check(&found, cx.table_width()))?;
    let is_sound = |row: &CompilerCheckRow| row.missed.is_empty() && row.failure.is_none();
    Ok(CommandExitCode::from_verdict(found.nodes.iter().all(is_sound)))
}

pub async fn run(command: CatalogCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        CatalogCommand::List(args) => list(args, cx).await,
        CatalogCommand::Show(args) => show(args, cx).await,
        CatalogCommand::Why(CatalogWhyArgs { node, json }) => {
            let input = CompilerNodeInput { node: node.to_string() };
            let width = cx.table_width();
            let render = |shown: &_| render_why(shown, width);
            query::<CompilerShow>(&input, (&json, "muster.catalog.why.v1"), render, cx).await
        }
        CatalogCommand::Environments(json) => {
            let width = cx.table_width();
            let render = |found: &_| render_environments(found, width);
            let shown = (&json, "muster.catalog.environments.v1");
            query::<CompilerEnvironments>(&EmptyInput {}, shown, render, cx).await
        }
    }
}

/// Lists all pages.
async fn list(args: CatalogListArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let filter = read_filter(args.conditions, cx)?;
    let fleet = connect_to_services(None, cx).await?;
    let (mut list, mut after) = (CatalogList::default(), None);
    loop {
        let input = CompilerListInput { filter: filter.clone(), failed: Some(args.failed), after };
        let page = fleet.client.call_service::<CompilerList>(ServiceRight::Compile, &input).await?;
        list.nodes.extend(page.nodes);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let document = ServiceDocument { schema: "muster.catalogs.v1", output: &list };
    cx.print_result(json.as_ref(), &document, || render_list(&list, cx.table_width()))?;
    if list.nodes.is_empty() {
        cx.printer.print_message("no nodes found");
    }
    Ok(CommandExitCode::from_found(!list.nodes.is_empty()))
}

async fn show(args: CatalogShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let input = CompilerCatalogInput {
        node: args.node.to_string(),
        address: args.address.map(|address| address.to_string()),
    };
    let fleet = connect_to_services(None, cx).await?;
    let output =
        fleet.client.call_service::<CompilerCatalog>(ServiceRight::Compile, &input).await?;
    let catalog = read_catalog(&output)?;
    let document = CatalogDocument::new(&output, &catalog);
    cx.print_result(json.as_ref(), &document, || render_catalog(&document, cx.table_width()))?;
    Ok(CommandExitCode::Passed)
}

/// The filter as JSON; `None` without conditions.
pub(crate) fn read_filter(
    conditions: ConditionArgs,
    cx: CommandContext<'_>,
) -> Result<Option<String>> {
    let flags = FilterArgs { conditions, ..FilterArgs::default() };
    let target = cx.read_target(&flags)?;
    let text = || serde_json::to_string(&target.filter).map_err(CatalogReadError::Json);
    Ok((!target.filter.is_empty()).then(text).transpose()?)
}

/// Asks the compiler, and prints its answer.
async fn query<A: Action<Agent = CompilerAgent>>(
    input: &A::Input,
    shown: (&JsonArgs, &'static str),
    render: impl FnOnce(&A::Output) -> String,
    cx: CommandContext<'_>,
) -> CommandResult {
    query_service::<A>(ServiceRight::Compile, input, shown, render, cx).await
}
