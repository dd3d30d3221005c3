//! Renders documentation as Markdown, for web sites and repositories.

use super::{
    LabelledValue, action_facts, agent_title, command_line, input_facts, metadata_facts,
    output_facts, replace_control_characters, shown_outputs, summary_lines,
};
use crate::schema::{ActionSchema, AgentDdl};

/// The complete documentation of an agent as Markdown.
pub fn render_markdown(ddl: &AgentDdl) -> String {
    let mut blocks = vec![
        format!("# {}", escape_prose(&agent_title(ddl))),
        escape_prose(&ddl.metadata().description),
        fact_list(&metadata_facts(ddl)),
        "## Actions".to_owned(),
        bullet_list(ddl.actions().iter().map(contents_line)),
    ];
    for action in ddl.actions() {
        blocks.extend(action_blocks(ddl, action));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

fn contents_line(action: &ActionSchema) -> String {
    format!("{}: {}", code_span(action.name()), escape_prose(action.description()))
}

fn action_blocks(ddl: &AgentDdl, action: &ActionSchema) -> Vec<String> {
    let mut blocks = vec![
        format!("## {}", code_span(action.name())),
        escape_prose(action.description()),
        fact_list(&action_facts(action)),
    ];
    if !action.inputs().is_empty() {
        blocks.push("### Inputs".to_owned());
    }
    for input in action.inputs() {
        blocks.extend([format!("#### {}", code_span(&input.name)), fact_list(&input_facts(input))]);
    }
    if !action.outputs().is_empty() {
        blocks.push("### Outputs".to_owned());
    }
    for output in action.outputs() {
        blocks.extend([
            format!("#### {}", code_span(&output.name)),
            fact_list(&output_facts(output)),
        ]);
    }
    let summaries = summary_lines(action);
    if !summaries.is_empty() {
        blocks.push("### Summaries".to_owned());
        blocks.push(bullet_list(summaries.iter().map(|line| escape_prose(line))));
    }
    if !action.examples().is_empty() {
        blocks.push("### Examples".to_owned());
    }
    for example in action.examples() {
        blocks.push(escape_prose(&example.description));
        let mut lines = vec![format!("$ {}", command_line(ddl, action, &example.input))];
        for (name, value) in shown_outputs(action, &example.output) {
            lines.push(format!("{name}: {value}"));
        }
        blocks.push(indented_code(&lines));
    }
    blocks
}

fn fact_list(facts: &[LabelledValue]) -> String {
    bullet_list(
        facts.iter().map(|(label, value)| format!("{label}: {}", render_fact_value(label, value))),
    )
}

fn bullet_list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

/// Renders sentences as prose and all other values as code.
fn render_fact_value(label: &str, value: &str) -> String {
    match label {
        "Validation" | "Default" | "Choices" | "Default Action" | "Never Shown" => code_span(value),
        _ => escape_prose(value),
    }
}

/// Text on one line, with Markdown and HTML markup escaped.
pub(super) fn escape_prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in replace_control_characters(text).chars() {
        match character {
            '\n' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A code span, with a fence longer than any run of backticks in the text.
pub(super) fn code_span(text: &str) -> String {
    let text = replace_control_characters(text).replace('\n', " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// An indented code block, because the text could close a fence.
pub(super) fn indented_code(lines: &[String]) -> String {
    let indented = lines
        .iter()
        .map(|line| "    ".to_owned() + &replace_control_characters(line).replace('\n', " "));
    indented.collect::<Vec<_>>().join("\n")
}
