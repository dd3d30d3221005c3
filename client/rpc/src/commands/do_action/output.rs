//! Renders `rpc AGENT --help` and `rpc AGENT ACTION --help` from the agent's DDL.

use muster_ddl::{ActionSchema, AgentDdl, InputSchema, doc};
use muster_display::TextPage;
use muster_display::printer::STRONG;
use muster_display::screen::UNLIMITED_WIDTH;
use muster_display::table::Table;

const HELP_FOOTER: &str = "\
`rpc do --help` describes filters, batches and output formats. Exit codes: 0 all
passed, 1 no nodes discovered or a local error, 2 some failed, 3 no replies,
4 invalid command line.
";

pub fn render_agent_help(ddl: &AgentDdl) -> String {
    let name = ddl.name();
    let mut page = TextPage::default();
    page.push_heading(&ddl.metadata().description);
    let action = ddl.default_action().map_or("ACTION", |_| "[ACTION]");
    let usage = format_args!("rpc {name} {action} [KEY=VALUE]... [OPTIONS]");
    page.push_heading(format_args!("{STRONG}Usage:{STRONG:#} {usage}"));
    page.push_line(format_args!("{STRONG}Actions:{STRONG:#}"));
    let mut actions = Table::default();
    for action in ddl.actions() {
        let default =
            if ddl.default_action() == Some(action.name()) { " (the default)" } else { "" };
        let description = action.description();
        actions.row([format!("  {}", action.name()), format!("{description}{default}")]);
    }
    page.push_text(actions.render(UNLIMITED_WIDTH));
    page.push_gap();
    page.push_line(format_args!(
        "`rpc {name} ACTION --help` describes the inputs and outputs of an action."
    ));
    page.push_text(HELP_FOOTER);
    page.into_text()
}

pub fn render_action_help(ddl: &AgentDdl, action: &ActionSchema) -> String {
    let mut page = TextPage::default();
    let mut usage = format!("rpc {} {}", ddl.name(), action.name());
    let inputs = action.inputs().iter();
    let (optional, needed): (Vec<&InputSchema>, Vec<&InputSchema>) =
        inputs.partition(|input| input.optional || input.default.is_some());
    for input in needed {
        usage.extend([" ", &input.name, "=", &value_name(input)]);
    }
    if !optional.is_empty() || action.additional_input() {
        usage.push_str(" [KEY=VALUE]...");
    }
    page.push_heading(format_args!("{STRONG}Usage:{STRONG:#} {usage} [OPTIONS]"));
    page.push_text(doc::render_action_text(ddl, action));
    page.push_gap();
    page.push_text(HELP_FOOTER);
    page.into_text()
}

/// Placeholder of the value in the usage line; `-` for a secret, which is best read from the standard input.
fn value_name(input: &InputSchema) -> String {
    if input.sensitive { "-".to_owned() } else { input.name.to_uppercase() }
}

#[cfg(test)]
mod tests {
    use muster_calls::DdlStore;

    use super::{render_action_help, render_agent_help};
    use crate::report::testing::plain;

    #[test]
    fn help_pages_have_usage_and_all_inputs() {
        let store = DdlStore::load(None).unwrap();
        let service = store.get("service").unwrap();
        insta::assert_snapshot!("help_of_agent", plain(&render_agent_help(service)));
        let restart = service.find_action("restart").unwrap();
        insta::assert_snapshot!("help_of_action", plain(&render_action_help(service, restart)));
        for ddl in store.all() {
            for one in ddl.actions() {
                let page = plain(&render_action_help(ddl, one));
                let usage = format!("Usage: rpc {} {}", ddl.name(), one.name());
                assert!(page.starts_with(&usage), "{page}");
                for input in one.inputs() {
                    assert!(page.contains(&input.name), "{}: {page}", input.name);
                }
            }
        }
    }
}
