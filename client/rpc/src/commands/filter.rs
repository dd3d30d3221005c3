//! `rpc filter`: what filters mean. Reads them as every command does, and asks nobody.

use super::context::Context;
use crate::cli::filter::{Explain, Filter};
use crate::error::Error;
use crate::exit::Exit;

/// Runs one of the commands.
pub fn run(command: &Filter, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Filter::Explain(args) => explain(args, cx),
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

#[cfg(test)]
mod tests {
    use super::{Context, Explain, Filter, run};
    use crate::cli::filters::Filters;
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
        let filters = Filters {
            agents: vec!["rpcutil".to_owned()],
            select: vec!["(country=uk || customer=acme) && !apache".to_owned()],
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
