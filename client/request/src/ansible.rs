//! An Ansible inventory of what the directory knows: groups of classes, states and facts, and variables of hosts. Pure.
//!
//! Facts come from nodes, and Ansible renders variables as templates on the controller. So facts are in one variable, where no name of a fact can become a
//! connection variable of Ansible, and each text that could be a template is marked as unsafe, which Ansible does not render.

use std::collections::{BTreeMap, BTreeSet};

use muster_contract::directory::DirectoryNodeRow;
use muster_filter::state::{FactPath, NodeFacts};
use serde_json::{Map, Value, json};

/// The variable with everything that the directory knows of a host.
const HOST_VARIABLE: &str = "muster";
/// The key with which Ansible reads a text that is never rendered as a template.
const UNSAFE_KEY: &str = "__ansible_unsafe";
/// What every template of Ansible begins with.
const TEMPLATE_STARTS: [&str; 3] = ["{{", "{%", "{#"];

/// A variable of each host that has the value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsibleVariable {
    name: String,
    path: FactPath,
}

/// Why the text is not `NAME=FACT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnsibleVariableError {
    /// There is no `=`.
    #[error("expected NAME=FACT, such as ansible_host=networking.ip")]
    NoFact,
    /// Ansible does not accept the name.
    #[error(
        "`{0}` is not a valid name of an Ansible variable: use letters, digits and _, and no digit first"
    )]
    Name(String),
    /// The fact's name.
    #[error(transparent)]
    Fact(#[from] muster_filter::state::FactPathError),
}

/// What the inventory has besides the nodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnsibleOptions<'a> {
    /// Each value of these facts is a group.
    pub group_by: &'a [FactPath],
    /// Variables with values of facts.
    pub variables: &'a [AnsibleVariable],
}

/// An inventory, and what is ambiguous in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnsibleInventory {
    /// The document for `--list`.
    pub document: Value,
    /// Groups whose name stands for several classes or values, which differ only in characters that Ansible does not accept.
    pub merged: BTreeMap<String, BTreeSet<String>>,
}

/// A group while it is built.
#[derive(Debug, Default)]
struct HostGroup {
    hosts: Vec<String>,
    /// The classes or values that it stands for.
    sources: BTreeSet<String>,
}

impl AnsibleVariable {
    /// Parses `NAME=FACT`.
    pub fn parse(text: &str) -> Result<Self, AnsibleVariableError> {
        let (name, path) = text.split_once('=').ok_or(AnsibleVariableError::NoFact)?;
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || is_number || group_name(name) != name {
            return Err(AnsibleVariableError::Name(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), path: FactPath::parse(path)? })
    }
}

/// Builds the document for `--list`. The rows have documents.
pub fn build_ansible_inventory(
    rows: &[DirectoryNodeRow],
    options: AnsibleOptions<'_>,
) -> AnsibleInventory {
    let (mut groups, mut variables) = (BTreeMap::<String, HostGroup>::new(), Map::new());
    for row in rows {
        for (group, source) in groups_of(row, options.group_by) {
            let group = groups.entry(group).or_default();
            group.sources.insert(source);
            // Two values of a list can have the same group.
            if group.hosts.last() != Some(&row.node) {
                group.hosts.push(row.node.clone());
            }
        }
        variables.insert(row.node.clone(), ansible_host_variables(row, options.variables));
    }
    let is_merged = |(_, group): &(&String, &HostGroup)| group.sources.len() > 1;
    let merged = groups.iter().filter(is_merged);
    let merged = merged.map(|(name, group)| (name.clone(), group.sources.clone())).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.node.as_str()).collect();
    let mut document = Map::new();
    document.insert("_meta".to_owned(), json!({ "hostvars": variables }));
    document.insert("all".to_owned(), json!({ "hosts": names }));
    for (name, group) in groups {
        document.insert(name, json!({ "hosts": group.hosts }));
    }
    AnsibleInventory { document: Value::Object(document), merged }
}

/// The variables of one host, for `--host`.
pub fn ansible_host_variables(row: &DirectoryNodeRow, variables: &[AnsibleVariable]) -> Value {
    let document = row.document.clone().unwrap_or_default();
    let facts = NodeFacts::from_map(document.facts).unwrap_or_default();
    let mut host = Map::new();
    for AnsibleVariable { name, path } in variables {
        if let Some(value) = facts.get_path(path) {
            host.insert(name.clone(), without_templates(value));
        }
    }
    let known = json!({
        "state": row.state,
        "version": row.version,
        "collectives": row.collectives,
        "classes": document.classes,
        "facts": facts.as_map(),
    });
    host.insert(HOST_VARIABLE.to_owned(), without_templates(&known));
    Value::Object(host)
}

/// The groups of a node, each with what it stands for.
fn groups_of(row: &DirectoryNodeRow, group_by: &[FactPath]) -> Vec<(String, String)> {
    let mut groups = vec![(format!("state_{}", group_name(&row.state)), row.state.clone())];
    let Some(document) = &row.document else { return groups };
    for class in document.classes.iter().flatten() {
        groups.push((format!("class_{}", group_name(class)), class.clone()));
    }
    let facts = NodeFacts::from_map(document.facts.clone()).unwrap_or_default();
    for path in group_by {
        let mut prefix = path.segments().map(group_name).collect::<Vec<_>>().join("_");
        if prefix.starts_with(|c: char| c.is_ascii_digit()) {
            prefix.insert(0, '_');
        }
        let values = match facts.get_path(path) {
            Some(Value::Array(elements)) => elements.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        let texts = values.iter().filter_map(scalar_text);
        groups.extend(texts.map(|text| (format!("{prefix}_{}", group_name(&text)), text)));
    }
    groups
}

/// A value as part of a group's name. Maps and nothing have none.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text with each character that Ansible does not accept in names of groups as `_`.
fn group_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The value with each text that could be a template marked as unsafe.
fn without_templates(value: &Value) -> Value {
    match value {
        Value::String(text) if TEMPLATE_STARTS.iter().any(|start| text.contains(start)) => {
            json!({ UNSAFE_KEY: text })
        }
        Value::Array(elements) => elements.iter().map(without_templates).collect(),
        // The marker itself is no fact of a node.
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !key.starts_with("__ansible_"))
            .map(|(key, value)| (key.clone(), without_templates(value)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::directory::DirectoryNodeDocument;

    use super::*;

    fn row(node: &str, classes: &[&str], facts: Value) -> DirectoryNodeRow {
        let Value::Object(facts) = facts else { panic!("facts are a map") };
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        DirectoryNodeRow {
            node: node.to_owned(),
            state: "present".to_owned(),
            document: Some(DirectoryNodeDocument { classes: Some(classes), facts }),
            ..DirectoryNodeRow::default()
        }
    }

    fn paths(texts: &[&str]) -> Vec<FactPath> {
        texts.iter().map(|text| FactPath::parse(text).unwrap()).collect()
    }

    #[test]
    fn classes_states_and_values_of_facts_are_groups() {
        let rows = [
            row(
                "db1",
                &["common", "mysql::master"],
                json!({"os": {"family": "Debian"}, "roles": ["a", "b"]}),
            ),
            row("db2", &["common"], json!({"os": {"family": "RedHat"}, "roles": {"a": 1}})),
        ];
        let group_by = paths(&["os.family", "roles", "nosuch"]);
        let options = AnsibleOptions { group_by: &group_by, ..AnsibleOptions::default() };
        let inventory = build_ansible_inventory(&rows, options);
        let document = inventory.document.as_object().unwrap();
        let groups: Vec<(&str, Value)> = document
            .iter()
            .filter(|(name, _)| *name != "_meta")
            .map(|(name, group)| (name.as_str(), group["hosts"].clone()))
            .collect();
        let mut expected = vec![
            ("all", json!(["db1", "db2"])),
            ("class_common", json!(["db1", "db2"])),
            ("class_mysql__master", json!(["db1"])),
            ("os_family_Debian", json!(["db1"])),
            ("os_family_RedHat", json!(["db2"])),
            ("roles_a", json!(["db1"])),
            ("roles_b", json!(["db1"])),
            ("state_present", json!(["db1", "db2"])),
        ];
        expected.sort_by_key(|(name, _)| *name);
        let mut groups = groups;
        groups.sort_by_key(|(name, _)| *name);
        assert_eq!(groups, expected);
        assert!(inventory.merged.is_empty());
    }

    #[test]
    fn groups_that_stand_for_several_classes_are_reported() {
        let rows = [row("db1", &["a-b"], json!({})), row("db2", &["a_b"], json!({}))];
        let inventory = build_ansible_inventory(&rows, AnsibleOptions::default());
        let sources = BTreeSet::from(["a-b".to_owned(), "a_b".to_owned()]);
        assert_eq!(inventory.merged, BTreeMap::from([("class_a_b".to_owned(), sources)]));
    }

    /// A node cannot run code on the controller: neither by a connection variable nor by a template.
    #[test]
    fn facts_become_neither_connection_variables_nor_templates() {
        let facts = json!({
            "ansible_connection": "local",
            "motd": "{{ lookup('pipe', 'id') }}",
            "list": ["{% raw %}", {"__ansible_vault": "x", "plain": "{ {"}],
            "ip": "{#x#}",
        });
        let variables = [AnsibleVariable::parse("ansible_host=ip").unwrap()];
        let host = ansible_host_variables(&row("db1", &[], facts), &variables);
        let names: Vec<&String> = host.as_object().unwrap().keys().collect();
        assert_eq!(names, ["ansible_host", "muster"]);
        assert_eq!(host["ansible_host"], json!({"__ansible_unsafe": "{#x#}"}));
        let facts = &host["muster"]["facts"];
        assert_eq!(facts["motd"], json!({"__ansible_unsafe": "{{ lookup('pipe', 'id') }}"}));
        let list = json!([{"__ansible_unsafe": "{% raw %}"}, {"plain": "{ {"}]);
        assert_eq!(facts["list"], list);
    }

    #[test]
    fn names_of_variables_are_checked() {
        for text in ["ip", "=ip", "1a=ip", "a-b=ip", "a=b..c"] {
            assert!(AnsibleVariable::parse(text).is_err(), "{text}");
        }
    }
}
