//! `rpc filter`: what filters mean. Reads them as every command does, and asks nobody.

use muster_client::Source;
use muster_client::discovery::inventory::Inventory;

use super::context::Context;
use super::form;
use super::inventory::InventoryFileError;
use crate::ask::AskError;
use crate::cli::filter::{Explain, Filter, Test};
use crate::cli::filters::Filters;
use crate::error::Error;
use crate::exit::Exit;
use crate::policy::Supposed;
use crate::printer::Talk;
use crate::render::filter::Document;

/// Runs one of the commands.
pub fn run(command: &Filter, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Filter::Explain(args) => explain(args, cx),
        Filter::Test(args) => test(args, cx),
    }
}

fn explain(args: &Explain, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?;
    target.source(None)?;
    cx.printer.line(target.filter.explain())?;
    if let Some(select) = target.filter.select() {
        cx.printer.detail(format_args!("normal form: {select}"));
    }
    Ok(Exit::Passed)
}

fn test(args: &Test, cx: Context<'_>) -> Result<Exit, Error> {
    let mut conditions = args.conditions.clone();
    conditions.select.extend(args.expressions.iter().cloned());
    let flags = Filters {
        conditions,
        target: args.target.clone(),
        ..Filters::default()
    };
    let target = cx.target(&flags)?;
    let json = form::json(&args.json)?;
    let source = Source::Inventory {
        file: args.file.clone(),
    };
    let wanted = target.wanted(&source, None);
    source.method().check(&wanted).map_err(AskError::from)?;
    let mut supposed = Supposed::default();
    for stated in &args.data {
        supposed = supposed.with(stated)?;
    }
    let unusable = |source| InventoryFileError::Inventory {
        path: args.file.clone(),
        source,
    };
    let inventory = Inventory::read(&args.file).map_err(unusable)?;
    let judged = inventory
        .judge(&wanted, &supposed.known())
        .map_err(unusable)?;
    let document = Document::new(target.filter.explain(), &judged);
    if let Some(json) = &json {
        cx.json(&document, json)?;
    } else {
        let verbose = cx.printer.talk() == Talk::Verbose;
        cx.printer.text(document.text(verbose))?;
        cx.printer.say(document.balance());
    }
    Ok(document.exit())
}

#[cfg(test)]
mod tests {
    use super::{Context, Explain, Filter, run};
    use crate::cli::filters::{Conditions, Filters};
    use crate::environment::Environment;
    use crate::exit::Exit;
    use crate::printer::Talk;
    use crate::printer::testing::printer;

    #[test]
    fn all_flags_make_one_sentence_and_no_configuration_is_needed() {
        let (printer, data, talk) = printer(Talk::Verbose);
        let cx = Context {
            config: None,
            environment: &Environment::default(),
            printer: &printer,
        };
        let conditions = Conditions {
            agents: vec!["rpcutil".to_owned()],
            select: vec!["(country=uk || customer=acme) && !apache".to_owned()],
            ..Conditions::default()
        };
        let filters = Filters {
            conditions,
            ..Filters::default()
        };
        let exit = run(&Filter::Explain(Explain { filters }), cx).unwrap();
        assert_eq!(exit, Exit::Passed);
        assert_eq!(
            data.text(),
            "nodes that have agent rpcutil, (whose fact country equals \"uk\" or whose fact \
             customer equals \"acme\") and that do not have class apache\n"
        );
        assert_eq!(
            talk.text(),
            "normal form: (country==uk or customer==acme) and not apache\n"
        );
    }
}
