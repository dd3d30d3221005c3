//! `rpc tunnel NODE PORT`: connections to a port of a node through the bus.

pub mod args;

use std::io;
use std::net::SocketAddr;

use muster_base::error_chain;
use muster_client::{FleetConnection, FleetRequestError, TargetSelection, list_answering};
use muster_contract::tunnel::TunnelAgent;
use muster_ddl::AgentContract as _;
use muster_filter::NodeFilter;
use muster_operations::tunnel::{
    ProcessInput, ProcessOutput, TunnelConnectionEvent, TunnelDialer, TunnelError, TunnelListener,
};
use muster_wire::identity::Identity;
use tokio_util::sync::CancellationToken;

use crate::commands::tunnel::args::TunnelArgs;
use crate::report::progress::MessagePrinter;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Error,
};

/// Why there is no local end of a tunnel.
#[derive(Debug, thiserror::Error)]
pub enum TunnelEndpointError {
    /// The address is in use, or not one of this machine.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The node did not reply as one with the agent.
    #[error("{0} does not reply as a node that offers tunnels")]
    NoNode(Identity),
    #[error("cannot use standard input and output")]
    Streams(#[source] io::Error),
}

impl CommandError for TunnelEndpointError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoNode(node) => vec![format!(
                "`rpc ping -I {node}` shows whether it is connected; `[plugins.tunnel] enabled = true` in its configuration enables tunnels"
            )],
            Self::Listen { .. } | Self::Streams(_) => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NoNode(_) => CommandExitCode::NoneAnswered,
            Self::Listen { .. } | Self::Streams(_) => CommandExitCode::Local,
        }
    }
}

impl CommandError for TunnelError {
    fn hints(&self) -> Vec<String> {
        match self {
            error if error.is_broker_refusal() => vec![PUSH_HINT.to_owned()],
            Self::Refused { node, .. } => vec![format!(
                "`rpc find -A tunnel -I {node}` shows whether the node offers tunnels; `[plugins.tunnel] enabled = true` in its configuration and a policy permit them"
            )],
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Refused { .. } | Self::Ended { .. } => CommandExitCode::SomeFailed,
            Self::Absent(_) | Self::Silent(_) => CommandExitCode::NoneAnswered,
            _ => CommandExitCode::Local,
        }
    }
}

const PUSH_HINT: &str = "the organisation is older than tunnels: run `rpc org push`, which gives its users the permission, and connect again";

pub async fn run(args: TunnelArgs, cx: CommandContext<'_>) -> CommandResult {
    let fleet = cx.connect(&TargetSelection::default()).await?;
    let dialer = TunnelDialer::new(&fleet, cx.complete_node_name(args.node), args.port);
    if args.stdio {
        return carry_stdio(&dialer).await;
    }
    let address = args.listen;
    let to_error = |source| TunnelEndpointError::Listen { address, source };
    let listener = TunnelListener::bind(address, dialer.clone()).await.map_err(to_error)?;
    check_node(&fleet, dialer.node(), cx).await?;
    cx.printer.print_line(listener.local_address().map_err(to_error)?)?;
    cx.printer.print_message(format_args!(
        "Listening for connections to port {} of {}, which decides on each of them; Ctrl-C closes them",
        dialer.port(),
        dialer.node()
    ));
    let mut unopened = 0;
    listener
        .serve_until_interrupt(|event| {
            unopened += usize::from(is_unopened(&event));
            report_event(&event, cx);
        })
        .await;
    Ok(CommandExitCode::from_verdict(unopened == 0))
}

/// Fails unless the node replies now and has the agent. Nothing is opened, so whether it permits the port is known with the first connection.
async fn check_node(
    fleet: &FleetConnection,
    node: &Identity,
    cx: CommandContext<'_>,
) -> Result<(), Error> {
    let filter = NodeFilter::default()
        .with_identity(node.as_str())
        .and_then(|filter| filter.with_agent(TunnelAgent::NAME))
        .map_err(|source| FleetRequestError::Filter { flag: "NODE", source })?;
    let target = TargetSelection::from_filter(filter, None);
    if !list_answering(fleet, &target, &MessagePrinter(cx.printer)).await?.nodes.is_empty() {
        return Ok(());
    }
    cx.suggest_nodes([node]);
    Err(TunnelEndpointError::NoNode(node.clone()).into())
}

/// Whether a connection was closed because the node did not open a tunnel for it.
fn is_unopened(event: &TunnelConnectionEvent) -> bool {
    matches!(
        event,
        TunnelConnectionEvent::Failed(
            TunnelError::Refused { .. } | TunnelError::Absent(_) | TunnelError::Silent(_)
        )
    )
}

async fn carry_stdio(dialer: &TunnelDialer) -> CommandResult {
    let tunnel = dialer.dial().await?;
    let input = ProcessInput::open().map_err(TunnelEndpointError::Streams)?;
    let output = ProcessOutput::open().map_err(TunnelEndpointError::Streams)?;
    tunnel.carry(input, output, CancellationToken::new()).await?;
    Ok(CommandExitCode::Passed)
}

fn report_event(event: &TunnelConnectionEvent, cx: CommandContext<'_>) {
    let printer = cx.printer;
    match event {
        TunnelConnectionEvent::Ended(carried) => printer.print_detail(format_args!(
            "connection ended: {} bytes to the node, {} bytes from it",
            carried.totals.sent, carried.totals.received
        )),
        TunnelConnectionEvent::Interrupted => {}
        TunnelConnectionEvent::Failed(error) => {
            printer.print_error(error_chain(error));
            for hint in error.hints() {
                printer.print_hint(&hint);
            }
        }
        TunnelConnectionEvent::NotAccepted(error) => {
            printer.print_warning(format_args!("cannot accept a connection: {error}"));
        }
    }
}
