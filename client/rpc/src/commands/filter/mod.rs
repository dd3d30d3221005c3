//! `rpc filter`: parses and explains filters as every command reads them. Sends no requests.

pub mod args;
pub mod output;

use muster_calls::DiscoverySource;
use muster_calls::discovery::inventory::FleetInventory;
use muster_client::FleetRequestError;
use muster_operations::policy::AssumedDataValues;

use crate::commands::filter::args::{FilterCommand, FilterTestArgs};
use crate::commands::filter::output::FilterTestDocument;
use crate::flags::filters::FilterArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::errors::InventoryFileError;

pub fn run(command: &FilterCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        FilterCommand::Explain(args) => explain_filter(args, cx),
        FilterCommand::Test(args) => test_filter(args, cx),
    }
}

fn explain_filter(args: &FilterArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(args)?;
    target.discovery_source(None)?;
    cx.printer.print_line(target.filter.explain())?;
    if let Some(select) = target.filter.select() {
        cx.printer.print_detail(format_args!("normal form: {select}"));
    }
    if let Some(query) = target.filter.query() {
        cx.printer.print_detail(format_args!("canonical query: {query}"));
    }
    Ok(CommandExitCode::Passed)
}

fn test_filter(args: &FilterTestArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut conditions = args.conditions.clone();
    conditions.select.extend(args.expressions.iter().cloned());
    let flags = FilterArgs { conditions, target: args.target.clone(), ..FilterArgs::default() };
    let target = cx.read_target(&flags)?;
    let json = args.json.form()?;
    let source = DiscoverySource::Inventory { file: args.file.clone() };
    let query = target.discovery_query(&source, None);
    source.method().check_supported(&query).map_err(FleetRequestError::from)?;
    let mut assumed_values = AssumedDataValues::default();
    for assumption in &args.data {
        assumed_values = assumed_values.with_value(assumption)?;
    }
    let to_error = |source| InventoryFileError::Inventory { path: args.file.clone(), source };
    let inventory = FleetInventory::read(&args.file).map_err(to_error)?;
    let results =
        inventory.evaluate_nodes(&query, &assumed_values.to_lookup_values()).map_err(to_error)?;
    let document = FilterTestDocument::new(target.filter.explain(), &results);
    cx.print_result(json.as_ref(), &document, || document.render_text(cx.is_verbose()))?;
    if json.is_none() {
        cx.printer.print_message(document.summary_line());
    }
    Ok(document.exit_code())
}

#[cfg(test)]
mod tests {
    use muster_display::printer::VerbosityLevel;

    use super::{CommandContext, FilterCommand, run};
    use crate::flags::filters::{ConditionArgs, FilterArgs};
    use crate::outcome::exit::CommandExitCode;
    use crate::report::testing::printer;
    use crate::session::context::Configuration;
    use crate::session::environment::ProcessEnvironment;

    #[test]
    fn explains_all_flags_without_a_configuration() {
        let (printer, data, talk) = printer(VerbosityLevel::Verbose);
        let cx = CommandContext {
            config: None,
            context: None,
            environment: &ProcessEnvironment::default(),
            configuration: &Configuration::default(),
            printer: &printer,
        };
        let conditions = ConditionArgs {
            agents: vec!["rpcutil".to_owned()],
            select: vec!["(country=uk || customer=acme) && !apache".to_owned()],
            query: vec!["{ 'facts.load': { $gt: 2 } }".to_owned()],
            ..ConditionArgs::default()
        };
        let filters = FilterArgs { conditions, ..FilterArgs::default() };
        let exit = run(&FilterCommand::Explain(filters), cx).unwrap();
        assert_eq!(exit, CommandExitCode::Passed);
        assert_eq!(
            data.text(),
            "nodes that have agent rpcutil, whose fact load is greater than 2, (whose fact country \
             equals \"uk\" or whose fact customer equals \"acme\") and that do not have class apache\n"
        );
        assert_eq!(
            talk.text(),
            "normal form: (country==uk or customer==acme) and not apache\n\
             canonical query: {\"facts.load\":{\"$gt\":2}}\n"
        );
    }
}
