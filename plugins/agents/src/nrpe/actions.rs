//! The actions of `nrpe`, and its data source: `nrpe("check_load")`.

use std::sync::Arc;

use muster_api::{ActionError, CallContext, EmptyInput};
use muster_contract::nrpe::{
    CheckState, CommandResultRow, NrpeDataOutput, RunAllCommandsOutput, RunCommandInput,
    RunCommandOutput, is_command_name,
};
use tokio::task::JoinSet;

use crate::nrpe::check_runner::{CheckRefusal, CheckRunner, unknown_result};

const ARGUMENT_SEPARATOR: char = '!';
/// Bytes of output and performance data of all commands together in a reply.
const MAX_REPLY_BYTES: usize = 192 * 1024;
/// Most bytes of output or performance data of one command among all.
const MAX_ROW_BYTES: usize = 4 * 1024;
/// Most bytes of each text of a single command.
const MAX_TEXT_BYTES: usize = 48 * 1024;

/// A state other than OK is a failure with the name of the state, and with the outputs.
pub(crate) async fn run_command(
    runner: CheckRunner,
    cx: CallContext,
    input: RunCommandInput,
) -> Result<RunCommandOutput, ActionError> {
    let arguments = split_arguments(input.args.as_deref());
    let mut output = run_one(&runner, &cx, &input.command, &arguments).await?;
    for text in [&mut output.output, &mut output.long_output, &mut output.perfdata] {
        cut_text(text, MAX_TEXT_BYTES);
    }
    match CheckState::from_exit_code(output.exitcode) {
        CheckState::Ok => Ok(output),
        state => Err(ActionError::failed(state.as_str()).with_output(&output)),
    }
}

/// Runs all checks, a limited number at a time.
pub(crate) async fn run_all_commands(
    runner: CheckRunner,
    cx: CallContext,
    _: EmptyInput,
) -> Result<RunAllCommandsOutput, ActionError> {
    let table = runner.load_table(&cx).await?;
    let mut checks = JoinSet::new();
    for name in table.commands.keys().cloned() {
        let (runner, cx, table) = (runner.clone(), cx.clone(), Arc::clone(&table));
        checks.spawn(async move {
            let result = match runner.build_argv(&table, &name, &[]) {
                Ok(argv) => runner.run_check(&cx, &table, &name, argv).await?,
                Err(refusal) => unknown_result(&name, refusal.into_message()),
            };
            Ok::<_, ActionError>((name, result))
        });
    }
    let limit = (MAX_REPLY_BYTES / table.commands.len().max(1)).min(MAX_ROW_BYTES);
    let mut output = RunAllCommandsOutput::default();
    while let Some(ended) = checks.join_next().await {
        let ended = ended.map_err(|error| ActionError::internal_error(error.to_string()))?;
        let (name, result) = ended?;
        let RunCommandOutput { exitcode, output: mut text, mut perfdata, .. } = result;
        cut_text(&mut text, limit);
        cut_text(&mut perfdata, limit);
        output.commands.insert(name, CommandResultRow { exitcode, output: text, perfdata });
    }
    Ok(output)
}

/// Runs one check for a filter.
pub(crate) async fn query_command(
    runner: CheckRunner,
    cx: CallContext,
    command: String,
) -> Result<NrpeDataOutput, ActionError> {
    if !is_command_name(&command) {
        return Err(ActionError::invalid_input("a name of a command has letters, digits, - and _"));
    }
    let result = run_one(&runner, &cx, &command, &[]).await?;
    Ok(NrpeDataOutput { exitcode: result.exitcode, output: result.output })
}

async fn run_one(
    runner: &CheckRunner,
    cx: &CallContext,
    name: &str,
    arguments: &[String],
) -> Result<RunCommandOutput, ActionError> {
    let table = match runner.load_table(cx).await {
        Ok(table) => table,
        Err(error) => {
            let output = unknown_result(name, error.message.clone());
            return Err(error.with_output(&output));
        }
    };
    match runner.build_argv(&table, name, arguments) {
        Ok(argv) => runner.run_check(cx, &table, name, argv).await,
        Err(CheckRefusal::Unusable(message)) => Ok(unknown_result(name, message)),
        Err(CheckRefusal::Arguments(message)) => {
            let output = unknown_result(name, message.clone());
            Err(ActionError::invalid_input(message).with_output(&output))
        }
    }
}

/// The arguments; without a text, or with an empty one, there are none.
fn split_arguments(text: Option<&str>) -> Vec<String> {
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.split(ARGUMENT_SEPARATOR).map(str::to_owned).collect()).unwrap_or_default()
}

/// Cuts a text to this many bytes, at a character.
fn cut_text(text: &mut String, limit: usize) {
    let end = text.floor_char_boundary(limit);
    text.truncate(end);
}
