//! Documentation as Markdown, for web sites and repositories.

use super::{
    Fact, action_facts, answer, command_line, input_facts, metadata_facts, output_facts, printable,
    summaries, title,
};
use crate::schema::{Action, Ddl};

/// The whole documentation of an agent as Markdown.
pub fn markdown(ddl: &Ddl) -> String {
    let mut blocks = vec![
        format!("# {}", prose(&title(ddl))),
        prose(&ddl.metadata().description),
        facts(&metadata_facts(ddl)),
        "## Actions".to_owned(),
        list(ddl.actions().iter().map(contents_line)),
    ];
    for action in ddl.actions() {
        blocks.extend(action_blocks(ddl, action));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

fn contents_line(action: &Action) -> String {
    format!("{}: {}", code(action.name()), prose(action.description()))
}

fn action_blocks(ddl: &Ddl, action: &Action) -> Vec<String> {
    let mut blocks = vec![
        format!("## {}", code(action.name())),
        prose(action.description()),
        facts(&action_facts(action)),
    ];
    if !action.inputs().is_empty() {
        blocks.push("### Inputs".to_owned());
    }
    for input in action.inputs() {
        blocks.extend([
            format!("#### {}", code(&input.name)),
            facts(&input_facts(input)),
        ]);
    }
    if !action.outputs().is_empty() {
        blocks.push("### Outputs".to_owned());
    }
    for output in action.outputs() {
        blocks.extend([
            format!("#### {}", code(&output.name)),
            facts(&output_facts(output)),
        ]);
    }
    let summaries = summaries(action);
    if !summaries.is_empty() {
        blocks.push("### Summaries".to_owned());
        blocks.push(list(summaries.iter().map(|line| prose(line))));
    }
    if !action.examples().is_empty() {
        blocks.push("### Examples".to_owned());
    }
    for example in action.examples() {
        blocks.push(prose(&example.description));
        let mut lines = vec![format!("$ {}", command_line(ddl, action, &example.input))];
        for (name, value) in answer(action, &example.output) {
            lines.push(format!("{name}: {value}"));
        }
        blocks.push(indented_code(&lines));
    }
    blocks
}

fn facts(facts: &[Fact]) -> String {
    list(
        facts
            .iter()
            .map(|(label, value)| format!("{label}: {}", shown(label, value))),
    )
}

fn list(items: impl Iterator<Item = String>) -> String {
    items
        .map(|item| format!("- {item}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Sentences are prose; everything that is typed or matched stands as code.
fn shown(label: &str, value: &str) -> String {
    match label {
        "Validation" | "Default" | "Choices" | "Default Action" | "Never Shown" => code(value),
        _ => prose(value),
    }
}

/// Text on one line with everything escaped that Markdown or HTML would take for markup.
pub(super) fn prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
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
pub(super) fn code(text: &str) -> String {
    let text = printable(text).replace('\n', " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// A block of code without a fence, which the text could close.
pub(super) fn indented_code(lines: &[String]) -> String {
    let indented = lines
        .iter()
        .map(|line| "    ".to_owned() + &printable(line).replace('\n', " "));
    indented.collect::<Vec<_>>().join("\n")
}
