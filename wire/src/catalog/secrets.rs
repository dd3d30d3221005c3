//! The sensitive values of a catalog: replaced by keyed digests in the stored form, and put back on the node.

use std::fmt;

use serde_json::{Map, Value, json};

/// Puppet's mark of a value of a type that JSON lacks.
const TYPE_KEY: &str = "__ptype";
/// What replaces a sensitive value, with its digest in `digest`.
const SECRET_TYPE: &str = "muster::Secret";
/// Puppet's type of a sensitive value inside another one.
const SENSITIVE_TYPE: &str = "Sensitive";

/// The sensitive values of a catalog, by digest. Not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CatalogSecrets(Map<String, Value>);

/// A secret that the catalog names was not stored with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret with the digest {0} is missing")]
pub struct MissingSecret(pub String);

/// Whether a value of a stored catalog is a secret, or has one in it.
pub fn has_secret(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.get(TYPE_KEY).is_some_and(|kind| kind == SECRET_TYPE)
                || map.values().any(has_secret)
        }
        Value::Array(items) => items.iter().any(has_secret),
        _ => false,
    }
}

impl CatalogSecrets {
    /// Secrets by their digests.
    pub fn new(values: Map<String, Value>) -> Self {
        Self(values)
    }

    /// The secrets by their digests.
    pub fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// How many different values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the sensitive parameters of a resource out of it, and sensitive values inside others. `digest` is a keyed digest, so that values cannot be
    /// tried against the stored catalog.
    pub fn take_from(
        &mut self,
        resource: &mut Map<String, Value>,
        digest: &impl Fn(&Value) -> String,
    ) {
        let listed = resource.get("sensitive_parameters").and_then(Value::as_array).cloned();
        let Some(parameters) = resource.get_mut("parameters").and_then(Value::as_object_mut) else {
            return;
        };
        for (name, value) in parameters {
            if listed.iter().flatten().any(|listed| listed == name) {
                *value = self.keep(value.take(), digest);
            } else {
                self.take_nested(value, digest);
            }
        }
    }

    fn take_nested(&mut self, value: &mut Value, digest: &impl Fn(&Value) -> String) {
        match value {
            Value::Object(map) if map.get(TYPE_KEY).is_some_and(|kind| kind == SENSITIVE_TYPE) => {
                *value = self.keep(value.take(), digest);
            }
            Value::Object(map) => {
                map.values_mut().for_each(|value| self.take_nested(value, digest));
            }
            Value::Array(items) => {
                for value in items {
                    self.take_nested(value, digest);
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, value: Value, digest: &impl Fn(&Value) -> String) -> Value {
        let digest = digest(&value);
        self.0.insert(digest.clone(), value);
        json!({TYPE_KEY: SECRET_TYPE, "digest": digest})
    }

    /// Puts the secrets back into the parameters of all resources.
    pub fn restore(&self, catalog: &mut Map<String, Value>) -> Result<(), MissingSecret> {
        let resources = catalog.get_mut("resources").and_then(Value::as_array_mut);
        for resource in resources.into_iter().flatten() {
            if let Some(parameters) = resource.get_mut("parameters") {
                self.restore_value(parameters)?;
            }
        }
        Ok(())
    }

    fn restore_value(&self, value: &mut Value) -> Result<(), MissingSecret> {
        match value {
            Value::Object(map) if map.get(TYPE_KEY).is_some_and(|kind| kind == SECRET_TYPE) => {
                let digest = map.get("digest").and_then(Value::as_str).unwrap_or_default();
                let secret = self.0.get(digest).cloned();
                *value = secret.ok_or_else(|| MissingSecret(digest.to_owned()))?;
                Ok(())
            }
            Value::Object(map) => map.values_mut().try_for_each(|value| self.restore_value(value)),
            Value::Array(items) => items.iter_mut().try_for_each(|value| self.restore_value(value)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for CatalogSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogSecrets({} values)", self.len())
    }
}
