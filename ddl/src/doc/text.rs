//! Documentation for the terminal.

use super::{
    Fact, action_facts, answer, command_line, input_facts, metadata_facts, output_facts, printable,
    summaries, title,
};
use crate::schema::{Action, Ddl};

/// The whole documentation of an agent as plain text.
pub fn text(ddl: &Ddl) -> String {
    let mut page = Page::default();
    page.line(0, &title(ddl));
    page.line(0, &ddl.metadata().description);
    page.heading(0, "Plugin Metadata");
    page.facts(4, &metadata_facts(ddl));
    page.heading(0, "Available Actions");
    let width = ddl
        .actions()
        .iter()
        .map(|action| action.name().len())
        .max()
        .unwrap_or(0);
    for action in ddl.actions() {
        page.line(
            4,
            &format!("{:<width$}  {}", action.name(), action.description()),
        );
    }
    for action in ddl.actions() {
        page.action(ddl, action);
    }
    page.0
}

/// The documentation of one action as plain text, as it stands in that of its agent.
pub fn action(ddl: &Ddl, action: &Action) -> String {
    let mut page = Page::default();
    page.action(ddl, action);
    page.0.trim_start_matches('\n').to_owned()
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn action(&mut self, ddl: &Ddl, action: &Action) {
        self.heading(0, &format!("{} Action", action.name()));
        self.line(4, action.description());
        self.blank();
        self.facts(4, &action_facts(action));
        if !action.inputs().is_empty() {
            self.heading(4, "Inputs");
        }
        for input in action.inputs() {
            self.item(&input.name, &input_facts(input));
        }
        if !action.outputs().is_empty() {
            self.heading(4, "Outputs");
        }
        for output in action.outputs() {
            self.item(&output.name, &output_facts(output));
        }
        let summaries = summaries(action);
        if !summaries.is_empty() {
            self.heading(4, "Summaries");
        }
        for summary in summaries {
            self.line(8, &summary);
        }
        self.examples(ddl, action);
    }

    fn examples(&mut self, ddl: &Ddl, action: &Action) {
        if !action.examples().is_empty() {
            self.heading(4, "Examples");
        }
        for (index, example) in action.examples().iter().enumerate() {
            if index > 0 {
                self.blank();
            }
            self.line(8, &example.description);
            self.line(
                8,
                &format!("$ {}", command_line(ddl, action, &example.input)),
            );
            for (name, value) in answer(action, &example.output) {
                self.line(12, &format!("{name}: {value}"));
            }
        }
    }

    fn item(&mut self, name: &str, facts: &[Fact]) {
        self.line(8, name);
        self.facts(12, facts);
        self.blank();
    }

    /// Labels aligned at their colons.
    fn facts(&mut self, indent: usize, facts: &[Fact]) {
        let width = facts
            .iter()
            .map(|(label, _)| label.len())
            .max()
            .unwrap_or(0);
        for (label, value) in facts {
            self.line(indent, &format!("{label:>width$}: {value}"));
        }
    }

    fn heading(&mut self, indent: usize, text: &str) {
        self.blank();
        self.line(indent, text);
        self.blank();
    }

    /// Ends the paragraph; two of them in a row are one.
    fn blank(&mut self) {
        if !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    fn line(&mut self, indent: usize, text: &str) {
        for line in printable(text).lines().filter(|line| !line.is_empty()) {
            self.0.push_str(&" ".repeat(indent));
            self.0.push_str(line.trim_end());
            self.0.push('\n');
        }
    }
}
