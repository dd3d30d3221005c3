//! Validates a parsed DDL document: names, types, validators, defaults, aggregates, examples. Converts the types of `parse` to
//! the types of `schema`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::aggregate::AggregateFunction;
use crate::error::{DdlError, truncate_text};
use crate::parse::{
    AgentDdlDocument, DocumentAction, DocumentAggregate, DocumentInput, DocumentOutput,
    OrderedEntries,
};
use crate::schema::{
    ActionClass, ActionSchema, AgentCapabilities, AgentDdl, AggregateSchema, DdlMetadata,
    InputSchema, OutputSchema,
};
use crate::validate::{ValidationRule, ValidationRuleError, validator_names};
use crate::value_type::ValueType;

/// Longest timeout, in seconds: a day.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// Longest name of an agent, action, input or output, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Most inputs with a validation in one DDL, because each holds a compiled pattern.
const MAX_VALIDATIONS: usize = 256;

type DdlWarnings = Vec<String>;

pub(crate) fn check_document(
    document: AgentDdlDocument,
    mut warnings: DdlWarnings,
) -> Result<AgentDdl, DdlError> {
    let mut metadata = document.metadata;
    check_metadata(&metadata)?;
    check_validations(&document.actions)?;
    let mut names = BTreeSet::new();
    let mut actions = Vec::with_capacity(document.actions.len());
    for raw in document.actions {
        if !names.insert(raw.action.clone()) {
            return Err(DdlError::DuplicateAction { name: truncate_text(&raw.action) });
        }
        actions.push(check_action(raw, &mut warnings)?);
    }
    let default_action =
        check_default_action(metadata.default_action.take(), document.default_action, &names)?;
    Ok(AgentDdl { schema: document.schema, metadata, default_action, actions, warnings })
}

pub(crate) fn check_metadata(metadata: &DdlMetadata) -> Result<(), DdlError> {
    check_subject_name("metadata", &metadata.name)?;
    check_timeout("metadata", metadata.timeout)?;
    check_capabilities(metadata)
}

fn check_timeout(at: &str, seconds: u64) -> Result<(), DdlError> {
    if (1..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        return Ok(());
    }
    Err(DdlError::Timeout { at: at.to_owned(), seconds, limit: MAX_TIMEOUT_SECONDS })
}

/// Requires absolute paths without `..`, so that a path does not depend on the working directory.
fn check_capabilities(metadata: &DdlMetadata) -> Result<(), DdlError> {
    let Some(AgentCapabilities { read, write, .. }) = &metadata.capabilities else {
        return Ok(());
    };
    match read.iter().chain(write).find(|path| !path.starts_with('/') || has_parent_component(path))
    {
        Some(path) => Err(DdlError::Path {
            at: "metadata, capabilities".to_owned(),
            path: truncate_text(path),
            expected: "an absolute path without `..`",
        }),
        None => Ok(()),
    }
}

fn has_parent_component(path: &str) -> bool {
    path.contains('\0') || path.split('/').any(|part| part == "..")
}

fn check_script_name(at: &str, script: String) -> Result<String, DdlError> {
    if script.is_empty() || has_parent_component(&script) {
        return Err(DdlError::Path {
            at: format!("{at}, implemented_by"),
            path: truncate_text(&script),
            expected: "the name of a script without `..`",
        });
    }
    Ok(script)
}

fn check_validations(actions: &[DocumentAction]) -> Result<(), DdlError> {
    let inputs = actions.iter().flat_map(|action| &action.input.0);
    let count = inputs.filter(|(_, input)| input.validation.is_some()).count();
    if count > MAX_VALIDATIONS {
        return Err(DdlError::TooManyValidations { count, limit: MAX_VALIDATIONS });
    }
    Ok(())
}

fn check_default_action(
    in_metadata: Option<String>,
    in_document: Option<String>,
    actions: &BTreeSet<String>,
) -> Result<Option<String>, DdlError> {
    let contradicted = match (&in_metadata, &in_document) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    match in_metadata.or(in_document) {
        Some(name) if contradicted || !actions.contains(&name) => {
            Err(DdlError::DefaultAction { name: truncate_text(&name) })
        }
        found => Ok(found),
    }
}

fn check_action(raw: DocumentAction, warnings: &mut DdlWarnings) -> Result<ActionSchema, DdlError> {
    check_subject_name("actions", &raw.action)?;
    let at = format!("action `{}`", raw.action);
    if let Some(seconds) = raw.timeout {
        check_timeout(&at, seconds)?;
    }
    let class = action_class(&raw, &at)?;
    let outputs = check_outputs(raw.output, &at, warnings)?;
    let action = ActionSchema {
        description: raw.description,
        display: raw.display,
        inputs: check_inputs(raw.input, &at, warnings)?,
        aggregates: check_aggregates(raw.aggregate, &outputs, &at)?,
        outputs,
        read_only: raw.read_only,
        idempotent: raw.idempotent,
        streams: raw.streams,
        class,
        timeout: raw.timeout,
        additional_input: raw.additional_input,
        implemented_by: raw
            .implemented_by
            .map(|script| check_script_name(&at, script))
            .transpose()?,
        sensitive_inputs: raw.sensitive_inputs,
        examples: raw.examples,
        name: raw.action,
    };
    check_examples(&action, &at)?;
    Ok(action)
}

/// Without a class, an action that is not read-only is classified as root-equivalent, which is the safe default.
fn action_class(raw: &DocumentAction, at: &str) -> Result<ActionClass, DdlError> {
    let implied = if raw.read_only && !raw.dangerous {
        ActionClass::Read
    } else {
        ActionClass::RootEquivalent
    };
    let class = raw.class.unwrap_or(implied);
    let problem = match class {
        ActionClass::Read if !raw.read_only => "needs `read_only: true`",
        ActionClass::Change if raw.read_only => "contradicts `read_only: true`",
        ActionClass::Read | ActionClass::Change if raw.dangerous => {
            "contradicts `dangerous: true`, the older spelling of `root_equivalent`"
        }
        _ => return Ok(class),
    };
    Err(DdlError::Class { at: at.to_owned(), class: class.as_str(), problem })
}

/// Checks that the examples satisfy the schema.
fn check_examples(action: &ActionSchema, at: &str) -> Result<(), DdlError> {
    for (number, example) in (1..).zip(&action.examples) {
        let at = || format!("{at}, example {number}");
        action
            .validate_input(&example.input)
            .map_err(|source| DdlError::ExampleInput { at: at(), source: source.into() })?;
        action
            .validate_output(&example.output)
            .map_err(|source| DdlError::ExampleOutput { at: at(), source: source.into() })?;
    }
    Ok(())
}

fn check_inputs(
    raw: OrderedEntries<DocumentInput>,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Vec<InputSchema>, DdlError> {
    let checked = raw.0.into_iter().map(|(name, raw)| {
        let at = format!("{at}, input `{}`", truncate_text(&name));
        check_input(name, raw, &at, warnings)
    });
    checked.collect()
}

pub(crate) fn check_input(
    name: String,
    raw: DocumentInput,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<InputSchema, DdlError> {
    check_value_name(at, &name)?;
    let value_type = check_value_type(raw.value_type.as_deref(), at)?;
    let choices = raw.list.unwrap_or_default();
    if value_type == ValueType::List && choices.is_empty() {
        return Err(DdlError::NoChoices { at: at.to_owned() });
    }
    let mut input = InputSchema {
        name,
        prompt: raw.prompt,
        description: raw.description,
        value_type,
        default: None,
        optional: raw.optional,
        required_unless: raw.required_unless,
        rule: check_rule(raw.validation.as_deref(), at)?,
        max_length: raw.maxlength.unwrap_or(0),
        choices,
        sensitive: raw.sensitive,
    };
    if let Some(default) = raw.default {
        input.default = usable_default(&input, default, at, warnings)?;
    }
    Ok(input)
}

/// Published DDLs use an empty string for "no default", even if the input's own validation refuses it. Such a default is
/// ignored.
fn usable_default(
    input: &InputSchema,
    default: Value,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Option<Value>, DdlError> {
    match input.check_value(&default) {
        Ok(()) => Ok(Some(default)),
        Err(violation) if default.as_str() == Some("") => {
            warnings.push(format!("{at}: the empty default {violation}; it is ignored"));
            Ok(None)
        }
        Err(violation) => Err(DdlError::Default { at: at.to_owned(), violation }),
    }
}

pub(crate) fn check_outputs(
    raw: OrderedEntries<DocumentOutput>,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Vec<OutputSchema>, DdlError> {
    let checked = raw.0.into_iter().map(|(name, raw)| {
        let at = format!("{at}, output `{}`", truncate_text(&name));
        check_output(name, raw, &at, warnings)
    });
    checked.collect()
}

/// A default of another type is accepted: published DDLs use "Unknown" for integers that were not computed.
fn check_output(
    name: String,
    raw: DocumentOutput,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<OutputSchema, DdlError> {
    check_value_name(at, &name)?;
    let schema = OutputSchema {
        display_as: raw.display_as.unwrap_or_else(|| name.clone()),
        description: raw.description,
        value_type: check_value_type(raw.value_type.as_deref(), at)?,
        default: None,
        sensitive: raw.sensitive,
        name,
    };
    if let Some(Err(violation)) = raw.default.as_ref().map(|default| schema.check_value(default)) {
        warnings.push(format!("{at}: the default {violation}; it is used anyway"));
    }
    Ok(OutputSchema { default: raw.default, ..schema })
}

fn check_aggregates(
    raw: Vec<DocumentAggregate>,
    outputs: &[OutputSchema],
    at: &str,
) -> Result<Vec<AggregateSchema>, DdlError> {
    raw.into_iter().map(|raw| check_aggregate(raw, outputs, at)).collect()
}

fn check_aggregate(
    raw: DocumentAggregate,
    outputs: &[OutputSchema],
    at: &str,
) -> Result<AggregateSchema, DdlError> {
    let Some(function) = AggregateFunction::from_name(&raw.function) else {
        return Err(DdlError::Unknown {
            at: at.to_owned(),
            kind: "aggregate function",
            word: truncate_text(&raw.function),
            known: AggregateFunction::ALL.map(AggregateFunction::name).join(", "),
        });
    };
    let invalid = |problem: String| DdlError::Aggregate {
        at: at.to_owned(),
        function: function.name().to_owned(),
        problem,
    };
    let Some(output) = raw.args.first().and_then(Value::as_str).map(str::to_owned) else {
        return Err(invalid("needs the name of an output as its first argument".to_owned()));
    };
    if !outputs.iter().any(|known| known.name == output) {
        let output = truncate_text(&output);
        return Err(invalid(format!("uses the output `{output}`, which is not declared")));
    }
    Ok(AggregateSchema { function, arguments: raw.args, output })
}

fn check_rule(text: Option<&str>, at: &str) -> Result<Option<ValidationRule>, DdlError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let at = at.to_owned();
    ValidationRule::new(text).map(Some).map_err(|error| match error {
        ValidationRuleError::UnknownValidator => DdlError::Unknown {
            at,
            kind: "validator",
            word: truncate_text(text),
            known: format!(
                "{}; any text other than a single word is a regular expression",
                validator_names().collect::<Vec<_>>().join(", ")
            ),
        },
        ValidationRuleError::Pattern(source) => {
            DdlError::Pattern { at, pattern: truncate_text(text), source }
        }
    })
}

fn check_value_type(name: Option<&str>, at: &str) -> Result<ValueType, DdlError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(ValueType::Any);
    };
    ValueType::from_name(name).ok_or_else(|| DdlError::Unknown {
        at: at.to_owned(),
        kind: "type",
        word: truncate_text(name),
        known: ValueType::ALL.map(|(_, name)| name).join(", "),
    })
}

/// Names of agents and actions are subject tokens, so they are lower case.
fn check_subject_name(at: &str, name: &str) -> Result<(), DdlError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    check_name(at, name, allowed, "1 to 64 lower-case letters, digits and _")
}

/// Checks names of inputs and outputs; published DDLs use upper case in some.
fn check_value_name(at: &str, name: &str) -> Result<(), DdlError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    check_name(at, name, allowed, "1 to 64 letters, digits and _")
}

fn check_name(
    at: &str,
    name: &str,
    allowed: fn(u8) -> bool,
    grammar: &'static str,
) -> Result<(), DdlError> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(DdlError::Name { at: at.to_owned(), name: truncate_text(name), grammar })
}
