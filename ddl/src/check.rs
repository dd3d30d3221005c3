//! What a DDL document must mean to be used: names, types, validators, defaults, aggregates,
//! examples. Turns what `parse` read into the types of `schema`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::aggregate::Function;
use crate::error::{DdlError, shortened};
use crate::parse::{
    Document, DocumentAction, DocumentAggregate, DocumentInput, DocumentOutput, InOrder,
};
use crate::schema::{Action, ActionClass, Aggregate, Capabilities, Ddl, Input, Metadata, Output};
use crate::validate::{Rule, RuleError, validator_names};
use crate::value_type::ValueType;

/// The longest time limit, in seconds: a day.
const MAX_TIMEOUT: u64 = 86_400;

/// The longest name of an agent, action, input or output, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Inputs with a validation that one DDL may have, because each holds a compiled pattern.
const MAX_VALIDATIONS: usize = 256;

type Warnings = Vec<String>;

pub(crate) fn ddl(document: Document, mut warnings: Warnings) -> Result<Ddl, DdlError> {
    let mut metadata = document.metadata;
    self::metadata(&metadata)?;
    check_validations(&document.actions)?;
    let mut names = BTreeSet::new();
    let mut actions = Vec::with_capacity(document.actions.len());
    for raw in document.actions {
        if !names.insert(raw.action.clone()) {
            return Err(DdlError::DuplicateAction {
                name: shortened(&raw.action),
            });
        }
        actions.push(action(raw, &mut warnings)?);
    }
    let default_action = default_action(
        metadata.default_action.take(),
        document.default_action,
        &names,
    )?;
    Ok(Ddl {
        schema: document.schema,
        metadata,
        default_action,
        actions,
        warnings,
    })
}

pub(crate) fn metadata(metadata: &Metadata) -> Result<(), DdlError> {
    subject_name("metadata", &metadata.name)?;
    check_timeout("metadata", metadata.timeout)?;
    check_capabilities(metadata)
}

fn check_timeout(at: &str, seconds: u64) -> Result<(), DdlError> {
    if (1..=MAX_TIMEOUT).contains(&seconds) {
        return Ok(());
    }
    Err(DdlError::Timeout {
        at: at.to_owned(),
        seconds,
        limit: MAX_TIMEOUT,
    })
}

/// Paths that mean the same wherever the agent is started, and nothing that climbs out of what it seems to name.
fn check_capabilities(metadata: &Metadata) -> Result<(), DdlError> {
    let Some(Capabilities { read, write, .. }) = &metadata.capabilities else {
        return Ok(());
    };
    match read
        .iter()
        .chain(write)
        .find(|path| !path.starts_with('/') || climbs(path))
    {
        Some(path) => Err(DdlError::Path {
            at: "metadata, capabilities".to_owned(),
            path: shortened(path),
            expected: "an absolute path without `..`",
        }),
        None => Ok(()),
    }
}

fn climbs(path: &str) -> bool {
    path.contains('\0') || path.split('/').any(|part| part == "..")
}

fn script_name(at: &str, script: String) -> Result<String, DdlError> {
    if script.is_empty() || climbs(&script) {
        return Err(DdlError::Path {
            at: format!("{at}, implemented_by"),
            path: shortened(&script),
            expected: "the name of a script without `..`",
        });
    }
    Ok(script)
}

fn check_validations(actions: &[DocumentAction]) -> Result<(), DdlError> {
    let inputs = actions.iter().flat_map(|action| &action.input.0);
    let count = inputs
        .filter(|(_, input)| input.validation.is_some())
        .count();
    if count > MAX_VALIDATIONS {
        return Err(DdlError::TooManyValidations {
            count,
            limit: MAX_VALIDATIONS,
        });
    }
    Ok(())
}

fn default_action(
    in_metadata: Option<String>,
    beside: Option<String>,
    actions: &BTreeSet<String>,
) -> Result<Option<String>, DdlError> {
    let contradicted = match (&in_metadata, &beside) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    match in_metadata.or(beside) {
        Some(name) if contradicted || !actions.contains(&name) => Err(DdlError::DefaultAction {
            name: shortened(&name),
        }),
        found => Ok(found),
    }
}

fn action(raw: DocumentAction, warnings: &mut Warnings) -> Result<Action, DdlError> {
    subject_name("actions", &raw.action)?;
    let at = format!("action `{}`", raw.action);
    if let Some(seconds) = raw.timeout {
        check_timeout(&at, seconds)?;
    }
    let class = action_class(&raw, &at)?;
    let outputs = outputs(raw.output, &at, warnings)?;
    let action = Action {
        description: raw.description,
        display: raw.display,
        inputs: inputs(raw.input, &at, warnings)?,
        aggregates: aggregates(raw.aggregate, &outputs, &at)?,
        outputs,
        read_only: raw.read_only,
        idempotent: raw.idempotent,
        streams: raw.streams,
        class,
        timeout: raw.timeout,
        additional_input: raw.additional_input,
        implemented_by: raw
            .implemented_by
            .map(|script| script_name(&at, script))
            .transpose()?,
        sensitive_inputs: raw.sensitive_inputs,
        examples: raw.examples,
        name: raw.action,
    };
    check_examples(&action, &at)?;
    Ok(action)
}

/// A document that says nothing gets the safe class: what is not read-only can be anything, and so is root-equivalent.
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
            "contradicts `dangerous: true`, the older word for `root_equivalent`"
        }
        _ => return Ok(class),
    };
    Err(DdlError::Class {
        at: at.to_owned(),
        class: class.word(),
        problem,
    })
}

/// An example that the schema refuses would mislead everybody who reads it.
fn check_examples(action: &Action, at: &str) -> Result<(), DdlError> {
    for (number, example) in (1..).zip(&action.examples) {
        let at = || format!("{at}, example {number}");
        action
            .validate_input(&example.input)
            .map_err(|source| DdlError::ExampleInput {
                at: at(),
                source: source.into(),
            })?;
        action
            .validate_output(&example.output)
            .map_err(|source| DdlError::ExampleOutput {
                at: at(),
                source: source.into(),
            })?;
    }
    Ok(())
}

fn inputs(
    raw: InOrder<DocumentInput>,
    at: &str,
    warnings: &mut Warnings,
) -> Result<Vec<Input>, DdlError> {
    let checked = raw.0.into_iter().map(|(name, raw)| {
        let at = format!("{at}, input `{}`", shortened(&name));
        input(name, raw, &at, warnings)
    });
    checked.collect()
}

pub(crate) fn input(
    name: String,
    raw: DocumentInput,
    at: &str,
    warnings: &mut Warnings,
) -> Result<Input, DdlError> {
    value_name(at, &name)?;
    let value_type = value_type(raw.value_type.as_deref(), at)?;
    let choices = raw.list.unwrap_or_default();
    if value_type == ValueType::List && choices.is_empty() {
        return Err(DdlError::NoChoices { at: at.to_owned() });
    }
    let mut input = Input {
        name,
        prompt: raw.prompt,
        description: raw.description,
        value_type,
        default: None,
        optional: raw.optional,
        required_unless: raw.required_unless,
        rule: rule(raw.validation.as_deref(), at)?,
        max_length: raw.maxlength.unwrap_or(0),
        choices,
        sensitive: raw.sensitive,
    };
    if let Some(default) = raw.default {
        input.default = usable_default(&input, default, at, warnings)?;
    }
    Ok(input)
}

/// Published DDLs write an empty string where they mean "none", even where the input's own
/// validation refuses it.
fn usable_default(
    input: &Input,
    default: Value,
    at: &str,
    warnings: &mut Warnings,
) -> Result<Option<Value>, DdlError> {
    match input.check(&default) {
        Ok(()) => Ok(Some(default)),
        Err(violation) if default.as_str() == Some("") => {
            warnings.push(format!(
                "{at}: the empty default {violation}, so there is no default"
            ));
            Ok(None)
        }
        Err(violation) => Err(DdlError::Default {
            at: at.to_owned(),
            violation,
        }),
    }
}

pub(crate) fn outputs(
    raw: InOrder<DocumentOutput>,
    at: &str,
    warnings: &mut Warnings,
) -> Result<Vec<Output>, DdlError> {
    let checked = raw.0.into_iter().map(|(name, raw)| {
        let at = format!("{at}, output `{}`", shortened(&name));
        output(name, raw, &at, warnings)
    });
    checked.collect()
}

/// A default of another type is tolerated: published DDLs say "Unknown" for integers that no
/// action has computed yet.
fn output(
    name: String,
    raw: DocumentOutput,
    at: &str,
    warnings: &mut Warnings,
) -> Result<Output, DdlError> {
    value_name(at, &name)?;
    let typed = Output {
        display_as: raw.display_as.unwrap_or_else(|| name.clone()),
        description: raw.description,
        value_type: value_type(raw.value_type.as_deref(), at)?,
        default: None,
        sensitive: raw.sensitive,
        name,
    };
    if let Some(Err(violation)) = raw.default.as_ref().map(|default| typed.check(default)) {
        warnings.push(format!(
            "{at}: the default {violation}, and is used nevertheless"
        ));
    }
    Ok(Output {
        default: raw.default,
        ..typed
    })
}

fn aggregates(
    raw: Vec<DocumentAggregate>,
    outputs: &[Output],
    at: &str,
) -> Result<Vec<Aggregate>, DdlError> {
    raw.into_iter()
        .map(|raw| aggregate(raw, outputs, at))
        .collect()
}

fn aggregate(raw: DocumentAggregate, outputs: &[Output], at: &str) -> Result<Aggregate, DdlError> {
    let Some(function) = Function::from_name(&raw.function) else {
        return Err(DdlError::Unknown {
            at: at.to_owned(),
            what: "aggregate function",
            word: shortened(&raw.function),
            known: Function::ALL.map(Function::name).join(", "),
        });
    };
    let problem = |problem: String| DdlError::Aggregate {
        at: at.to_owned(),
        function: function.name().to_owned(),
        problem,
    };
    let Some(output) = raw.args.first().and_then(Value::as_str).map(str::to_owned) else {
        return Err(problem(
            "needs the name of an output as its first argument".to_owned(),
        ));
    };
    if !outputs.iter().any(|known| known.name == output) {
        let output = shortened(&output);
        return Err(problem(format!(
            "names the output `{output}`, which is not declared"
        )));
    }
    Ok(Aggregate {
        function,
        arguments: raw.args,
        output,
    })
}

fn rule(text: Option<&str>, at: &str) -> Result<Option<Rule>, DdlError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let at = at.to_owned();
    Rule::new(text).map(Some).map_err(|error| match error {
        RuleError::UnknownValidator => DdlError::Unknown {
            at,
            what: "validator",
            word: shortened(text),
            known: format!(
                "{}; everything but a bare word is a regular expression",
                validator_names().collect::<Vec<_>>().join(", ")
            ),
        },
        RuleError::Pattern(source) => DdlError::Pattern {
            at,
            pattern: shortened(text),
            source,
        },
    })
}

fn value_type(name: Option<&str>, at: &str) -> Result<ValueType, DdlError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(ValueType::Any);
    };
    ValueType::from_name(name).ok_or_else(|| DdlError::Unknown {
        at: at.to_owned(),
        what: "type",
        word: shortened(name),
        known: ValueType::ALL.map(|(_, name)| name).join(", "),
    })
}

/// Names of agents and actions are words of a subject, so they are lower case.
fn subject_name(at: &str, name: &str) -> Result<(), DdlError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    checked_name(
        at,
        name,
        allowed,
        "1 to 64 lower-case letters, digits and _",
    )
}

/// Names of inputs and outputs; published DDLs have upper-case ones.
fn value_name(at: &str, name: &str) -> Result<(), DdlError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    checked_name(at, name, allowed, "1 to 64 letters, digits and _")
}

fn checked_name(
    at: &str,
    name: &str,
    allowed: fn(u8) -> bool,
    grammar: &'static str,
) -> Result<(), DdlError> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(DdlError::Name {
        at: at.to_owned(),
        name: shortened(name),
        grammar,
    })
}
