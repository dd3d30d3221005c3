//! `rpc release create`: waits for compiles, and signs a list of the newest catalogs.

use std::time::Duration;

use muster_base::unix_millis_now;
use muster_client::{FleetConnection, load_offline_signer};
use muster_contract::compiler::{
    CompilerAnnounce, CompilerAnnounceInput, CompilerDiff, CompilerDiffInput, CompilerDraft,
    CompilerDraftInput, CompilerDraftOutput, CompilerPublish, CompilerPublishInput,
};
use muster_display::node_count_text;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::Release;
use muster_wire::identity::SubjectName;
use muster_wire::token::ServiceRight;

use super::ReleaseCommandError;
use crate::commands::catalog::read_filter;
use crate::commands::release::args::ReleaseCreateArgs;
use crate::commands::release::output::{ReleaseCreated, render_created};
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// How often the number of waiting nodes is asked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(args: ReleaseCreateArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let filter = read_filter(args.conditions, cx)?;
    let signer = load_offline_signer(cx.settings()?)?.signer;
    let fleet = connect_to_services(None, cx).await?;
    if let Some(code) = args.code {
        let environment = args.environment.clone();
        let input = CompilerAnnounceInput { environment, code: Some(code) };
        let service = ServiceRight::Compile;
        let announced = fleet.client.call_service::<CompilerAnnounce>(service, &input).await?;
        if announced.changed {
            let (name, code) = (&args.environment, announced.code.line());
            cx.printer.print_message(format_args!("{name} stays at {code} from now on"));
            cx.printer.print_hint(format_args!(
                "`rpc compile --environment {name}` returns to the newest commit"
            ));
        }
    }
    let input = CompilerDraftInput {
        environment: args.environment.clone(),
        filter,
        incomplete: args.no_wait.then_some(true),
    };
    let draft = wait_for_draft(&fleet, &input, cx).await?;
    if draft.nodes == 0 {
        return Err(ReleaseCommandError::Nothing(args.environment).into());
    }
    let list = draft.list.as_deref().and_then(|list| ContentAddress::parse(list).ok());
    let name = match args.name {
        Some(name) => name,
        None => SubjectName::parse(&draft.name)
            .map_err(|_| ReleaseCommandError::Name(draft.name.clone()))?,
    };
    let release = Release {
        name: name.clone(),
        author: signer.identity().clone(),
        environment: args.environment,
        code: draft.code.as_ref().map(|code| code.line().into_owned()).unwrap_or_default(),
        created_at: unix_millis_now(),
        nodes: draft.nodes,
        list: list.ok_or(ReleaseCommandError::NoList)?,
        plugins: draft
            .plugins
            .as_deref()
            .map(ContentAddress::parse)
            .transpose()
            .map_err(|_| ReleaseCommandError::NoList)?,
    };
    let release = release.sign(&signer).map_err(ReleaseCommandError::from)?;
    let service = ServiceRight::Compile;
    let input = CompilerPublishInput { release };
    let release = fleet.client.call_service::<CompilerPublish>(service, &input).await?;
    let input = CompilerDiffInput { name: name.to_string(), from: None };
    let diff = fleet.client.call_service::<CompilerDiff>(service, &input).await?;
    let created = ReleaseCreated::new(release, draft, diff);
    cx.print_result(json.as_ref(), &created, || render_created(&created, cx.table_width()))?;
    Ok(CommandExitCode::Passed)
}

/// The list of the newest catalogs, once all nodes are compiled.
async fn wait_for_draft(
    fleet: &FleetConnection,
    input: &CompilerDraftInput,
    cx: CommandContext<'_>,
) -> Result<CompilerDraftOutput> {
    let mut shown = None;
    loop {
        let draft =
            fleet.client.call_service::<CompilerDraft>(ServiceRight::Compile, input).await?;
        if draft.list.is_some() {
            return Ok(draft);
        }
        if shown.replace(draft.waiting) != Some(draft.waiting) {
            let waiting = node_count_text(draft.waiting);
            cx.printer.print_message(format_args!("waiting for the compile of {waiting}"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
