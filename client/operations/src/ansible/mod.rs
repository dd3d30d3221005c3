//! An Ansible inventory of what the directory knows: groups of classes, states and facts, and variables of hosts. Pure.
//!
//! Facts come from nodes, and Ansible renders variables as templates on the controller. So facts are in one variable, where no name of a fact can become a
//! connection variable of Ansible, and each text is marked as unsafe, which Ansible does not render.

mod untrusted;
mod variables;

use std::collections::{BTreeMap, BTreeSet};

use muster_contract::directory::DirectoryNodeRow;
use muster_filter::state::{FactPath, NodeFacts};
use muster_wire::identity::Identity;
use serde_json::{Map, Value, json};

pub use variables::{AnsibleValueError, AnsibleVariable, AnsibleVariableError};

use untrusted::mark_unsafe;

/// The variable with everything that the directory knows of a host.
const HOST_VARIABLE: &str = "muster";
/// Names with a meaning of their own: the first two are groups, whose variables all hosts have, and Ansible reaches the others without ssh.
const ANSIBLE_NAMES: [&str; 4] = ["all", "ungrouped", "localhost", "127.0.0.1"];
/// Longest name of a group, in bytes.
const MAX_GROUP_BYTES: usize = 256;

/// What the inventory has besides the nodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnsibleOptions<'a> {
    /// Each value of these facts is a group.
    pub group_by: &'a [FactPath],
    /// Variables with values of facts.
    pub variables: &'a [AnsibleVariable],
}

/// An inventory, and what is ambiguous or left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnsibleInventory {
    /// The document for `--list`.
    pub document: Value,
    /// Groups whose name stands for several classes or values, which differ only in characters that Ansible does not accept.
    pub merged: BTreeMap<String, BTreeSet<String>>,
    /// Hosts that are left out, and why.
    pub refused: Vec<(String, AnsibleHostError)>,
    /// Keys of facts that are left out, by host.
    pub left_out_keys: BTreeMap<String, Vec<String>>,
    /// Groups that are left out, because their name is that of a host or too long.
    pub left_out_groups: Vec<String>,
}

/// Why a node is no host of the inventory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnsibleHostError {
    /// The directory gave another text than the name of a node.
    #[error("this is not the name of a node")]
    Name,
    /// Ansible uses the name itself.
    #[error("Ansible uses this name for something else than a host of an inventory")]
    Taken,
    /// A connection variable has a value that could be something else.
    #[error(transparent)]
    Value(#[from] AnsibleValueError),
}

/// The variables of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsibleHost {
    /// The document for `--host`.
    pub variables: Value,
    /// Keys of facts that are left out.
    pub left_out_keys: Vec<String>,
}

/// A group while it is built.
#[derive(Debug, Default)]
struct HostGroup {
    hosts: Vec<String>,
    /// The classes or values that it stands for.
    sources: BTreeSet<String>,
}

/// Builds the document for `--list`. The rows have documents.
pub fn build_ansible_inventory(
    rows: &[DirectoryNodeRow],
    options: AnsibleOptions<'_>,
) -> AnsibleInventory {
    let mut inventory = AnsibleInventory::default();
    let (mut groups, mut variables) = (BTreeMap::<String, HostGroup>::new(), Map::new());
    for row in rows {
        let host = match ansible_host(row, options.variables) {
            Ok(host) => host,
            Err(error) => {
                inventory.refused.push((row.node.clone(), error));
                continue;
            }
        };
        if !host.left_out_keys.is_empty() {
            inventory.left_out_keys.insert(row.node.clone(), host.left_out_keys);
        }
        variables.insert(row.node.clone(), host.variables);
        for (group, source) in groups_of(row, options.group_by) {
            let group = groups.entry(group).or_default();
            group.sources.insert(source);
            // Two values of a list can have the same group.
            if group.hosts.last() != Some(&row.node) {
                group.hosts.push(row.node.clone());
            }
        }
    }
    // Ansible would give the variables of a host to the group with its name, and so to other hosts.
    groups.retain(|name, _| {
        let is_usable = name.len() <= MAX_GROUP_BYTES && !variables.contains_key(name);
        if !is_usable {
            inventory.left_out_groups.push(name.clone());
        }
        is_usable
    });
    let is_merged = |(_, group): &(&String, &HostGroup)| group.sources.len() > 1;
    let merged = groups.iter().filter(is_merged);
    inventory.merged = merged.map(|(name, group)| (name.clone(), group.sources.clone())).collect();
    let names: Vec<&String> = variables.keys().collect();
    let mut document = Map::new();
    document.insert("all".to_owned(), json!({ "hosts": names }));
    document.insert("_meta".to_owned(), json!({ "hostvars": variables }));
    for (name, group) in groups {
        document.insert(name, json!({ "hosts": group.hosts }));
    }
    inventory.document = Value::Object(document);
    inventory
}

/// The variables of one host.
pub fn ansible_host(
    row: &DirectoryNodeRow,
    variables: &[AnsibleVariable],
) -> Result<AnsibleHost, AnsibleHostError> {
    if Identity::parse(&row.node).map_err(|_| AnsibleHostError::Name)?.as_str() != row.node {
        return Err(AnsibleHostError::Name);
    }
    if ANSIBLE_NAMES.contains(&row.node.as_str()) {
        return Err(AnsibleHostError::Taken);
    }
    let document = row.document.clone().unwrap_or_default();
    let facts = NodeFacts::from_map(document.facts).unwrap_or_default();
    let (mut host, mut left_out_keys) = (Map::new(), Vec::new());
    for variable in variables {
        if let Some(value) = variable.value_of(&facts)? {
            host.insert(variable.name.clone(), mark_unsafe(&value, &mut left_out_keys));
        }
    }
    let known = json!({
        "state": row.state,
        "version": row.version,
        "collectives": row.collectives,
        "classes": document.classes,
        "facts": facts.as_map(),
    });
    host.insert(HOST_VARIABLE.to_owned(), mark_unsafe(&known, &mut left_out_keys));
    left_out_keys.sort();
    left_out_keys.dedup();
    Ok(AnsibleHost { variables: Value::Object(host), left_out_keys })
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
            "list": ["#jinja2:", {"__ansible_vault": "x", "plain": "y"}],
            "{{ x }}": 1,
            "ip": "10.0.0.7",
        });
        let variables = [AnsibleVariable::parse("ansible_host=ip").unwrap()];
        let host = ansible_host(&row("db1", &["{{ x }}"], facts), &variables).unwrap();
        let marked = |text: &str| json!({ "__ansible_unsafe": text });
        let facts = json!({
            "ansible_connection": marked("local"),
            "motd": marked("{{ lookup('pipe', 'id') }}"),
            "list": [marked("#jinja2:"), {"plain": marked("y")}],
            "ip": marked("10.0.0.7"),
        });
        let expected = json!({
            "ansible_host": marked("10.0.0.7"),
            "muster": {
                "state": marked("present"),
                "version": marked(""),
                "collectives": [],
                "classes": [marked("{{ x }}")],
                "facts": facts,
            },
        });
        assert_eq!(host.variables, expected);
        assert_eq!(host.left_out_keys, ["__ansible_vault", "{{ x }}"]);
    }

    #[test]
    fn hosts_that_ansible_could_misunderstand_are_left_out_of_all_groups() {
        let names = ["db1", "localhost", "127.0.0.1", "all", "ungrouped", "{{ x }}", "-x", "DB2"];
        let mut rows: Vec<_> = names.map(|name| row(name, &["common"], json!({}))).into();
        rows.push(row("db3", &["common"], json!({"ip": "-oProxyCommand=x"})));
        let variables = [AnsibleVariable::parse("ansible_host=ip").unwrap()];
        let options = AnsibleOptions { variables: &variables, ..AnsibleOptions::default() };
        let inventory = build_ansible_inventory(&rows, options);
        let document = &inventory.document;
        for group in ["all", "class_common", "state_present"] {
            assert_eq!(document[group]["hosts"], json!(["db1"]), "{group}");
        }
        let hosts = document["_meta"]["hostvars"].as_object().unwrap();
        assert_eq!(hosts.keys().collect::<Vec<_>>(), ["db1"]);
        let refused: Vec<&str> = inventory.refused.iter().map(|(node, _)| node.as_str()).collect();
        assert_eq!(refused, [&names[1..], &["db3"]].concat());
    }

    /// A node that publishes a class or a fact cannot make the variables of a host those of a group.
    #[test]
    fn group_with_the_name_of_a_host_is_left_out() {
        let rows = [row("db_1", &[], json!({})), row("web1", &[], json!({"db": "1"}))];
        let group_by = paths(&["db"]);
        let options = AnsibleOptions { group_by: &group_by, ..AnsibleOptions::default() };
        let inventory = build_ansible_inventory(&rows, options);
        assert_eq!(inventory.left_out_groups, ["db_1"]);
        assert_eq!(inventory.document.get("db_1"), None);
    }
}
