//! Renders documentation as Markdown, for web sites and repositories.

use super::contents::{ContentField, list_contents};
use super::{
    LabelledValue, action_facts, agent_title, command_line, input_facts, metadata_facts,
    output_facts, replace_control_characters, shown_outputs, summary_lines,
};
use crate::schema::{ActionSchema, AgentDdl};
use crate::value_schema::ValueSchema;

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
    let inputs = action.inputs().iter();
    let inputs =
        inputs.map(|input| item_blocks(&input.name, &input_facts(input), input.schema.as_ref()));
    push_section(&mut blocks, "Inputs", inputs);
    let outputs = action.outputs().iter();
    let outputs = outputs
        .map(|output| item_blocks(&output.name, &output_facts(output), output.schema.as_ref()));
    push_section(&mut blocks, "Outputs", outputs);
    let summaries = summary_lines(action);
    if !summaries.is_empty() {
        blocks.push("### Summaries".to_owned());
        blocks.push(bullet_list(summaries.iter().map(|line| escape_prose(line))));
    }
    let examples = action.examples().iter().map(|example| {
        let mut lines = vec![format!("$ {}", command_line(ddl, action, &example.input))];
        let outputs = shown_outputs(action, &example.output).into_iter();
        lines.extend(outputs.map(|(name, value)| format!("{name}: {value}")));
        [escape_prose(&example.description), indented_code(&lines)]
    });
    push_section(&mut blocks, "Examples", examples);
    blocks
}

fn item_blocks(name: &str, facts: &[LabelledValue], schema: Option<&ValueSchema>) -> [String; 2] {
    let contents = schema.map(list_contents).unwrap_or_default();
    let lines = facts.iter().flat_map(|fact| {
        let below = if fact.0 == "Type" { contents.as_slice() } else { &[] };
        std::iter::once(fact_line(fact)).chain(below.iter().map(content_line))
    });
    [format!("#### {}", code_span(name)), lines.collect::<Vec<_>>().join("\n")]
}

/// A field inside a value, in the list below the type.
fn content_line(field: &ContentField) -> String {
    let ContentField { depth, name, kind, description } = field;
    let indent = "  ".repeat(*depth);
    let line = format!("{indent}- {} ({})", code_span(name), escape_prose(kind));
    if description.is_empty() { line } else { line + ": " + &escape_prose(description) }
}

/// A heading and the items below it, unless there are none.
fn push_section(blocks: &mut Vec<String>, title: &str, items: impl Iterator<Item = [String; 2]>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        blocks.push(format!("### {title}"));
        blocks.extend(items.flatten());
    }
}

fn fact_list(facts: &[LabelledValue]) -> String {
    facts.iter().map(fact_line).collect::<Vec<_>>().join("\n")
}

fn fact_line((label, value): &LabelledValue) -> String {
    format!("- {label}: {}", render_fact_value(label, value))
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
