//! Renders documentation for the terminal.

use super::contents::{ContentField, list_contents};
use super::{
    LabelledValue, action_facts, agent_title, command_line, input_facts, metadata_facts,
    output_facts, replace_control_characters, shown_outputs, summary_lines,
};
use crate::schema::{ActionSchema, AgentDdl};
use crate::value_schema::ValueSchema;

/// The complete documentation of an agent as plain text.
pub fn render_text(ddl: &AgentDdl) -> String {
    let mut page = DocumentationPage::default();
    page.add_line(0, &agent_title(ddl));
    page.add_line(0, &ddl.metadata().description);
    page.add_heading(0, "Plugin Metadata");
    page.add_facts(4, &metadata_facts(ddl));
    page.add_heading(0, "Available Actions");
    let width = ddl.actions().iter().map(|action| action.name().len()).max().unwrap_or(0);
    for action in ddl.actions() {
        page.add_line(4, &format!("{:<width$}  {}", action.name(), action.description()));
    }
    for action in ddl.actions() {
        page.add_action(ddl, action);
    }
    page.0
}

/// The documentation of one action as plain text, as in the agent's documentation.
pub fn render_action_text(ddl: &AgentDdl, action: &ActionSchema) -> String {
    let mut page = DocumentationPage::default();
    page.add_action(ddl, action);
    page.0.trim_start_matches('\n').to_owned()
}

#[derive(Default)]
struct DocumentationPage(String);

impl DocumentationPage {
    fn add_action(&mut self, ddl: &AgentDdl, action: &ActionSchema) {
        self.add_heading(0, &format!("{} Action", action.name()));
        self.add_line(4, action.description());
        self.add_blank();
        self.add_facts(4, &action_facts(action));
        self.add_section("Inputs", action.inputs());
        for input in action.inputs() {
            self.add_item(&input.name, &input_facts(input), input.schema.as_ref());
        }
        self.add_section("Outputs", action.outputs());
        for output in action.outputs() {
            self.add_item(&output.name, &output_facts(output), output.schema.as_ref());
        }
        let summaries = summary_lines(action);
        self.add_section("Summaries", &summaries);
        for summary in summaries {
            self.add_line(8, &summary);
        }
        self.add_examples(ddl, action);
    }

    fn add_examples(&mut self, ddl: &AgentDdl, action: &ActionSchema) {
        self.add_section("Examples", action.examples());
        for (index, example) in action.examples().iter().enumerate() {
            if index > 0 {
                self.add_blank();
            }
            self.add_line(8, &example.description);
            self.add_line(8, &format!("$ {}", command_line(ddl, action, &example.input)));
            for (name, value) in shown_outputs(action, &example.output) {
                self.add_line(12, &format!("{name}: {value}"));
            }
        }
    }

    fn add_item(&mut self, name: &str, facts: &[LabelledValue], schema: Option<&ValueSchema>) {
        self.add_line(8, name);
        self.add_facts(12, facts);
        for field in schema.map(list_contents).unwrap_or_default() {
            let ContentField { depth, name, kind, description } = field;
            let meaning =
                if description.is_empty() { String::new() } else { format!(": {description}") };
            self.add_line(14 + 2 * depth, &format!("{name} ({kind}){meaning}"));
        }
        self.add_blank();
    }

    /// Adds labels, aligned at their colons.
    fn add_facts(&mut self, indent: usize, facts: &[LabelledValue]) {
        let width = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        for (label, value) in facts {
            self.add_line(indent, &format!("{label:>width$}: {value}"));
        }
    }

    fn add_heading(&mut self, indent: usize, text: &str) {
        self.add_blank();
        self.add_line(indent, text);
        self.add_blank();
    }

    /// Adds the heading of a section, unless the section has no items.
    fn add_section<T>(&mut self, title: &str, items: &[T]) {
        if !items.is_empty() {
            self.add_heading(4, title);
        }
    }

    /// Ends the paragraph. Repeated calls have no effect.
    fn add_blank(&mut self) {
        if !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    fn add_line(&mut self, indent: usize, text: &str) {
        for line in replace_control_characters(text).lines().filter(|line| !line.is_empty()) {
            self.0.push_str(&" ".repeat(indent));
            self.0.push_str(line.trim_end());
            self.0.push('\n');
        }
    }
}
