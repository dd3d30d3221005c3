//! Generates an agent's documentation from its DDL: for the terminal and as Markdown.
//!
//! This file and `contents` collect the content; `text` and `markdown` render it.

mod contents;
mod data;
mod markdown;
mod text;

use serde_json::{Map, Value};

use crate::schema::{ActionClass, ActionSchema, AgentDdl, DdlMetadata, InputSchema, OutputSchema};

use self::contents::describe_type;

pub use data::render_data_markdown;
pub use markdown::render_markdown;
pub use text::{render_action_text, render_text};

/// A label with its text.
type LabelledValue = (&'static str, String);

fn agent_title(ddl: &AgentDdl) -> String {
    let name = ddl.name();
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let name: String = first.into_iter().chain(letters).collect();
    match ddl.version() {
        "" => format!("{name} Agent"),
        version => format!("{name} Agent version {version}"),
    }
}

fn metadata_facts(ddl: &AgentDdl) -> Vec<LabelledValue> {
    let DdlMetadata { author, url, license, timeout, provider, service, .. } = ddl.metadata();
    let mut facts = vec![
        ("Author", author.clone()),
        ("URL", url.clone()),
        ("License", license.clone()),
        ("Timeout", format!("{timeout} seconds")),
        ("Provider", provider.clone().unwrap_or_default()),
        ("Default Action", ddl.default_action().unwrap_or_default().to_owned()),
    ];
    if *service {
        facts.push(("Service", "one node of a group replies".to_owned()));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// The key properties of an action.
fn action_facts(action: &ActionSchema) -> Vec<LabelledValue> {
    let mut facts = vec![("Displays", action.display().to_string())];
    let effect = match (action.is_read_only(), action.is_idempotent()) {
        (true, _) => "reads only",
        (false, true) => "may change the node; a repeated call has no further effect",
        (false, false) => "may change the node",
    };
    facts.push(("Effect", effect.to_owned()));
    if let Some(timeout) = action.timeout() {
        facts.push(("Timeout", format!("{} seconds", timeout.as_secs())));
    }
    if action.streams_progress() {
        facts.push(("Progress", "sent while the action runs".to_owned()));
    }
    let class = match action.class() {
        ActionClass::Read => "read",
        ActionClass::Change => "change",
        ActionClass::RootEquivalent => {
            "root_equivalent; a node may require approval by a second person"
        }
    };
    facts.push(("Class", class.to_owned()));
    match action.resource_inputs().and_then(|resource| resource.attributes.as_ref()) {
        Some(hash) => facts.push((
            "Further Inputs",
            format!("attributes of the resource type; as {hash}.NAME if NAME is an input, too"),
        )),
        None if action.additional_input() => {
            facts.push(("Further Inputs", "allowed, checked by the agent".to_owned()));
        }
        None => {}
    }
    let hidden: Vec<_> = action.sensitive_inputs().collect();
    if !hidden.is_empty() {
        facts.push(("Never Shown", hidden.join(", ")));
    }
    facts
}

fn optional_phrase(input: &InputSchema) -> String {
    match &input.required_unless {
        Some(other) if !input.optional => format!("when `{other}` is given"),
        _ => yes_or_no(input.optional),
    }
}

fn input_facts(input: &InputSchema) -> Vec<LabelledValue> {
    let mut facts = vec![
        ("Prompt", input.prompt.clone()),
        ("Description", input.description.clone()),
        ("Type", describe_type(input.value_type, input.schema.as_ref())),
        ("Choices", input.choices.join(", ")),
        ("Optional", optional_phrase(input)),
        ("Validation", input.validation_text().unwrap_or_default().to_owned()),
    ];
    if input.max_length > 0 {
        facts.push(("Max Length", input.max_length.to_string()));
    }
    facts.extend(default_fact(input.default.as_ref(), input.sensitive));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn output_facts(output: &OutputSchema) -> Vec<LabelledValue> {
    let mut facts = vec![
        ("Description", output.description.clone()),
        ("Display As", output.display_as.clone()),
        ("Type", describe_type(output.value_type, output.schema.as_ref())),
    ];
    facts.extend(default_fact(output.default.as_ref(), output.sensitive));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn default_fact(default: Option<&Value>, sensitive: bool) -> Option<LabelledValue> {
    let shown = |value: &Value| {
        if sensitive { crate::REDACTED.to_owned() } else { value.to_string() }
    };
    default.map(|value| ("Default", shown(value)))
}

fn yes_or_no(flag: bool) -> String {
    if flag { "yes".to_owned() } else { "no".to_owned() }
}

/// `summary of Service Status`, for each summary of an action.
fn summary_lines(action: &ActionSchema) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for aggregate in action.aggregates() {
        let title =
            action.find_output(aggregate.output_name()).map_or("", |output| &output.display_as);
        let line = format!("{} of {title}", aggregate.function().name());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The command line of an example, with sensitive values hidden; declared inputs come first, in declaration order.
fn command_line(ddl: &AgentDdl, action: &ActionSchema, input: &Map<String, Value>) -> String {
    let shown = action.redact_input(input);
    let declared = action.inputs().iter().filter_map(|input| shown.get_key_value(&input.name));
    let additional = shown.iter().filter(|(name, _)| action.find_input(name).is_none());
    let mut line = format!("rpc do {} {}", ddl.name(), action.name());
    let resource_hash = action.resource_inputs().and_then(|inputs| inputs.attributes.as_ref());
    for (name, value) in declared.chain(additional) {
        let entries = value.as_object().filter(|_| resource_hash == Some(name));
        let words = match entries {
            Some(entries) => entries
                .iter()
                .map(|(key, value)| input_word(&format!("{name}.{key}"), value))
                .collect(),
            None => vec![input_word(name, value)],
        };
        for word in words {
            line.push(' ');
            line.push_str(&shell_quoted(&word));
        }
    }
    line
}

/// An input as an argument.
fn input_word(name: &str, value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{name}={value}"), |text| format!("{name}={text}"))
}

/// The outputs of an example in declaration order, with sensitive values hidden.
fn shown_outputs(action: &ActionSchema, output: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut shown = action.redact_output(output);
    let declared = action.outputs().iter();
    declared.filter_map(|output| shown.remove_entry(&output.name)).collect()
}

/// `word`, quoted for a shell if necessary.
fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "=_-.:,/@+%[]".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Replaces control characters: a third-party DDL must not send escape sequences to the terminal.
fn replace_control_characters(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
