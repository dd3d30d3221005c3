//! `rpc AGENT --help` and `rpc AGENT ACTION --help`: how an agent and its actions are used, from their schema.

use muster_ddl::{Action, Ddl, Input, doc};

use super::page::Page;
use super::printable::line;
use crate::printer::STRONG;

/// What stands below every page.
const AFTER: &str = "\
`rpc do --help` tells of filters, batches and forms of output. Exit codes: 0 all
passed, 1 nothing discovered or trouble here, 2 some failed, 3 none answered,
4 the command line is wrong.
";

/// The page of an agent: its actions.
pub fn agent(ddl: &Ddl) -> String {
    let name = line(ddl.name());
    let mut page = Page::default();
    page.line(format_args!("{}\n", line(&ddl.metadata().description)));
    let action = ddl.default_action().map_or("ACTION", |_| "[ACTION]");
    let usage = format_args!("rpc {name} {action} [KEY=VALUE]... [OPTIONS]");
    page.line(format_args!("{STRONG}Usage:{STRONG:#} {usage}\n"));
    page.line(format_args!("{STRONG}Actions:{STRONG:#}"));
    let widest = ddl.actions().iter().map(|action| action.name().len()).max();
    let width = widest.unwrap_or(0);
    for action in ddl.actions() {
        let default = if ddl.default_action() == Some(action.name()) {
            " (the default)"
        } else {
            ""
        };
        let description = line(action.description());
        page.line(format_args!(
            "  {:<width$}  {description}{default}",
            action.name()
        ));
    }
    page.gap();
    page.line(format_args!(
        "`rpc {name} ACTION --help` tells what an action takes and answers."
    ));
    page.add(AFTER);
    page.text()
}

/// The page of an action: what it takes and answers.
pub fn action(ddl: &Ddl, action: &Action) -> String {
    let mut page = Page::default();
    let mut usage = format!("rpc {} {}", ddl.name(), action.name());
    let inputs = action.inputs().iter();
    let (optional, needed): (Vec<&Input>, Vec<&Input>) =
        inputs.partition(|input| input.optional || input.default.is_some());
    for input in needed {
        usage.extend([" ", &input.name, "=", &value_name(input)]);
    }
    if !optional.is_empty() || action.additional_input() {
        usage.push_str(" [KEY=VALUE]...");
    }
    page.line(format_args!(
        "{STRONG}Usage:{STRONG:#} {} [OPTIONS]\n",
        line(&usage)
    ));
    page.add(doc::action(ddl, action));
    page.gap();
    page.add(AFTER);
    page.text()
}

/// What stands for the value in the usage line. A secret is best read from the standard input.
fn value_name(input: &Input) -> String {
    if input.sensitive {
        "-".to_owned()
    } else {
        input.name.to_uppercase()
    }
}

#[cfg(test)]
mod tests {
    use muster_client::DdlStore;

    use super::{action, agent};
    use crate::render::fixtures::plain;

    #[test]
    fn pages_of_agents_and_actions() {
        let store = DdlStore::load(None).unwrap();
        let service = store.get("service").unwrap();
        insta::assert_snapshot!("help_of_agent", plain(&agent(service)));
        let restart = service.action("restart").unwrap();
        insta::assert_snapshot!("help_of_action", plain(&action(service, restart)));
        for ddl in store.all() {
            for one in ddl.actions() {
                let page = plain(&action(ddl, one));
                let usage = format!("Usage: rpc {} {}", ddl.name(), one.name());
                assert!(page.starts_with(&usage), "{page}");
                for input in one.inputs() {
                    assert!(page.contains(&input.name), "{}: {page}", input.name);
                }
            }
        }
    }
}
