//! Facts of a node: the command `replace facts`, version 5.

use serde_json::{Map, Value, json};

use super::source::FormSource;
use super::values::{clean_map, clean_text, clean_value, format_time};

/// Where Puppet's agent puts the packages of a node.
const INVENTORY_FACT: &str = "_puppet_inventory_1";
const TRUSTED_FACT: &str = "trusted";

/// The body of `replace facts`. `trusted` replaces a fact of this name: the node itself must not choose it.
pub fn facts_form(
    facts: &Map<String, Value>,
    trusted: Map<String, Value>,
    source: FormSource<'_>,
) -> Map<String, Value> {
    let mut values = clean_map(facts);
    let inventory = values.remove(INVENTORY_FACT);
    values.insert(TRUSTED_FACT.to_owned(), Value::Object(trusted));
    let mut form = Map::new();
    form.insert("certname".to_owned(), clean_text(source.certname).into());
    form.insert("environment".to_owned(), clean_text(source.environment).into());
    form.insert("values".to_owned(), Value::Object(values));
    form.insert("producer_timestamp".to_owned(), format_time(source.producer_timestamp).into());
    form.insert("producer".to_owned(), clean_text(source.producer).into());
    if let Some(packages) = inventory.as_ref().and_then(|inventory| inventory.get("packages")) {
        form.insert("package_inventory".to_owned(), package_inventory(packages));
    }
    form
}

/// The fact `trusted` of a node whose name is verified.
pub fn trusted_facts(certname: &str, extensions: &Map<String, Value>) -> Map<String, Value> {
    let (hostname, domain) = match certname.split_once('.') {
        Some((hostname, domain)) => (hostname, Value::from(clean_text(domain))),
        None => (certname, Value::Null),
    };
    let trusted = json!({
        "authenticated": "remote",
        "certname": clean_text(certname),
        "hostname": clean_text(hostname),
        "domain": domain,
        "extensions": clean_map(extensions),
        "external": {},
    });
    match trusted {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Packages are lists of name, version and provider; others would fail the command.
fn package_inventory(packages: &Value) -> Value {
    let is_package = |package: &&Value| {
        let parts = package.as_array();
        parts.is_some_and(|parts| parts.len() == 3 && parts.iter().all(Value::is_string))
    };
    let packages = packages.as_array().into_iter().flatten();
    packages.filter(is_package).map(clean_value).collect()
}
