//! Converts `key=value` arguments of a command line to the typed values of the declared inputs.
//!
//! Only converts types, and the attributes of resources, see `attributes`. [`ActionSchema::validate_input`] checks completeness and validity, on the
//! client and again on every node.

use muster_base::nearest_name;
use serde_json::{Map, Number, Value};

use crate::JsonObject;
use crate::attributes::{AttributeChecking, AttributeCoercion};
use crate::error::{InputValidationError, truncate_text};
use crate::schema::{ActionSchema, InputSchema};
use crate::value_type::ValueType;
use crate::violation::ValueViolation;

/// Longest JSON text in an argument, in bytes: that of the largest request.
const MAX_JSON_BYTES: usize = 1024 * 1024;

/// What an array that is not JSON must be.
pub(crate) const LIST_REQUIREMENT: &str = "a JSON array or a comma separated list";

/// An input, and the texts that were given for it.
type InputTexts<'a> = (&'a str, Vec<&'a str>);

/// Where the value of a word belongs.
enum InputPlace<'a> {
    /// A declared input.
    Declared(&'a InputSchema),
    /// An entry of a declared hash.
    Entry(&'a InputSchema, &'a str),
    /// An attribute of the resource.
    Attribute(&'a str),
    /// An attribute of the resource with the name of a declared input, in the hash for those.
    HashedAttribute(&'a InputSchema, &'a str),
    /// An undeclared input.
    Additional,
}

impl ActionSchema {
    /// Typed values of the `words`. An array may be given in several words, and an entry of a hash as `INPUT.KEY`. Undeclared inputs keep their text
    /// if the action has `additional_input`, because the plugin converts them itself, unless they are attributes of a resource.
    pub fn coerce_words(
        &self,
        words: &[(String, String)],
    ) -> Result<JsonObject, InputValidationError> {
        self.coerce_words_onto(words, Map::new(), AttributeChecking::Strict)
    }

    /// Like [`Self::coerce_words`], for words that complete or replace earlier inputs.
    pub fn coerce_words_onto(
        &self,
        words: &[(String, String)],
        base: JsonObject,
        checking: AttributeChecking,
    ) -> Result<JsonObject, InputValidationError> {
        let groups = group_words(words);
        let attributes = self.attribute_coercion(&groups, &base, checking)?;
        let (mut values, mut entries) = (Map::new(), Map::new());
        for (name, texts) in &groups {
            let place = self.place_input(name).ok_or_else(|| self.undeclared_input(name))?;
            let replaced = match place {
                InputPlace::Declared(input) => {
                    values.insert(input.name.clone(), self.coerce_input(input, texts)?)
                }
                InputPlace::Additional => {
                    values.insert((*name).to_owned(), self.only_text(name, texts)?.into())
                }
                InputPlace::Attribute(key) => {
                    values.insert(key.to_owned(), attributes.coerce_attribute(key, texts)?)
                }
                InputPlace::Entry(input, key) => {
                    let value = self.coerce_entry(input, name, texts)?;
                    insert_entry(&mut entries, &input.name, key, value)
                }
                InputPlace::HashedAttribute(input, key) => {
                    let value = attributes.coerce_attribute(key, texts)?;
                    insert_entry(&mut entries, &input.name, key, value)
                }
            };
            if replaced.is_some() {
                return Err(self.repeated_input(name));
            }
        }
        self.add_entries(&mut values, entries, &base)?;
        self.lift_attributes(&mut values, &attributes)?;
        let mut complete = base;
        complete.extend(values);
        Ok(complete)
    }

    /// Adds single entries to the hashes that are given as a whole, or else to the earlier ones.
    fn add_entries(
        &self,
        values: &mut JsonObject,
        entries: JsonObject,
        base: &JsonObject,
    ) -> Result<(), InputValidationError> {
        for (input, added) in entries {
            let given = values.get(&input);
            let mut hash = given.or(base.get(&input)).cloned().unwrap_or(Map::new().into());
            let pairs = added.as_object().cloned().unwrap_or_default();
            let target = hash.as_object_mut();
            if given.is_some()
                && let Some(key) = pairs
                    .keys()
                    .find(|key| target.as_ref().is_some_and(|hash| hash.contains_key(*key)))
            {
                return Err(self.repeated_input(&format!("{input}.{key}")));
            }
            if let Some(target) = target {
                target.extend(pairs);
            }
            values.insert(input, hash);
        }
        Ok(())
    }

    /// Whether a text from a file is used as it is. Otherwise, its last line end is left out: the value is a name, a number, a password.
    pub fn is_whole_text(&self, name: &str) -> bool {
        match (&self.resource, self.find_input(name)) {
            (Some(_), _) => name == "content",
            (None, Some(input)) => input.value_type == ValueType::String && input.rule.is_none(),
            (None, None) => true,
        }
    }

    fn place_input<'a>(&'a self, name: &'a str) -> Option<InputPlace<'a>> {
        if let Some(input) = self.find_input(name) {
            return Some(InputPlace::Declared(input));
        }
        let hashed = self.resource.as_ref().and_then(|resource| resource.attributes.as_deref());
        if let Some((input, key)) = name.split_once('.').filter(|(_, key)| !key.is_empty())
            && let Some(input) = self.find_input(input)
            && input.value_type == ValueType::Hash
        {
            return Some(match hashed == Some(input.name.as_str()) {
                false => InputPlace::Entry(input, key),
                true if self.find_input(key).is_some() => InputPlace::HashedAttribute(input, key),
                true => InputPlace::Attribute(key),
            });
        }
        if hashed.is_some() {
            return Some(InputPlace::Attribute(name));
        }
        self.additional_input.then_some(InputPlace::Additional)
    }

    /// The conversion of attributes, for the type that the words or the earlier inputs name.
    fn attribute_coercion<'a>(
        &'a self,
        groups: &[InputTexts<'_>],
        base: &JsonObject,
        checking: AttributeChecking,
    ) -> Result<AttributeCoercion<'a>, InputValidationError> {
        let Some(resource) = &self.resource else {
            return AttributeCoercion::new(self, None, AttributeChecking::Off);
        };
        let given = groups.iter().find(|(name, _)| *name == resource.type_input);
        let given = given.and_then(|(_, texts)| texts.first().copied());
        let earlier = base.get(&resource.type_input).and_then(Value::as_str);
        let type_name = given.or(earlier);
        if type_name.is_none() && checking == AttributeChecking::Strict {
            // Without a type, every name is accepted, so a mistyped `type` is reported before the missing one.
            let declared = || self.inputs.iter().map(|input| input.name.as_str());
            let is_similar = |name: &str| nearest_name(name, declared()).is_some();
            let undeclared = groups.iter().filter(|(name, _)| self.find_input(name).is_none());
            if let Some((name, _)) = undeclared.into_iter().find(|(name, _)| is_similar(name)) {
                return Err(self.undeclared_input(name));
            }
        }
        AttributeCoercion::new(self, type_name, checking)
    }

    /// Moves attributes out of the hash for those with the names of inputs, so that a sensitive one is treated as such.
    fn lift_attributes(
        &self,
        values: &mut JsonObject,
        attributes: &AttributeCoercion<'_>,
    ) -> Result<(), InputValidationError> {
        let hashed = self.resource.as_ref().and_then(|resource| resource.attributes.as_deref());
        let Some((name, Value::Object(hash))) = hashed.and_then(|name| values.remove_entry(name))
        else {
            return Ok(());
        };
        let (kept, lifted): (JsonObject, JsonObject) =
            hash.into_iter().partition(|(key, _)| self.find_input(key).is_some());
        if !kept.is_empty() {
            values.insert(name, kept.into());
        }
        for (key, value) in lifted {
            attributes.check_name(&key)?;
            if values.insert(key.clone(), value).is_some() {
                return Err(self.repeated_input(&key));
            }
        }
        Ok(())
    }

    fn coerce_input(
        &self,
        input: &InputSchema,
        texts: &[&str],
    ) -> Result<Value, InputValidationError> {
        let to_error = |text: &str| {
            let text = Value::from(text);
            move |violation| self.invalid_input(&input.name, &text, violation)
        };
        if input.value_type != ValueType::Array {
            let text = self.only_text(&input.name, texts)?;
            return coerce_value(input.value_type, text).map_err(to_error(text));
        }
        let mut items = Vec::new();
        for text in texts {
            let violation = ValueViolation::Requirement(LIST_REQUIREMENT);
            items.extend(split_list(text).ok_or(violation).map_err(to_error(text))?);
        }
        Ok(items.into())
    }

    fn coerce_entry(
        &self,
        input: &InputSchema,
        name: &str,
        texts: &[&str],
    ) -> Result<Value, InputValidationError> {
        let text = self.only_text(name, texts)?;
        coerce_value(ValueType::Any, text)
            .map_err(|violation| self.invalid_input(&input.name, &text.into(), violation))
    }

    fn only_text<'a>(
        &self,
        name: &str,
        texts: &[&'a str],
    ) -> Result<&'a str, InputValidationError> {
        match texts {
            [text] => Ok(text),
            _ => Err(self.repeated_input(name)),
        }
    }

    pub(crate) fn repeated_input(&self, name: &str) -> InputValidationError {
        InputValidationError::Repeated { action: self.name.clone(), input: truncate_text(name) }
    }
}

/// Adds an entry to a hash, and returns the one that it replaces.
fn insert_entry(entries: &mut JsonObject, input: &str, key: &str, value: Value) -> Option<Value> {
    let hash = entries.entry(input).or_insert_with(|| Map::new().into());
    hash.as_object_mut()?.insert(key.to_owned(), value)
}

/// The texts of each input, in the order of their first words.
fn group_words(words: &[(String, String)]) -> Vec<InputTexts<'_>> {
    let mut groups: Vec<InputTexts<'_>> = Vec::new();
    for (name, text) in words {
        match groups.iter_mut().find(|(known, _)| known == name) {
            Some((_, texts)) => texts.push(text),
            None => groups.push((name, vec![text])),
        }
    }
    groups
}

fn coerce_value(kind: ValueType, word: &str) -> Result<Value, ValueViolation> {
    let (value, requirement) = match kind {
        ValueType::String | ValueType::List => (Some(word.into()), "a string"),
        ValueType::Integer => (parse_integer(word).map(Value::Number), "an integer"),
        ValueType::Float => (parse_float(word).map(Value::Number), "a number"),
        ValueType::Number => {
            let number = parse_integer(word).or_else(|| parse_float(word));
            (number.map(Value::Number), "a number")
        }
        ValueType::Boolean => {
            (parse_boolean(word).map(Value::Bool), "one of true, false, yes or no")
        }
        ValueType::Array => (split_list(word).map(Value::Array), LIST_REQUIREMENT),
        ValueType::Hash => {
            (parse_json(word).filter(Value::is_object), "a JSON object like {\"a\": 1}")
        }
        ValueType::Any => (parse_any(word), "plain text or complete JSON"),
    };
    value.ok_or(ValueViolation::Requirement(requirement))
}

fn parse_integer(word: &str) -> Option<Number> {
    let signed = word.parse::<i64>().map(Number::from);
    signed.or_else(|_| word.parse::<u64>().map(Number::from)).ok()
}

/// JSON has neither infinities nor NaN.
fn parse_float(word: &str) -> Option<Number> {
    word.parse::<f64>().ok().and_then(Number::from_f64)
}

fn parse_boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "t" | "y" | "1" => Some(true),
        "false" | "no" | "f" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// The items of a JSON array, or of a text with commas or line ends between them. A comma in double quotes separates nothing, and an item that is
/// quoted as a whole is used without its quotes. `None` for incomplete JSON or quotes.
pub(crate) fn split_list(word: &str) -> Option<Vec<Value>> {
    if word.trim_start().starts_with('[') {
        return match parse_json(word) {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        };
    }
    let (mut items, mut item) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in word.chars() {
        if !is_quoted && matches!(c, ',' | '\n') {
            items.push(std::mem::take(&mut item));
            continue;
        }
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && c == '\\' && !is_escaped;
        item.push(c);
    }
    if is_quoted {
        return None;
    }
    items.push(item);
    let items = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
    Some(items.map(|item| parse_quoted(item).unwrap_or_else(|| item.into())).collect())
}

/// An item that is a JSON string as a whole.
fn parse_quoted(item: &str) -> Option<Value> {
    item.starts_with('"').then(|| parse_json(item)).flatten()
}

/// Parses JSON if the text looks like an object or list, else keeps the text: `1.10` stays a version.
fn parse_any(word: &str) -> Option<Value> {
    if word.trim_start().starts_with(['{', '[', '"']) {
        parse_json(word)
    } else {
        Some(word.into())
    }
}

pub(crate) fn parse_json(word: &str) -> Option<Value> {
    if word.len() > MAX_JSON_BYTES {
        return None;
    }
    serde_json::from_str(word).ok()
}
