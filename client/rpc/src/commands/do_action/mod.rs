//! `rpc do AGENT ACTION`, `rpc AGENT ACTION`: calls an action on all matching nodes, or prints its help.

pub mod output;

use muster_client::{AgentSchemas, RequestWords};

use crate::commands::do_action::output::{render_action_help, render_agent_help};
use crate::flags::request::RequestArgs;
use crate::request::send;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub const USAGE: &str = "rpc do AGENT [ACTION] [KEY=VALUE]... [OPTIONS]
       rpc AGENT ACTION [KEY=VALUE]... [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc do puppetral type=user name=rip              the agent's default action
  rpc puppetral do type=user name=rip password=-   prompts for the password
  rpc do puppetral type=file name=/etc/motd content=@motd     from a file
  rpc do puppetral type=group name=ops members=rip,joe        a list
  rpc rpcutil get_fact fact=country -C apache --display all
  rpc do service restart service=httpd -W country=uk -j
  rpc service status service=httpd --fold          groups identical replies
  rpc find -C apache | rpc do rpcutil ping --nodes -
  rpc do service restart service=httpd --canary 1 --batch 10% --max-failures 2
  rpc do --resume JOB                              continues a rollout
  rpc package purge package=nginx -C apache --request-approval purge.json

`rpc plugin doc AGENT` shows the actions of an agent and their inputs.

VALUE is text, @FILE for the content of a file, or - for the standard input. @@
stands for a leading @, and '\\-' is the text -. A list is a,b or [\"a\",\"b\"], or
its input is repeated. A property of a resource that has the name of an input is
params.NAME=VALUE.

Ctrl-C ends the request: the command lists which nodes received it and which did
not, and exits with 130. Nodes that received it continue;
`rpc cancel` stops them. A second Ctrl-C ends the command at once.

Requests that change nodes are stored as jobs: see `rpc job`.";

pub async fn run(args: RequestArgs, cx: CommandContext<'_>) -> CommandResult {
    if args.help { print_help(&args, cx) } else { send::run(args, cx).await }
}

/// Prints the usage of the agent or its action.
fn print_help(args: &RequestArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut schemas = AgentSchemas::load(cx.load_settings_if_any()?)?;
    schemas.commands.clone_from(&args.commands);
    let words = RequestWords::parse(args.agent.as_deref().unwrap_or_default(), &args.words)?;
    let ddl = schemas.find_agent(&words.agent)?;
    let page = match words.action {
        None => render_agent_help(ddl),
        Some(_) => render_action_help(ddl, schemas.find_action(&words)?.1),
    };
    cx.printer.print_text(page)?;
    Ok(CommandExitCode::Passed)
}
