//! Converts texts to attributes of a resource, for actions whose undeclared inputs are such attributes.
//!
//! The built-in resource types decide how a text becomes a value. The attributes of other types are converted by their form alone.

use serde_json::Value;

use crate::coerce::{LIST_REQUIREMENT, parse_json, split_list};
use crate::error::{InputValidationError, shown_value, truncate_text};
use crate::resource_types::{
    self, AttributeForm, KnownResourceType, ResourceAttribute, attribute_names, nearest_attribute,
    nearest_type,
};
use crate::schema::ActionSchema;
use crate::violation::ValueViolation;

/// Whether attributes of resources are checked against the built-in types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttributeChecking {
    /// Names and values that the built-in types refuse are refused.
    #[default]
    Strict,
    /// Everything is accepted, for nodes of another version and for types that only nodes know.
    Off,
}

/// Converts the attributes of one resource.
#[derive(Debug)]
pub(crate) struct AttributeCoercion<'a> {
    action: &'a ActionSchema,
    checking: AttributeChecking,
    known: KnownResourceType,
}

impl<'a> AttributeCoercion<'a> {
    /// For resources of this type; `None` for a type that is not given.
    pub(crate) fn new(
        action: &'a ActionSchema,
        type_name: Option<&str>,
        checking: AttributeChecking,
    ) -> Result<Self, InputValidationError> {
        let known = type_name.map_or(KnownResourceType::Foreign, resource_types::find_type);
        if let (Some(name), KnownResourceType::Foreign, AttributeChecking::Strict) =
            (type_name, known, checking)
            && let Some(nearest) = nearest_type(name)
        {
            let type_name = truncate_text(name);
            return Err(InputValidationError::UnknownResourceType { type_name, nearest });
        }
        Ok(Self { action, checking, known })
    }

    /// The value of an attribute that is given once or several times.
    pub(crate) fn coerce_attribute(
        &self,
        name: &str,
        texts: &[&str],
    ) -> Result<Value, InputValidationError> {
        let rule = self.find_rule(name)?;
        match (rule.map(|rule| rule.accepts), texts) {
            (Some(AttributeForm::CommaList), texts) => {
                let items = texts.iter().map(|text| split_list(text));
                let items: Option<Vec<Vec<Value>>> = items.collect();
                items.map(|items| items.concat().into()).ok_or_else(|| {
                    let violation = ValueViolation::Requirement(LIST_REQUIREMENT);
                    self.invalid_attribute(name, &texts.join(","), violation)
                })
            }
            (None | Some(AttributeForm::List | AttributeForm::Options), [text]) => {
                Ok(parse_structure(text))
            }
            (None, texts) => Ok(texts.iter().map(|text| Value::from(*text)).collect()),
            (Some(AttributeForm::List | AttributeForm::Options), texts) => {
                Ok(texts.iter().map(|text| parse_structure(text)).collect())
            }
            (Some(_), [text]) => {
                if let Some(rule) = rule.filter(|_| self.checking == AttributeChecking::Strict) {
                    let checked = rule.check_text(text);
                    checked.map_err(|violation| self.invalid_attribute(name, text, violation))?;
                }
                Ok(Value::from(*text))
            }
            (Some(_), _) => Err(self.action.repeated_input(name)),
        }
    }

    /// The rule of an attribute of a built-in type. Fails if the type has no such attribute.
    fn find_rule(
        &self,
        name: &str,
    ) -> Result<Option<&'static ResourceAttribute>, InputValidationError> {
        let KnownResourceType::Builtin(type_name) = self.known else {
            return Ok(None);
        };
        let rule = resource_types::find_attribute(type_name, name);
        if rule.is_some() || self.checking == AttributeChecking::Off {
            return Ok(rule);
        }
        let hint = match nearest_attribute(type_name, name) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("it has {}", attribute_names(type_name).collect::<Vec<_>>().join(", ")),
        };
        Err(InputValidationError::UnknownAttribute {
            type_name: type_name.to_owned(),
            attribute: truncate_text(name),
            hint,
        })
    }

    /// Checks the name of an attribute whose value is JSON.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), InputValidationError> {
        self.find_rule(name).map(drop)
    }

    fn invalid_attribute(
        &self,
        name: &str,
        text: &str,
        violation: ValueViolation,
    ) -> InputValidationError {
        let type_name = match self.known {
            KnownResourceType::Builtin(type_name) => type_name,
            KnownResourceType::Foreign => "resource",
        };
        InputValidationError::InvalidAttribute {
            type_name: type_name.to_owned(),
            attribute: name.to_owned(),
            value: shown_value(&text.into(), self.action.is_sensitive(name)),
            violation,
        }
    }
}

/// A JSON array or object, or else the text itself: `[ -f /etc/motd ]` is a command.
fn parse_structure(text: &str) -> Value {
    let json = text.trim_start().starts_with(['[', '{']).then(|| parse_json(text)).flatten();
    json.unwrap_or_else(|| text.into())
}
