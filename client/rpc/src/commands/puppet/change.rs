//! `rpc puppet enable`, `disable` and `restart`: shortcuts for ordinary requests.

use muster_contract::puppet::{PuppetDisable, PuppetDisableInput, PuppetEnable, PuppetEnableInput};
use muster_contract::restart::{RestartRequest, RestartRequestInput};

use crate::commands::puppet::args::{PuppetChangeArgs, PuppetDisableArgs, PuppetRestartArgs};
use crate::flags::seconds::whole_seconds;
use crate::request::send::send_action;
use crate::session::context::{CommandContext, CommandResult};

const PUPPET_UNIT: &str = "puppet";

pub async fn enable_runs(args: PuppetChangeArgs, cx: CommandContext<'_>) -> CommandResult {
    let PuppetChangeArgs { yes, noop, query } = args;
    let input = PuppetEnableInput { noop: noop.then_some(true) };
    send_action::<PuppetEnable>(&input, yes, query, cx).await
}

pub async fn disable_runs(args: PuppetDisableArgs, cx: CommandContext<'_>) -> CommandResult {
    let PuppetDisableArgs { message, change: PuppetChangeArgs { yes, noop, query } } = args;
    let input = PuppetDisableInput { message, noop: noop.then_some(true) };
    send_action::<PuppetDisable>(&input, yes, query, cx).await
}

pub async fn restart_daemon(args: PuppetRestartArgs, cx: CommandContext<'_>) -> CommandResult {
    let PuppetRestartArgs { when_idle, deadline, change } = args;
    let PuppetChangeArgs { yes, noop, query } = change;
    let input = RestartRequestInput {
        unit: PUPPET_UNIT.to_owned(),
        when_idle: Some(when_idle),
        deadline: deadline.map(whole_seconds),
        force: None,
        verify_bus: None,
        wait: Some(true),
        noop: noop.then_some(true),
    };
    send_action::<RestartRequest>(&input, yes, query, cx).await
}
