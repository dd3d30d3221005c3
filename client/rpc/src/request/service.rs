//! Asks a central service, and prints its answer.

use muster_client::documents::ServiceDocument;
use muster_client::{FleetConnection, TargetSelection};
use muster_ddl::Action;
use muster_filter::NodeFilter;
use muster_wire::identity::SubjectName;
use muster_wire::token::ServiceRight;

use crate::flags::json::JsonArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Connects to the fleet in the configured collective, or in this one.
pub async fn connect_to_services(
    collective: Option<SubjectName>,
    cx: CommandContext<'_>,
) -> Result<FleetConnection> {
    let target = TargetSelection::from_filter(NodeFilter::default(), collective);
    Ok(cx.connect(&target).await?)
}

/// Asks the service with this right, and prints its answer as a document or as text.
pub async fn query_service<A: Action>(
    service: ServiceRight,
    input: &A::Input,
    (json, schema): (&JsonArgs, &'static str),
    render: impl FnOnce(&A::Output) -> String,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = json.form()?;
    let fleet = connect_to_services(None, cx).await?;
    let output = fleet.client.call_service::<A>(service, input).await?;
    let document = ServiceDocument { schema, output: &output };
    cx.print_result(json.as_ref(), &document, || render(&output))?;
    Ok(CommandExitCode::Passed)
}
