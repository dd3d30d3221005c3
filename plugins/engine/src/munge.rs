//! Converts untyped input (command line, JSON, catalog) to [`ResourceValues`], or reports the invalid value.
//!
//! Pure. Handles one value at a time; checks across several values are done by the type.

use muster_base::nearest_name;
use serde_json::Value as Json;

use crate::error::{EngineError, Result};
use crate::resource::{Resource, ResourceValue, ResourceValues, format_reference};
use crate::schema::{AttributeKind, AttributeSchema, METAPARAMETERS, TypeSchema};

/// Maximum size of a title and of a single string value, in bytes.
const MAX_TEXT_BYTES: usize = 1024 * 1024;
const MAX_TITLE_BYTES: usize = 4096;

/// Validates names and values against the schema, and fills in defaults and, from the title, the namevar.
pub fn munge_resource(
    schema: &TypeSchema,
    title: &str,
    attributes: &serde_json::Map<String, Json>,
) -> Result<Resource> {
    // A title that is not used as the name may be any text: `File['the config']` with a `path`.
    let mut resource = if attributes.contains_key(schema.namevar) {
        titled_resource(schema, title)?
    } else {
        empty_resource(schema, title)?
    };
    for (name, input) in attributes {
        let attribute = schema
            .find_attribute(name)
            .ok_or_else(|| unknown_attribute_error(schema, &resource, name))?;
        set_munged(&mut resource, attribute, input)?;
    }
    for attribute in schema.attributes {
        let default = attribute.default.filter(|_| resource.get(attribute.name).is_none());
        if let Some(default) = default {
            set_munged(&mut resource, attribute, &Json::from(default))?;
        }
    }
    if let Some(name) = resource.get_text(schema.namevar) {
        resource.name = name.to_owned();
    }
    Ok(resource)
}

/// A resource with only a title, which is also its name.
pub(crate) fn empty_resource(schema: &TypeSchema, title: &str) -> Result<Resource> {
    let mut resource = titled_resource(schema, title)?;
    if let Some(attribute) = schema.find_attribute(schema.namevar) {
        set_munged(&mut resource, attribute, &Json::from(title))?;
        resource.name = resource.get_text(attribute.name).unwrap_or(title).to_owned();
    }
    Ok(resource)
}

fn set_munged(resource: &mut Resource, attribute: &AttributeSchema, input: &Json) -> Result<()> {
    let value = munge_value(attribute, input).map_err(|problem| {
        EngineError::invalid_value(resource, attribute.name, problem.to_string())
    })?;
    resource.set_value(attribute.name, value);
    Ok(())
}

fn titled_resource(schema: &TypeSchema, title: &str) -> Result<Resource> {
    let mut resource = Resource {
        type_name: schema.type_name.to_owned(),
        title: title.to_owned(),
        name: title.to_owned(),
        values: ResourceValues::new(),
        static_sources: None,
    };
    if title.is_empty() || title.len() > MAX_TITLE_BYTES || title.contains('\0') {
        resource.title = title.chars().take(40).collect();
        let problem = format!(
            "has {} bytes, must have 1 to {MAX_TITLE_BYTES}, none of them NUL",
            title.len()
        );
        return Err(EngineError::invalid_value(&resource, "title", problem));
    }
    Ok(resource)
}

fn unknown_attribute_error(schema: &TypeSchema, resource: &Resource, name: &str) -> EngineError {
    let names = schema.attributes.iter().chain(METAPARAMETERS).map(|attribute| attribute.name);
    EngineError::UnknownAttribute {
        resource: format_reference(&resource.type_name, &resource.title),
        name: name.to_owned(),
        suggestion: nearest_name(name, names),
    }
}

/// A value that an attribute does not accept.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {actual}, must be {expected}")]
struct ValueMismatch {
    verb: &'static str,
    actual: String,
    expected: String,
}

impl ValueMismatch {
    fn new(verb: &'static str, actual: &impl ToString, attribute: &AttributeSchema) -> Self {
        let expected = expected_description(attribute.kind);
        Self { verb, actual: actual.to_string(), expected }
    }
}

/// A value that has no text.
#[derive(Debug, thiserror::Error)]
enum UnexpectedValue {
    #[error("a string with a NUL byte")]
    NulByte,
    #[error("a string of {0} bytes, more than {MAX_TEXT_BYTES}")]
    TooLong(usize),
    #[error("null")]
    Null,
    #[error("a list")]
    List,
    #[error("an object")]
    Object,
}

fn munge_value(attribute: &AttributeSchema, input: &Json) -> Result<ResourceValue, ValueMismatch> {
    let is_string_list = input.as_array().is_some_and(|items| items.iter().all(Json::is_string));
    let list = match attribute.kind {
        AttributeKind::List => munge_list(attribute, input)?,
        AttributeKind::Commands => munge_commands(attribute, input)?,
        AttributeKind::Options => munge_options(attribute, input)?,
        AttributeKind::Data if is_string_list => munge_list(attribute, input)?,
        AttributeKind::Data if !input.is_string() => {
            let value = ResourceValue::from_json(input.clone());
            return value
                .ok_or_else(|| ValueMismatch::new("is", &UnexpectedValue::Null, attribute));
        }
        _ => return munge_word(attribute, input),
    };
    Ok(ResourceValue::List(list))
}

/// Converts a value that has one text.
fn munge_word(attribute: &AttributeSchema, input: &Json) -> Result<ResourceValue, ValueMismatch> {
    let text = munge_text(input).map_err(|actual| ValueMismatch::new("is", &actual, attribute))?;
    let value = match attribute.kind {
        AttributeKind::Int => text.parse().ok().map(ResourceValue::Int),
        AttributeKind::Bool => parse_bool(&text).map(ResourceValue::Bool),
        AttributeKind::AbsolutePath => normalise_path(&text).map(ResourceValue::Text),
        AttributeKind::Mode => input.as_str().and_then(munge_mode).map(ResourceValue::Text),
        AttributeKind::Word(words) if !words.contains(&text.as_str()) => None,
        AttributeKind::Seconds if !is_seconds(&text) => None,
        _ => Some(ResourceValue::Text(text.clone())),
    };
    value.ok_or_else(|| {
        let shown =
            if attribute.sensitive { "not valid (value not shown)" } else { &format!("`{text}`") };
        ValueMismatch::new("is", &shown, attribute)
    })
}

/// The items of a list, or a single value as a list.
fn list_items(input: &Json) -> &[Json] {
    match input {
        Json::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

fn munge_list(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, ValueMismatch> {
    list_items(input).iter().map(|item| munge_item(attribute, item)).collect()
}

fn munge_item(attribute: &AttributeSchema, item: &Json) -> Result<String, ValueMismatch> {
    munge_text(item).map_err(|actual| ValueMismatch::new("contains", &actual, attribute))
}

/// Strings stay unchanged; a list is quoted to a line that a shell splits into exactly these words.
fn munge_commands(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, ValueMismatch> {
    let mut lines = Vec::new();
    for item in list_items(input) {
        let texts = munge_list(attribute, item)?;
        if item.is_array() {
            let quoted: Vec<String> = texts.iter().map(|word| quote_for_shell(word)).collect();
            lines.push(quoted.join(" "));
        } else {
            lines.extend(texts);
        }
    }
    Ok(lines)
}

fn quote_for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Strings stay unchanged; pairs of an object become `key=value`, sorted by key.
fn munge_options(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, ValueMismatch> {
    let mut options = Vec::new();
    for item in list_items(input) {
        let Json::Object(pairs) = item else {
            options.extend(munge_list(attribute, item)?);
            continue;
        };
        let pair = |(name, value): (&String, &Json)| {
            munge_item(attribute, value).map(|value| format!("{name}={value}"))
        };
        let mut pairs: Vec<String> = pairs.iter().map(pair).collect::<Result<_, _>>()?;
        pairs.sort();
        options.extend(pairs);
    }
    Ok(options)
}

/// The string value: a string itself, or the text of a number or boolean.
fn munge_text(input: &Json) -> Result<String, UnexpectedValue> {
    match input {
        Json::String(text) if text.contains('\0') => Err(UnexpectedValue::NulByte),
        Json::String(text) if text.len() > MAX_TEXT_BYTES => {
            Err(UnexpectedValue::TooLong(text.len()))
        }
        Json::String(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(flag) => Ok(flag.to_string()),
        Json::Null => Err(UnexpectedValue::Null),
        Json::Array(_) => Err(UnexpectedValue::List),
        Json::Object(_) => Err(UnexpectedValue::Object),
    }
}

fn expected_description(kind: AttributeKind) -> String {
    let description = match kind {
        AttributeKind::Word(words) => return format!("one of {}", words.join(", ")),
        AttributeKind::Text | AttributeKind::WordOr(_) => "a string",
        AttributeKind::Data => "a value",
        AttributeKind::Int => "a whole number",
        AttributeKind::Bool => "true or false",
        AttributeKind::AbsolutePath => "an absolute path without `..`",
        AttributeKind::Mode => {
            "permission bits as a string, octal such as `0644` or symbolic such as `u+rw,go-w`"
        }
        AttributeKind::List => "a string or a list of strings",
        AttributeKind::Commands => "a command or a list of commands",
        AttributeKind::Options => "an option, an object of options, or a list of these",
        AttributeKind::Seconds => "seconds, such as `300` or `0.5`",
    };
    description.to_owned()
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// An absolute path without duplicate and trailing slashes. `..` is rejected because its meaning depends on symbolic links.
pub(crate) fn normalise_path(text: &str) -> Option<String> {
    let parts: Vec<&str> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_valid = text.starts_with('/') && !parts.contains(&"..");
    is_valid.then(|| format!("/{}", parts.join("/")))
}

/// Four octal digits, or symbolic clauses unchanged. Numbers are rejected because a number has lost the leading zero that marks it
/// as octal.
fn munge_mode(text: &str) -> Option<String> {
    if is_symbolic_mode(text) {
        return Some(text.to_owned());
    }
    let is_octal =
        (1..=5).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| is_octal && *bits <= 0o7777)?;
    Some(format!("{bits:04o}"))
}

/// Comma-separated clauses `WHO OP PERMISSIONS`, as in chmod.
fn is_symbolic_mode(text: &str) -> bool {
    text.split(',').all(|clause| {
        let rest = clause.trim_start_matches(['u', 'g', 'o', 'a']);
        let (op, permissions) = rest.split_at_checked(1).unwrap_or_default();
        "-=+".contains(op)
            && !op.is_empty()
            && permissions.chars().all(|letter| "-=+rstwxXugo".contains(letter))
    })
}

fn is_seconds(text: &str) -> bool {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_decimal && text.parse::<f64>().is_ok_and(|number| (0.0..=1e9).contains(&number))
}
