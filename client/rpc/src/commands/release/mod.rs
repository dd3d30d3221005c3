//! `rpc release`: names sets of catalogs, compares them, and gives them to nodes.

pub mod args;
mod create;
pub mod output;
mod plan;
mod promote;

use muster_calls::ServiceCallError;
use muster_client::FleetConnection;
use muster_contract::compiler::{
    CompilerDiff, CompilerDiffInput, CompilerRelease, CompilerReleaseInput, CompilerReleases,
    CompilerReleasesOutput,
};
use muster_contract::release::ReleaseStatus;
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use muster_schedule::ScheduleError;
use muster_wire::catalog::release::{ReleaseRefusal, open_release};
use muster_wire::identity::SubjectName;
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::{ServiceRight, TokenCache};

use crate::commands::release::args::{ReleaseCommand, ReleaseDiffArgs};
use crate::commands::release::output::{
    ReleaseStatusDocument, read_status, render_diff, render_releases, render_status,
};
use crate::flags::filters::QueryArgs;
use crate::flags::json::JsonArgs;
use crate::request::inquiry::query_nodes;
use crate::request::service::query_service;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};

/// Why a release cannot be made or promoted.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseCommandError {
    #[error("the release {name} is not accepted")]
    Refused {
        name: String,
        #[source]
        source: ReleaseRefusal,
    },
    #[error("the answer has the release {found} in place of {expected}")]
    OtherRelease { found: SubjectName, expected: SubjectName },
    #[error("cannot sign it")]
    Sign(#[from] EnvelopeSignError),
    #[error("the window cannot be read")]
    Window(#[source] ScheduleError),
    #[error("the filter reads the data source {0}, which a node cannot evaluate for a promotion")]
    DataSource(String),
    #[error("no node of the environment {0} is compiled")]
    Nothing(String),
    #[error("the service has no list of the release; it is of another version")]
    NoList,
    #[error("the name {0} is not a name of a release")]
    Name(String),
}

impl CommandError for ReleaseCommandError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Refused { .. } => {
                "create the release again; `rpc release list` shows who made it"
            }
            Self::Nothing(_) => "`rpc catalog environments` shows what was compiled",
            Self::DataSource(_) => "use facts, classes or names",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Window(_) | Self::DataSource(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

pub async fn run(command: ReleaseCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ReleaseCommand::Create(args) => create::run(args, cx).await,
        ReleaseCommand::List(json) => list(&json, cx).await,
        ReleaseCommand::Diff(args) => diff(args, cx).await,
        ReleaseCommand::Plan(args) => plan::run(args, cx).await,
        ReleaseCommand::Promote(args) | ReleaseCommand::Rollback(args) => {
            promote::run(args, cx).await
        }
        ReleaseCommand::Status(query) => status(query, cx).await,
    }
}

async fn list(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let render = |found: &CompilerReleasesOutput| {
        if found.releases.is_empty() {
            cx.printer.print_message("no releases; see `rpc release create --help`");
        }
        render_releases(found, cx.table_width())
    };
    let shown = (json, "muster.releases.v1");
    query_service::<CompilerReleases>(ServiceRight::Compile, &EmptyInput {}, shown, render, cx)
        .await
}

async fn diff(args: ReleaseDiffArgs, cx: CommandContext<'_>) -> CommandResult {
    let input = CompilerDiffInput {
        name: args.name.to_string(),
        from: args.from.map(|name| name.to_string()),
    };
    let shown = (&args.json, "muster.release.diff.v1");
    query_service::<CompilerDiff>(ServiceRight::Compile, &input, shown, render_diff, cx).await
}

async fn status(query: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<ReleaseStatus>(&query, &EmptyInput {}, cx).await?;
    let nodes = read_status(&result.report);
    result.print_answered(
        "muster.release.status.v1",
        ReleaseStatusDocument { nodes: &nodes },
        || Ok(cx.printer.print_text(render_status(&nodes, cx.table_width()))?),
    )
}

/// A release as its author signed it, from the service.
async fn fetch_release(
    fleet: &FleetConnection,
    name: &SubjectName,
) -> Result<String, ServiceCallError> {
    let input = CompilerReleaseInput { name: name.to_string() };
    let service = ServiceRight::Compile;
    Ok(fleet.client.call_service::<CompilerRelease>(service, &input).await?.release)
}

/// Verifies a release: the signature of its author, and its name.
fn verify_release(
    fleet: &FleetConnection,
    text: &str,
    name: &SubjectName,
) -> Result<(), ReleaseCommandError> {
    let refused = |source| ReleaseCommandError::Refused { name: name.to_string(), source };
    let release = open_release(text, &fleet.client.trust(), &TokenCache::default());
    let release = release.map_err(refused)?;
    if release.name != *name {
        let (found, expected) = (release.name, name.clone());
        return Err(ReleaseCommandError::OtherRelease { found, expected });
    }
    Ok(())
}

/// Refuses filters that read data sources: a node evaluates a promotion without a request, from its facts, classes and name alone.
fn check_filter(filter: &NodeFilter) -> Result<(), ReleaseCommandError> {
    match filter.data_source() {
        Some(source) => Err(ReleaseCommandError::DataSource(source.to_owned())),
        None => Ok(()),
    }
}
