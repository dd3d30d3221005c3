//! Runs a command. It receives its inputs as values, prints through the printer and returns its exit code; it does not read the command line or the
//! environment.

use std::cell::OnceCell;

use clap::CommandFactory as _;
use muster_client::SshProgram;

use crate::cli::{Cli, Command, Deferred};
use crate::commands::{
    again, approve, audit, broker, cancel, check, checks, completion, config, context, copy, demo,
    do_action, doctor, events, explain, facts, filter, find, inventory, job, listen, nodes, org,
    permit, ping, plugin, policy, prompt, provision, puppet, run, schedule, schema, ssh, stats,
    tunnel, whoami,
};
use crate::display::printer::OutputPrinter;
use crate::outcome::error::Error;
use crate::outcome::exit::CommandExitCode;
use crate::session::context::CommandContext;
use crate::session::environment::ProcessEnvironment;

pub async fn run(
    cli: Cli,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    let loaded_settings = &OnceCell::new();
    let config = cli.global.config.as_deref();
    let context = cli.global.context.as_deref();
    let cx = CommandContext { config, context, environment, loaded_settings, printer };
    match cli.command {
        Command::Ping(Deferred(args)) => ping::run(*args, cx).await,
        Command::Find(Deferred(args)) => find::run(*args, cx).await,
        Command::Nodes(Deferred(args)) => nodes::run_list(*args, cx).await,
        Command::Node(Deferred(args)) => nodes::run_show(*args, cx).await,
        Command::CheckRegistration(Deferred(args)) => nodes::run_check(*args, cx).await,
        Command::Check(Deferred(args)) => Box::pin(check::run(*args, cx)).await,
        Command::Prompt(Deferred(args)) => prompt::run(&args, cli.global.color, cx),
        Command::Again(Deferred(command)) => Box::pin(again::run(*command, cx)).await,
        Command::Schedule(Deferred(command)) => Box::pin(schedule::run(*command, cx)).await,
        Command::Checks(Deferred(args)) => Box::pin(checks::run(*args, cx)).await,
        Command::Facts(Deferred(args)) => facts::run(*args, cx).await,
        Command::Inventory(Deferred(args)) => inventory::run(*args, cx).await,
        Command::Do(Deferred(args)) => Box::pin(do_action::run(*args, cx)).await,
        Command::Run(Deferred(args)) => Box::pin(run::run(*args, cx)).await,
        Command::Cp(Deferred(args)) => Box::pin(copy::run(*args, cx)).await,
        Command::Ssh(Deferred(args)) => Box::pin(ssh::run(*args, cx)).await,
        Command::Scp(Deferred(args)) => {
            Box::pin(ssh::run_transfer(SshProgram::Scp, args.target, cx)).await
        }
        Command::Sftp(Deferred(args)) => {
            Box::pin(ssh::run_transfer(SshProgram::Sftp, args.target, cx)).await
        }
        Command::Tunnel(Deferred(args)) => Box::pin(tunnel::run(*args, cx)).await,
        Command::Listen(Deferred(args)) => Box::pin(listen::run(*args, cx)).await,
        Command::Events(Deferred(args)) => events::run(*args, cx).await,
        Command::Cancel(Deferred(args)) => cancel::run(*args, cx).await,
        Command::Stats(Deferred(args)) => stats::run(*args, cx).await,
        Command::Doctor(Deferred(args)) => doctor::run(*args, cx).await,
        Command::Approve(Deferred(args)) => approve::run(&args, cx),
        Command::Explain(Deferred(args)) => explain::run(*args, cx).await,
        Command::Job(Deferred(command)) => job::run(*command, cx).await,
        Command::Filter(Deferred(command)) => filter::run(&command, cx),
        Command::Puppet(Deferred(command)) => Box::pin(puppet::run(*command, cx)).await,
        Command::Permit(Deferred(command)) => Box::pin(permit::run(*command, cx)).await,
        Command::Plugin(Deferred(command)) => plugin::run(*command, cx).await,
        Command::Audit(Deferred(command)) => audit::run(*command, cx),
        Command::Whoami(Deferred(args)) => whoami::run(&args, cx),
        Command::Context(Deferred(command)) => context::run(*command, cx),
        Command::Config(Deferred(command)) => Box::pin(config::run(*command, cx)).await,
        Command::Policy(Deferred(command)) => policy::run(*command, cx).await,
        Command::Org(Deferred(command)) => org::run(*command, cx).await,
        Command::Provision(Deferred(command)) => provision::run(*command, cx).await,
        Command::Broker(Deferred(command)) => broker::run(*command, cx).await,
        Command::Demo(Deferred(command)) => demo::run(*command, cx).await,
        Command::Schema(Deferred(args)) => schema::run(&args, cx),
        Command::Completion(Deferred(args)) => completion::run(&args, cx),
        Command::Complete(Deferred(args)) => {
            completion::answer_shell(&args, Cli::command(), cx).await
        }
        Command::Man(Deferred(args)) => completion::write_man_pages(&args, Cli::command()),
    }
}
