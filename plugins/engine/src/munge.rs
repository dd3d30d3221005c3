//! Turns untyped words (command line, JSON, a catalog) into [`Values`], or says which one is wrong and why.
//!
//! Pure. Knows one value at a time; what concerns several values at once is the type's own check.

use serde_json::Value as Json;

use crate::error::EngineError;
use crate::resource::{Data, Resource, Value, Values, reference};
use crate::schema::{Attribute, Kind, METAPARAMETERS, Schema};

/// The longest title and the longest single text that is accepted, in bytes.
const TEXT_LIMIT: usize = 1024 * 1024;
const TITLE_LIMIT: usize = 4096;

/// Checks names and values against the schema, fills in defaults, and the title where the namevar is not given.
pub fn munge(
    schema: &Schema,
    title: &str,
    words: &serde_json::Map<String, Json>,
) -> Result<Resource, EngineError> {
    // A title that is not needed as a name may be any text: `File['the config']` beside a `path`.
    let mut resource = if words.contains_key(schema.namevar) {
        titled(schema, title)?
    } else {
        named(schema, title)?
    };
    for (name, word) in words {
        let attribute = schema
            .attribute(name)
            .ok_or_else(|| unknown(schema, &resource, name))?;
        let value = value(attribute, word)
            .map_err(|problem| EngineError::invalid(&resource, name, problem))?;
        resource.values.insert(name.clone(), value);
    }
    for attribute in schema.attributes {
        if let (Some(default), false) = (
            attribute.default,
            resource.values.contains_key(attribute.name),
        ) {
            let value = value(attribute, &Json::from(default))
                .map_err(|problem| EngineError::invalid(&resource, attribute.name, problem))?;
            resource.values.insert(attribute.name.to_owned(), value);
        }
    }
    if let Some(name) = resource.text(schema.namevar) {
        resource.name = name.to_owned();
    }
    Ok(resource)
}

/// A resource with nothing but its title, which is its name, too.
pub(crate) fn named(schema: &Schema, title: &str) -> Result<Resource, EngineError> {
    let mut resource = titled(schema, title)?;
    if let Some(attribute) = schema.attribute(schema.namevar) {
        let value = value(attribute, &Json::from(title))
            .map_err(|problem| EngineError::invalid(&resource, schema.namevar, problem))?;
        value
            .as_text()
            .unwrap_or(title)
            .clone_into(&mut resource.name);
        resource.values.insert(attribute.name.to_owned(), value);
    }
    Ok(resource)
}

fn titled(schema: &Schema, title: &str) -> Result<Resource, EngineError> {
    let mut resource = Resource {
        type_name: schema.type_name.to_owned(),
        title: title.to_owned(),
        name: title.to_owned(),
        values: Values::new(),
    };
    if title.is_empty() || title.len() > TITLE_LIMIT || title.contains('\0') {
        resource.title = title.chars().take(40).collect();
        let problem = format!(
            "has {} bytes, must have 1 to {TITLE_LIMIT}, none of them NUL",
            title.len()
        );
        return Err(EngineError::invalid(&resource, "title", problem));
    }
    Ok(resource)
}

fn unknown(schema: &Schema, resource: &Resource, name: &str) -> EngineError {
    let names = schema
        .attributes
        .iter()
        .chain(METAPARAMETERS)
        .map(|attribute| attribute.name);
    EngineError::UnknownAttribute {
        resource: reference(&resource.type_name, &resource.title),
        name: name.to_owned(),
        suggestion: nearest(name, names),
    }
}

/// The name that was probably meant, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate.to_owned())
}

/// Judges one word. The error says what it is and what it must be.
fn value(attribute: &Attribute, word: &Json) -> Result<Value, String> {
    match attribute.kind {
        Kind::List => return list(attribute, word).map(Value::List),
        Kind::Commands => return commands(attribute, word).map(Value::List),
        Kind::Options => return options(attribute, word).map(Value::List),
        Kind::Data => return data(word),
        _ => {}
    }
    let text =
        text(word).map_err(|what| format!("is {what}, must be {}", wanted(attribute.kind)))?;
    let munged = match attribute.kind {
        Kind::Text | Kind::WordOr(_) | Kind::List | Kind::Options | Kind::Commands | Kind::Data => {
            Some(Value::Text(text.clone()))
        }
        Kind::Word(words) => words
            .contains(&text.as_str())
            .then(|| Value::Text(text.clone())),
        Kind::Int => text.parse().ok().map(Value::Int),
        Kind::Bool => truth(&text).map(Value::Bool),
        Kind::Path => path(&text).map(Value::Text),
        Kind::Mode => word.as_str().and_then(mode).map(Value::Text),
        Kind::Seconds => seconds(&text).then(|| Value::Text(text.clone())),
    };
    munged.ok_or_else(|| {
        let shown = if attribute.sensitive {
            "something else"
        } else {
            &format!("`{text}`")
        };
        format!("is {shown}, must be {}", wanted(attribute.kind))
    })
}

fn list(attribute: &Attribute, word: &Json) -> Result<Vec<String>, String> {
    let words = match word {
        Json::Array(words) => words.as_slice(),
        one => std::slice::from_ref(one),
    };
    words
        .iter()
        .map(|word| {
            text(word)
                .map_err(|what| format!("contains {what}, must be {}", wanted(attribute.kind)))
        })
        .collect()
}

/// Lines as they are, and words as a line in which a shell finds these words and nothing else.
fn commands(attribute: &Attribute, word: &Json) -> Result<Vec<String>, String> {
    let words = match word {
        Json::Array(words) => words.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut lines = Vec::new();
    for word in words {
        let one = list(attribute, word)?;
        if word.is_array() {
            let quoted: Vec<String> = one.iter().map(|word| quoted(word)).collect();
            lines.push(quoted.join(" "));
        } else {
            lines.extend(one);
        }
    }
    Ok(lines)
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Texts as they are, and the pairs of objects with `=` between both, in the order of their names.
fn options(attribute: &Attribute, word: &Json) -> Result<Vec<String>, String> {
    let words = match word {
        Json::Array(words) => words.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut options = Vec::new();
    for word in words {
        match word {
            Json::Object(pairs) => {
                let pair = |(name, value): (&String, &Json)| Ok(format!("{name}={}", text(value)?));
                let mut pairs: Vec<String> = pairs
                    .iter()
                    .map(pair)
                    .collect::<Result<_, String>>()
                    .map_err(|what| {
                        format!("contains {what}, must be {}", wanted(attribute.kind))
                    })?;
                pairs.sort();
                options.extend(pairs);
            }
            word => options.extend(list(attribute, word)?),
        }
    }
    Ok(options)
}

/// Any value, in the plainest form that holds it.
fn data(word: &Json) -> Result<Value, String> {
    Ok(match word {
        Json::String(_) => Value::Text(text(word)?),
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => number
            .as_i64()
            .map_or_else(|| Value::Data(Data(word.clone())), Value::Int),
        Json::Array(words) if words.iter().all(Json::is_string) => {
            Value::List(words.iter().map(text).collect::<Result<_, _>>()?)
        }
        Json::Array(_) | Json::Object(_) => Value::Data(Data(word.clone())),
        Json::Null => return Err("is null, must be a value".to_owned()),
    })
}

/// The text of a word: itself, or the decimal or literal form of a number or truth.
fn text(word: &Json) -> Result<String, String> {
    match word {
        Json::String(text) if text.contains('\0') => Err("text with a NUL byte".to_owned()),
        Json::String(text) if text.len() > TEXT_LIMIT => Err(format!(
            "text of {} bytes, more than {TEXT_LIMIT}",
            text.len()
        )),
        Json::String(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(truth) => Ok(truth.to_string()),
        Json::Null => Err("null".to_owned()),
        Json::Array(_) => Err("a list".to_owned()),
        Json::Object(_) => Err("an object".to_owned()),
    }
}

fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::WordOr(_) => "text".to_owned(),
        Kind::Data => "a value".to_owned(),
        Kind::Word(words) => format!("one of {}", words.join(", ")),
        Kind::Int => "a whole number".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Path => "an absolute path without `..`".to_owned(),
        Kind::Mode => {
            "permission bits as text, octal such as `0644` or symbolic such as `u+rw,go-w`"
                .to_owned()
        }
        Kind::List => "a text or a list of texts".to_owned(),
        Kind::Commands => "a command or a list of commands".to_owned(),
        Kind::Options => "an option, or a list of options and objects of them".to_owned(),
        Kind::Seconds => "seconds, such as `300` or `0.5`".to_owned(),
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// An absolute path without doubled and trailing slashes. `..` would mean something else when a link is in the way.
pub(crate) fn path(text: &str) -> Option<String> {
    let parts: Vec<&str> = text
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let clean = text.starts_with('/') && !parts.contains(&"..");
    clean.then(|| format!("/{}", parts.join("/")))
}

/// Four octal digits, or symbolic clauses as they are. A number would have lost its leading zero, and with it whether it
/// was octal.
fn mode(text: &str) -> Option<String> {
    if symbolic(text) {
        return Some(text.to_owned());
    }
    let octal =
        (1..=5).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = u32::from_str_radix(text, 8)
        .ok()
        .filter(|bits| octal && *bits <= 0o7777)?;
    Some(format!("{bits:04o}"))
}

/// Clauses `WHO OP PERMISSIONS` with commas between them, as chmod knows them.
fn symbolic(text: &str) -> bool {
    text.split(',').all(|clause| {
        let rest = clause.trim_start_matches(['u', 'g', 'o', 'a']);
        let (op, permissions) = rest.split_at_checked(1).unwrap_or_default();
        "-=+".contains(op)
            && !op.is_empty()
            && permissions
                .chars()
                .all(|letter| "-=+rstwxXugo".contains(letter))
    })
}

fn seconds(text: &str) -> bool {
    let digits = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits
        && text
            .parse::<f64>()
            .is_ok_and(|number| (0.0..=1e9).contains(&number))
}
