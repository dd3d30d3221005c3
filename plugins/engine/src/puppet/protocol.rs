//! Messages exchanged with the resident Puppet process. Pure; `bridge.rb` implements the other end.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::schema::METAPARAMETERS;

pub(super) const BRIDGE_SCRIPT: &str = include_str!("bridge.rb");

/// Loader: reads the first line and evaluates the program in it. The program is too long for a command-line argument, which would also be
/// world-readable.
pub(super) const BRIDGE_LOADER: &str = "hello = JSON.parse($stdin.gets); SETTINGS = hello['settings']; \
                                 eval(hello['script'], TOPLEVEL_BINDING, 'bridge.rb')";

/// The first line sent.
#[derive(Debug, Serialize)]
pub(super) struct BridgeHello<'a> {
    pub(super) settings: &'a BTreeMap<String, String>,
    pub(super) script: &'a str,
}

/// All other lines sent.
#[derive(Serialize)]
pub(super) struct BridgeRequest<'a> {
    op: &'static str,
    #[serde(rename = "type")]
    type_name: &'a str,
    title: &'a str,
    parameters: Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    property: Option<&'a str>,
}

impl fmt::Debug for BridgeRequest<'_> {
    /// Omits the parameters, because a value may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, type_name, title, .. } = self;
        write!(f, "{op} {type_name} {title}")
    }
}

impl<'a> BridgeRequest<'a> {
    /// A request about a type, or a general request.
    pub(super) fn for_type(op: &'static str, type_name: &'a str) -> Self {
        Self { op, type_name, title: "", parameters: Map::new(), property: None }
    }

    /// A request about a resource without desired values.
    pub(super) fn for_title(op: &'static str, type_name: &'a str, title: &'a str) -> Self {
        Self { title, ..Self::for_type(op, type_name) }
    }

    /// A request about a resource. Omits metaparameters, which the engine handles, and a name equal to the title, which Puppet derives itself.
    pub(super) fn for_resource(op: &'static str, resource: &'a Resource, namevar: &str) -> Self {
        let is_metaparameter = |name: &str| METAPARAMETERS.iter().any(|meta| meta.name == name);
        let is_title = |name: &str, value: &ResourceValue| {
            name == namevar && value.as_text() == Some(&resource.title)
        };
        let parameters = resource
            .values
            .iter()
            .filter(|(name, value)| !is_metaparameter(name) && !is_title(name, value))
            .map(|(name, value)| (name.clone(), Json::from(value)))
            .collect();
        Self { parameters, ..Self::for_title(op, &resource.type_name, &resource.title) }
    }

    pub(super) fn for_property(self, property: &'a str) -> Self {
        Self { property: Some(property), ..self }
    }

    /// Whether it changes the machine. Any other request is idempotent and can be repeated.
    pub(super) fn changes_system(&self) -> bool {
        matches!(self.op, "apply" | "refresh")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct BridgeResponse<T> {
    pub(super) ok: Option<T>,
    pub(super) error: Option<BridgeProblem>,
    #[serde(default)]
    pub(super) log: Vec<String>,
}

/// The response that reports the process as ready.
#[derive(Debug, Deserialize)]
pub(super) struct BridgeReady {
    pub(super) ready: Option<String>,
    pub(super) error: Option<BridgeProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct BridgeProblem {
    pub(super) kind: BridgeProblemKind,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BridgeProblemKind {
    UnknownType,
    Invalid,
    Failed,
    Unavailable,
}

#[derive(Debug, Deserialize)]
pub(super) struct VersionReply {
    pub(super) version: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TypeNamesReply {
    pub(super) types: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct PuppetTypeDescription {
    pub(super) doc: String,
    pub(super) namevars: Vec<String>,
    pub(super) attributes: Vec<PuppetAttribute>,
    pub(super) refreshes: bool,
    pub(super) provider: Option<String>,
    /// Types that may be autorequired.
    pub(super) autorequires: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct PuppetAttribute {
    pub(super) name: String,
    pub(super) property: bool,
    pub(super) doc: String,
}

/// Name and autorequires (types and names) of a resource.
#[derive(Debug, Deserialize)]
pub(super) struct CheckReply {
    pub(super) name: String,
    pub(super) autorequires: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadReply {
    pub(super) values: Map<String, Json>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InstancesReply {
    pub(super) resources: Vec<PuppetInstance>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PuppetInstance {
    pub(super) title: String,
    pub(super) values: Map<String, Json>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlanReply {
    pub(super) values: Map<String, Json>,
    pub(super) changes: Vec<PuppetPlannedChange>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PuppetPlannedChange {
    pub(super) property: String,
    pub(super) previous: Json,
    pub(super) desired: Json,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct EmptyReply {}

pub(super) fn values_from_json(found: Map<String, Json>) -> ResourceValues {
    let known = |(name, json)| Some((name, ResourceValue::from_json(json)?));
    found.into_iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::StructuredValue;

    fn resource(values: &[(&str, ResourceValue)]) -> Resource {
        Resource {
            type_name: "sshkey".to_owned(),
            title: "a@rsa".to_owned(),
            name: "a".to_owned(),
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            static_sources: None,
        }
    }

    #[test]
    fn request_omits_metaparameters_and_the_namevar() {
        let resource = resource(&[
            ("name", ResourceValue::from("a@rsa")),
            ("noop", ResourceValue::Bool(true)),
            ("key", ResourceValue::from("AAAA")),
            ("host_aliases", ResourceValue::List(vec!["b".to_owned()])),
        ]);
        let request = BridgeRequest::for_resource("apply", &resource, "name").for_property("key");
        assert_eq!(
            serde_json::to_value(&request).unwrap(),
            json!({"op": "apply", "type": "sshkey", "title": "a@rsa", "property": "key",
                   "parameters": {"key": "AAAA", "host_aliases": ["b"]}})
        );
        assert!(!format!("{request:?}").contains("AAAA"));
    }

    #[test]
    fn json_values_are_converted_to_the_simplest_kind() {
        let found = json!({"a": null, "b": "x", "c": 7, "d": ["x", "y"], "e": [1], "f": {"g": 1}, "h": 1.5, "i": false});
        let values = values_from_json(found.as_object().unwrap().clone());
        assert_eq!(values.get("a"), None);
        assert_eq!(values.get("c"), Some(&ResourceValue::Int(7)));
        assert_eq!(
            values.get("d"),
            Some(&ResourceValue::List(vec!["x".to_owned(), "y".to_owned()]))
        );
        assert_eq!(values.get("e"), Some(&ResourceValue::Data(StructuredValue(json!([1])))));
        assert_eq!(values.get("f"), Some(&ResourceValue::Data(StructuredValue(json!({"g": 1})))));
        assert_eq!(values.get("h"), Some(&ResourceValue::Data(StructuredValue(json!(1.5)))));
        assert_eq!(serde_json::to_value(&values).unwrap()["f"], json!({"g": 1}));
    }
}
