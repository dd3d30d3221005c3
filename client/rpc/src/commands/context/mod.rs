//! `rpc context`: lists, shows and selects named configurations.

pub mod args;

use std::path::Path;

use muster_base::{error_chain, unix_millis_now};
use muster_client::{
    CallerSummary, ConfigSelection, ContextName, ContextStore, DEFAULT_CONTEXT, RpcSettings,
    RpcSettingsError,
};
use muster_display::table::Table;

use crate::commands::context::args::{ContextCommand, ContextShowArgs};
use crate::commands::whoami::output::{CallerDocument, ContextListDocument, ContextRow};
use crate::commands::whoami::print_caller;
use crate::flags::json::JsonArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error};

pub fn run(command: ContextCommand, cx: CommandContext<'_>) -> CommandResult {
    let store = || ContextStore::new(cx.environment.config_home.as_deref());
    match command {
        ContextCommand::List(json) => list_contexts(&json, cx),
        ContextCommand::Show(args) => show_context(&args, cx),
        ContextCommand::Use(args) => use_context(&ContextName::parse(&args.name)?, cx),
        ContextCommand::Add(args) => {
            let path = std::path::absolute(&args.configuration).unwrap_or(args.configuration);
            // A file that cannot be used is not added.
            let file = if path.is_dir() { path.join("rpc.toml") } else { path.clone() };
            RpcSettings::load(&file)?;
            let name = ContextName::parse(&args.name)?;
            store()?.add(&name, &path)?;
            cx.printer.print_message(format_args!("added the context {name}: {}", file.display()));
            cx.printer.print_hint(format_args!("run `rpc context use {name}` to select it"));
            Ok(CommandExitCode::Passed)
        }
        ContextCommand::Remove(args) => {
            let name = ContextName::parse(&args.name)?;
            let store = store()?;
            let file = store.find(&name)?.file;
            store.remove(&name)?;
            cx.printer.print_message(format_args!(
                "removed the context {name}; {} is kept",
                file.display()
            ));
            Ok(CommandExitCode::Passed)
        }
    }
}

/// Lists all contexts, and the default configuration if there is one.
fn list_contexts(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = json.form()?;
    let store = ContextStore::new(cx.environment.config_home.as_deref())?;
    let current = cx.config_selection().select().ok();
    let is_current = |name: Option<&ContextName>, file: &Path| {
        current.as_ref().is_some_and(|current| {
            current.context.as_ref() == name && current.file.as_path() == file
        })
    };
    let mut rows = Vec::new();
    match RpcSettings::find_file(None, cx.environment.config_home.as_deref()) {
        Ok(file) => rows.push(context_row(DEFAULT_CONTEXT, &file, is_current(None, &file))),
        Err(RpcSettingsError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for context in store.list()? {
        let is_current = is_current(Some(&context.name), &context.file);
        rows.push(context_row(context.name.as_str(), &context.file, is_current));
    }
    let is_empty = rows.is_empty();
    let document = ContextListDocument::new(rows);
    cx.print_result(json.as_ref(), &document, || {
        let heading = ["", "NAME", "FLEET", "USER", "COLLECTIVE", "EXPIRES"];
        Table::new(heading).rows(document.rows()).render(cx.table_width())
    })?;
    if is_empty {
        cx.printer.print_hint(format_args!(
            "run `rpc org add user NAME --bundle {}/CONTEXT` to create a context",
            store.contexts_directory().display()
        ));
    }
    warn_of_other_file(cx);
    Ok(CommandExitCode::Passed)
}

/// A row of the list. A configuration that cannot be used is listed with the reason.
fn context_row(name: &str, file: &Path, current: bool) -> ContextRow {
    let row = |caller, collective, problem| ContextRow {
        name: name.to_owned(),
        current,
        configuration: file.display().to_string(),
        caller,
        collective,
        problem,
    };
    let settings = match RpcSettings::load(file) {
        Ok(settings) => settings,
        Err(error) => return row(None, None, Some(error_chain(&error))),
    };
    let collective = Some(settings.collective.to_string());
    match CallerSummary::load(&settings, unix_millis_now()) {
        Ok(caller) => row(Some(CallerDocument::new(&caller)), collective, None),
        Err(error) => row(None, collective, Some(error_chain(&error))),
    }
}

/// Shows the context with this name, or the one that commands use.
fn show_context(args: &ContextShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let Some(name) = &args.name else {
        let settings = cx.load_settings()?;
        let origin = cx.config_selection().select()?.origin;
        return print_caller(settings, origin, &args.json, cx);
    };
    let config_home = cx.environment.config_home.as_deref();
    let selection = ConfigSelection { context: Some(name), config_home, ..Default::default() };
    let selected = selection.select()?;
    let mut settings = RpcSettings::load(&selected.file)?;
    settings.context = selected.context;
    print_caller(&settings, "its name", &args.json, cx)
}

fn use_context(name: &ContextName, cx: CommandContext<'_>) -> CommandResult {
    let store = ContextStore::new(cx.environment.config_home.as_deref())?;
    store.select(name)?;
    let printed =
        if name.is_default() { "no context".to_owned() } else { format!("the context {name}") };
    cx.printer.print_message(format_args!("commands use {printed} from now on"));
    warn_of_other_file(cx);
    Ok::<_, Error>(CommandExitCode::Passed)
}

/// Warns that a variable takes precedence over the selected context.
fn warn_of_other_file(cx: CommandContext<'_>) {
    for (variable, is_set) in [
        ("RPC_CONFIG", cx.environment.config.is_some()),
        ("RPC_CONTEXT", cx.environment.context.is_some()),
    ] {
        if is_set {
            cx.printer.print_warning(format_args!(
                "{variable} is set and takes precedence over the selected context; `unset {variable}` ends that"
            ));
        }
    }
}
