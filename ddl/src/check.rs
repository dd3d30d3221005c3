//! Validates a parsed DDL document: names, types, validators, defaults, aggregates, examples. Converts the types of `parse` to
//! the types of `schema`.

use std::collections::BTreeSet;

use muster_base::nearest_name;
use serde_json::Value;

use crate::aggregate::AggregateFunction;
use crate::error::{DdlError, DefinitionProblem, truncate_text};
use crate::ordered_json::OrderedMap;
use crate::parse::{
    AgentDdlDocument, DocumentAction, DocumentAggregate, DocumentInput, DocumentOutput,
};
use crate::schema::{
    ActionClass, ActionSchema, AgentCapabilities, AgentDdl, AggregateSchema, DdlMetadata,
    InputSchema, OutputSchema, ResourceInputs,
};
use crate::validate::{ValidationRule, validator_names};
use crate::value_schema::ValueSchema;
use crate::value_type::ValueType;

/// Longest timeout, in seconds: a day.
pub(crate) const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// Longest name of an agent, action, input or output, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Most inputs with a validation in one DDL, because each holds a compiled pattern.
pub(crate) const MAX_VALIDATIONS: usize = 256;

type DdlWarnings = Vec<String>;
type Result<T, E = DefinitionProblem> = std::result::Result<T, E>;

pub(crate) fn check_document(
    document: AgentDdlDocument,
    mut warnings: DdlWarnings,
) -> Result<AgentDdl, DdlError> {
    let mut metadata = document.metadata;
    check_metadata(&metadata)?;
    let inputs = document.actions.iter().flat_map(|action| &action.input.0);
    let validations = inputs.filter(|(_, input)| input.validation.is_some()).count();
    if validations > MAX_VALIDATIONS {
        return Err(DdlError::TooManyValidations(validations));
    }
    let mut names = BTreeSet::new();
    let mut actions = Vec::with_capacity(document.actions.len());
    for raw in document.actions {
        if !names.insert(raw.action.clone()) {
            return Err(DdlError::DuplicateAction(truncate_text(&raw.action)));
        }
        actions.push(check_action(raw, &mut warnings)?);
    }
    let default_action =
        check_default_action(metadata.default_action.take(), document.default_action, &names)?;
    Ok(AgentDdl { schema: document.schema, metadata, default_action, actions, warnings })
}

pub(crate) fn check_metadata(metadata: &DdlMetadata) -> Result<(), DdlError> {
    let to_error = DefinitionProblem::located("metadata");
    check_subject_name(&metadata.name)
        .and_then(|()| check_timeout(metadata.timeout))
        .map_err(to_error)?;
    check_capabilities(metadata).map_err(DefinitionProblem::located("metadata, capabilities"))
}

fn check_timeout(seconds: u64) -> Result<()> {
    let is_allowed = (1..=MAX_TIMEOUT_SECONDS).contains(&seconds);
    if is_allowed { Ok(()) } else { Err(DefinitionProblem::Timeout(seconds)) }
}

/// Requires absolute paths without `..`, so that a path does not depend on the working directory.
fn check_capabilities(metadata: &DdlMetadata) -> Result<()> {
    let Some(AgentCapabilities { read, write, .. }) = &metadata.capabilities else {
        return Ok(());
    };
    let is_invalid = |path: &&String| !path.starts_with('/') || has_parent_component(path);
    match read.iter().chain(write).find(is_invalid) {
        Some(path) => Err(DefinitionProblem::Path {
            path: truncate_text(path),
            expected: "an absolute path without `..`",
        }),
        None => Ok(()),
    }
}

fn has_parent_component(path: &str) -> bool {
    path.contains('\0') || path.split('/').any(|part| part == "..")
}

fn check_script_name(script: &str) -> Result<()> {
    if !script.is_empty() && !has_parent_component(script) {
        return Ok(());
    }
    let expected = "the name of a script without `..`";
    Err(DefinitionProblem::Path { path: truncate_text(script), expected })
}

fn check_default_action(
    in_metadata: Option<String>,
    in_document: Option<String>,
    actions: &BTreeSet<String>,
) -> Result<Option<String>, DdlError> {
    let both = in_metadata.as_ref().zip(in_document.as_ref());
    let contradicted = both.is_some_and(|(one, other)| one != other);
    match in_metadata.or(in_document) {
        Some(name) if contradicted || !actions.contains(&name) => {
            Err(DdlError::DefaultAction(truncate_text(&name)))
        }
        found => Ok(found),
    }
}

fn check_action(raw: DocumentAction, warnings: &mut DdlWarnings) -> Result<ActionSchema, DdlError> {
    check_subject_name(&raw.action).map_err(DefinitionProblem::located("actions"))?;
    let at = format!("action `{}`", raw.action);
    let to_error = DefinitionProblem::located(&at);
    raw.timeout.map_or(Ok(()), check_timeout).map_err(to_error)?;
    let class = action_class(&raw).map_err(to_error)?;
    let outputs = check_outputs(raw.output, &at, warnings)?;
    let inputs = check_inputs(raw.input, &at, warnings)?;
    let aggregates = check_aggregates(raw.aggregate, &outputs, &at, warnings)?;
    let action = ActionSchema {
        description: raw.description,
        display: raw.display,
        inputs,
        aggregates,
        outputs,
        read_only: raw.read_only,
        idempotent: raw.idempotent,
        streams: raw.streams,
        class,
        timeout: raw.timeout,
        additional_input: raw.additional_input,
        implemented_by: raw.implemented_by,
        resource: raw.resource,
        sensitive_inputs: raw.sensitive_inputs,
        examples: raw.examples,
        name: raw.action,
    };
    if let Some(script) = &action.implemented_by {
        let at = format!("{at}, implemented_by");
        check_script_name(script).map_err(DefinitionProblem::located(&at))?;
    }
    check_resource_inputs(&action)
        .map_err(DefinitionProblem::located(&format!("{at}, resource")))?;
    for (number, example) in (1..).zip(&action.examples) {
        let at = format!("{at}, example {number}");
        let input = action.validate_input(&example.input).map_err(Box::new);
        let output = input
            .map_err(DefinitionProblem::ExampleInput)
            .and_then(|_| Ok(action.validate_output(&example.output).map_err(Box::new)?));
        output.map_err(DefinitionProblem::located(&at))?;
    }
    Ok(action)
}

/// Requires that the inputs exist and have the types that the conversion of words relies on.
fn check_resource_inputs(action: &ActionSchema) -> Result<()> {
    let Some(ResourceInputs { type_input, attributes }) = &action.resource else {
        return Ok(());
    };
    let has_type = |name: &String, value_type| {
        action.find_input(name).is_some_and(|input| input.value_type == value_type)
    };
    if !has_type(type_input, ValueType::String) {
        return Err(DefinitionProblem::Resource(
            "`type` must be the name of an input of type string",
        ));
    }
    match attributes {
        Some(name) if !has_type(name, ValueType::Hash) || !action.additional_input => {
            Err(DefinitionProblem::Resource(
                "`attributes` must be the name of an input of type hash, and needs `additional_input: true`",
            ))
        }
        _ => Ok(()),
    }
}

/// Without a class, an action that is not read-only is classified as root-equivalent, which is the safe default.
fn action_class(raw: &DocumentAction) -> Result<ActionClass> {
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
    Err(DefinitionProblem::Class(class.as_str(), problem))
}

fn check_inputs(
    raw: OrderedMap<DocumentInput>,
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
    let to_error = DefinitionProblem::located(at);
    check_value_name(&name).map_err(to_error)?;
    let value_type = check_value_type(raw.value_type.as_deref()).map_err(to_error)?;
    let choices = raw.list.unwrap_or_default();
    if value_type == ValueType::List && choices.is_empty() {
        return Err(to_error(DefinitionProblem::NoChoices));
    }
    let mut input = InputSchema {
        name,
        prompt: raw.prompt,
        description: raw.description,
        value_type,
        default: None,
        optional: raw.optional,
        required_unless: raw.required_unless,
        rule: check_rule(raw.validation.as_deref(), at, warnings).map_err(to_error)?,
        max_length: raw.maxlength.unwrap_or(0),
        choices,
        schema: ValueSchema::check(raw.schema, value_type, at, warnings)
            .map_err(|error| to_error(error.into()))?,
        sensitive: raw.sensitive,
    };
    match raw.default.as_ref().map(|default| input.check_value(default)) {
        // Published DDLs use an empty string for "no default", even if the input's own validation refuses it.
        Some(Err(violation)) if raw.default == Some(Value::from("")) => {
            warnings.push(format!("{at}: the empty default {violation}; it is ignored"));
        }
        Some(Err(violation)) => return Err(to_error(DefinitionProblem::Default(violation))),
        Some(Ok(())) | None => input.default = raw.default,
    }
    Ok(input)
}

pub(crate) fn check_outputs(
    raw: OrderedMap<DocumentOutput>,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Vec<OutputSchema>, DdlError> {
    let checked = raw.0.into_iter().map(|(name, raw)| {
        let at = format!("{at}, output `{}`", truncate_text(&name));
        check_output(name, raw, &at, warnings).map_err(DefinitionProblem::located(&at))
    });
    checked.collect()
}

/// A default of another type is accepted with a warning: published DDLs use "Unknown" for integers that were not computed.
fn check_output(
    name: String,
    raw: DocumentOutput,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<OutputSchema> {
    check_value_name(&name)?;
    let value_type = check_value_type(raw.value_type.as_deref())?;
    let schema = OutputSchema {
        display_as: raw.display_as.unwrap_or_else(|| name.clone()),
        description: raw.description,
        value_type,
        schema: ValueSchema::check(raw.schema, value_type, at, warnings)?,
        default: None,
        sensitive: raw.sensitive,
        name,
    };
    if let Some(Err(violation)) = raw.default.as_ref().map(|default| schema.check_value(default)) {
        warnings.push(format!("{at}: the default {violation}; it is used anyway"));
    }
    Ok(OutputSchema { default: raw.default, ..schema })
}

/// The summaries of an action. An unknown function is left out: published DDLs name functions that their agents provide as
/// plugins of `MCollective`.
fn check_aggregates(
    raw: Vec<DocumentAggregate>,
    outputs: &[OutputSchema],
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Vec<AggregateSchema>, DdlError> {
    let mut aggregates = Vec::with_capacity(raw.len());
    for raw in raw {
        if let Some(function) = AggregateFunction::from_name(&raw.function) {
            let aggregate = check_aggregate(function, raw, outputs);
            aggregates.push(aggregate.map_err(DefinitionProblem::located(at))?);
        } else {
            let word = truncate_text(&raw.function);
            let known = AggregateFunction::ALL.map(AggregateFunction::name).join(", ");
            warnings.push(format!(
                "{at}: the unknown aggregate function {word:?} is ignored; known are {known}"
            ));
        }
    }
    Ok(aggregates)
}

fn check_aggregate(
    function: AggregateFunction,
    raw: DocumentAggregate,
    outputs: &[OutputSchema],
) -> Result<AggregateSchema> {
    let problem = match raw.args.first().and_then(Value::as_str).map(str::to_owned) {
        Some(output) if outputs.iter().any(|known| known.name == output) => {
            return Ok(AggregateSchema { function, arguments: raw.args, output });
        }
        Some(output) => {
            format!("uses the output `{}`, which is not declared", truncate_text(&output))
        }
        None => "needs the name of an output as its first argument".to_owned(),
    };
    Err(DefinitionProblem::Aggregate(function.name(), problem))
}

/// The compiled validation. An unknown validator accepts every value, as in Choria: published DDLs name validators that their
/// agents provide as plugins. The warning names a known one that is similar, because a typing error turns off an intended check.
fn check_rule(
    text: Option<&str>,
    at: &str,
    warnings: &mut DdlWarnings,
) -> Result<Option<ValidationRule>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let rule = ValidationRule::new(text).map_err(|source| DefinitionProblem::Pattern {
        pattern: truncate_text(text),
        source: Box::new(source),
    })?;
    if let ValidationRule::Unknown(_) = rule {
        let known = format!(
            "{}; any text other than a single word is a regular expression",
            validator_names().collect::<Vec<_>>().join(", ")
        );
        let word = truncate_text(text);
        let nearest = nearest_name(text, validator_names());
        let hint = nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        warnings.push(format!(
            "{at}: the unknown validator {word:?} accepts every value; {hint}known are {known}"
        ));
    }
    Ok(Some(rule))
}

fn check_value_type(name: Option<&str>) -> Result<ValueType> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(ValueType::Any);
    };
    ValueType::from_name(name).ok_or_else(|| DefinitionProblem::Unknown {
        kind: "type",
        word: truncate_text(name),
        known: ValueType::ALL.map(|(_, name, _)| name).join(", "),
    })
}

/// Names of agents and actions are subject tokens, so they are lower case.
fn check_subject_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    check_name(name, allowed, "1 to 64 lower-case letters, digits and _")
}

/// Checks names of inputs and outputs; published DDLs use upper case in some.
fn check_value_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    check_name(name, allowed, "1 to 64 letters, digits and _")
}

fn check_name(name: &str, allowed: fn(u8) -> bool, grammar: &'static str) -> Result<()> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(DefinitionProblem::Name { name: truncate_text(name), grammar })
}
