//! Converts untyped input (command line, JSON, catalog) to [`ResourceValues`], or reports the invalid value.
//!
//! Pure. Handles one value at a time; checks across several values are done by the type.

use muster_base::nearest_name;
use serde_json::Value as Json;

use crate::error::{EngineError, Result};
use crate::resource::{Resource, ResourceValue, ResourceValues, StructuredValue, format_reference};
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
        let value = munge_value(attribute, input)
            .map_err(|problem| EngineError::invalid_value(&resource, name, problem))?;
        resource.values.insert(name.clone(), value);
    }
    for attribute in schema.attributes {
        if let (Some(default), false) =
            (attribute.default, resource.values.contains_key(attribute.name))
        {
            let value = munge_value(attribute, &Json::from(default)).map_err(|problem| {
                EngineError::invalid_value(&resource, attribute.name, problem)
            })?;
            resource.values.insert(attribute.name.to_owned(), value);
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
        let value = munge_value(attribute, &Json::from(title))
            .map_err(|problem| EngineError::invalid_value(&resource, schema.namevar, problem))?;
        value.as_text().unwrap_or(title).clone_into(&mut resource.name);
        resource.values.insert(attribute.name.to_owned(), value);
    }
    Ok(resource)
}

fn titled_resource(schema: &TypeSchema, title: &str) -> Result<Resource> {
    let mut resource = Resource {
        type_name: schema.type_name.to_owned(),
        title: title.to_owned(),
        name: title.to_owned(),
        values: ResourceValues::new(),
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

/// Converts one value. The error states the value and what is accepted.
fn munge_value(attribute: &AttributeSchema, input: &Json) -> Result<ResourceValue, String> {
    match attribute.kind {
        AttributeKind::List => return munge_list(attribute, input).map(ResourceValue::List),
        AttributeKind::Commands => {
            return munge_commands(attribute, input).map(ResourceValue::List);
        }
        AttributeKind::Options => return munge_options(attribute, input).map(ResourceValue::List),
        AttributeKind::Data => return munge_data(input),
        _ => {}
    }
    let text = munge_text(input).map_err(|actual| mismatch("is", &actual, attribute))?;
    let value = match attribute.kind {
        AttributeKind::Text
        | AttributeKind::WordOr(_)
        | AttributeKind::List
        | AttributeKind::Options
        | AttributeKind::Commands
        | AttributeKind::Data => Some(ResourceValue::Text(text.clone())),
        AttributeKind::Word(words) => {
            words.contains(&text.as_str()).then(|| ResourceValue::Text(text.clone()))
        }
        AttributeKind::Int => text.parse().ok().map(ResourceValue::Int),
        AttributeKind::Bool => parse_bool(&text).map(ResourceValue::Bool),
        AttributeKind::AbsolutePath => normalise_path(&text).map(ResourceValue::Text),
        AttributeKind::Mode => input.as_str().and_then(munge_mode).map(ResourceValue::Text),
        AttributeKind::Seconds => is_seconds(&text).then(|| ResourceValue::Text(text.clone())),
    };
    value.ok_or_else(|| {
        let shown =
            if attribute.sensitive { "not valid (value not shown)" } else { &format!("`{text}`") };
        mismatch("is", shown, attribute)
    })
}

/// The error text of a value of another kind.
fn mismatch(verb: &str, actual: &str, attribute: &AttributeSchema) -> String {
    let expected = expected_description(attribute.kind);
    format!("{verb} {actual}, must be {expected}")
}

/// The items of a list, or a single value as a list.
fn list_items(input: &Json) -> &[Json] {
    match input {
        Json::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

fn munge_list(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, String> {
    let munge_item =
        |item| munge_text(item).map_err(|actual| mismatch("contains", &actual, attribute));
    list_items(input).iter().map(munge_item).collect()
}

/// Strings stay unchanged; a list is quoted to a line that a shell splits into exactly these words.
fn munge_commands(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, String> {
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
fn munge_options(attribute: &AttributeSchema, input: &Json) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for item in list_items(input) {
        match item {
            Json::Object(pairs) => {
                let pair =
                    |(name, value): (&String, &Json)| Ok(format!("{name}={}", munge_text(value)?));
                let mut pairs: Vec<String> = pairs
                    .iter()
                    .map(pair)
                    .collect::<Result<_, String>>()
                    .map_err(|actual| mismatch("contains", &actual, attribute))?;
                pairs.sort();
                options.extend(pairs);
            }
            item => options.extend(munge_list(attribute, item)?),
        }
    }
    Ok(options)
}

/// Converts any value to the simplest matching kind.
fn munge_data(input: &Json) -> Result<ResourceValue, String> {
    Ok(match input {
        Json::String(_) => ResourceValue::Text(munge_text(input)?),
        Json::Bool(flag) => ResourceValue::Bool(*flag),
        Json::Number(number) => number.as_i64().map_or_else(
            || ResourceValue::Data(StructuredValue(input.clone())),
            ResourceValue::Int,
        ),
        Json::Array(items) if items.iter().all(Json::is_string) => {
            ResourceValue::List(items.iter().map(munge_text).collect::<Result<_, _>>()?)
        }
        Json::Array(_) | Json::Object(_) => ResourceValue::Data(StructuredValue(input.clone())),
        Json::Null => return Err("is null, must be a value".to_owned()),
    })
}

/// The string value: a string itself, or the text of a number or boolean.
fn munge_text(input: &Json) -> Result<String, String> {
    match input {
        Json::String(text) if text.contains('\0') => Err("a string with a NUL byte".to_owned()),
        Json::String(text) if text.len() > MAX_TEXT_BYTES => {
            Err(format!("a string of {} bytes, more than {MAX_TEXT_BYTES}", text.len()))
        }
        Json::String(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(flag) => Ok(flag.to_string()),
        Json::Null => Err("null".to_owned()),
        Json::Array(_) => Err("a list".to_owned()),
        Json::Object(_) => Err("an object".to_owned()),
    }
}

fn expected_description(kind: AttributeKind) -> String {
    match kind {
        AttributeKind::Text | AttributeKind::WordOr(_) => "a string".to_owned(),
        AttributeKind::Data => "a value".to_owned(),
        AttributeKind::Word(words) => format!("one of {}", words.join(", ")),
        AttributeKind::Int => "a whole number".to_owned(),
        AttributeKind::Bool => "true or false".to_owned(),
        AttributeKind::AbsolutePath => "an absolute path without `..`".to_owned(),
        AttributeKind::Mode => {
            "permission bits as a string, octal such as `0644` or symbolic such as `u+rw,go-w`"
                .to_owned()
        }
        AttributeKind::List => "a string or a list of strings".to_owned(),
        AttributeKind::Commands => "a command or a list of commands".to_owned(),
        AttributeKind::Options => "an option, an object of options, or a list of these".to_owned(),
        AttributeKind::Seconds => "seconds, such as `300` or `0.5`".to_owned(),
    }
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
