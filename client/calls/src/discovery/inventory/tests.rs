//! Inventories in JSON and YAML, and every kind of filter evaluated on them.

use std::fmt::Write as _;

use muster_filter::NodeFilter;
use proptest::prelude::*;

use super::{FleetInventory, InventoryError, find_problems};
use crate::discovery::DiscoveryQuery;

const FLEET: &str = "
$schema: https://choria.io/schemas/choria/discovery/v1/inventory_file.json
groups:
  - name: web
    filter: {classes: [nginx], facts: [country=uk]}
  - name: databases
    filter:
      identities: [/^db/]
      compound: 'not environment=production'
  - name: all
  - name: broken
    filter: {compound: 'a and ('}
nodes:
  - name: web1.acme.net
    collectives: [muster, uk]
    facts: {country: uk, os: {family: Debian}, cpus: 8}
    classes: [Nginx, Role::Web]
    agents: [rpcutil, {name: puppetral, version: 1.2.0}]
  - name: WEB2.acme.net
    collectives: [muster]
    facts: {country: de}
    classes: [nginx]
    agents: [rpcutil]
  - name: db1.acme.net
    facts: {environment: production}
  - name: db2.acme.net
    collectives:
    facts:
    classes:
    agents:
";

fn find(wanted: &DiscoveryQuery) -> Result<Vec<String>, InventoryError> {
    let found = FleetInventory::parse(FLEET, None)?.find_nodes(wanted)?;
    Ok(found.iter().map(|node| node.as_str().split('.').next().unwrap().to_owned()).collect())
}

fn wanted(
    change: impl FnOnce(NodeFilter) -> Result<NodeFilter, muster_filter::FilterError>,
) -> DiscoveryQuery {
    DiscoveryQuery { filter: change(NodeFilter::default()).unwrap(), ..DiscoveryQuery::default() }
}

#[test]
fn every_kind_of_filter_is_evaluated() {
    for (wanted, names) in [
        (DiscoveryQuery::default(), "web1 web2 db1 db2"),
        (wanted(|f| f.with_fact("os.family=debian")), "web1"),
        (wanted(|f| f.with_fact("cpus>=4")), "web1"),
        (wanted(|f| f.with_query("{'facts.os.family': Debian, classes: 'NGINX'}")), "web1"),
        (wanted(|f| f.with_query("{'facts.country': {$ne: 'de'}}")), "web1 db1 db2"),
        (wanted(|f| f.with_fact("nobody=knows")), ""),
        (wanted(|f| f.with_class("role::web")), "web1"),
        (wanted(|f| f.with_class("/^nginx$/")), "web1 web2"),
        (wanted(|f| f.with_agent("puppetral")), "web1"),
        (wanted(|f| f.with_identity("/^db/")), "db1 db2"),
        (wanted(|f| f.with_identity("web2.acme.net")), "web2"),
        (wanted(|f| f.with_select("nginx and not country=uk")), "web2"),
    ] {
        let mut names: Vec<&str> = names.split_whitespace().collect();
        names.sort_unstable();
        assert_eq!(find(&wanted).unwrap(), names, "{wanted:?}");
    }
}

#[test]
fn groups_are_alternatives_to_identities_and_other_filters_narrow_them() {
    let group = |names: &[&str], filter: NodeFilter| DiscoveryQuery {
        filter,
        groups: names.iter().map(ToString::to_string).collect(),
        ..DiscoveryQuery::default()
    };
    let all = NodeFilter::default;
    assert_eq!(find(&group(&["web"], all())).unwrap(), ["web1"]);
    assert_eq!(find(&group(&["databases"], all())).unwrap(), ["db2"]);
    assert_eq!(find(&group(&["all"], all())).unwrap().len(), 4);
    let both = group(&["web", "databases"], all());
    assert_eq!(find(&both).unwrap(), ["db2", "web1"]);
    let named = group(&["web"], all().with_identity("db1.acme.net").unwrap());
    assert_eq!(find(&named).unwrap(), ["db1", "web1"]);
    let narrowed = group(&["all"], all().with_class("nginx").unwrap());
    assert_eq!(find(&narrowed).unwrap(), ["web1", "web2"]);
    insta::assert_snapshot!(
        find(&group(&["wbe"], all())).unwrap_err(),
        @r#"it has no group "wbe"; it has web, databases, all, broken"#
    );
    let broken = find(&group(&["broken"], all())).unwrap_err().to_string();
    assert!(broken.starts_with("the filter of group \"broken\" cannot be used"), "{broken}");
}

#[test]
fn collective_excludes_nodes_of_other_collectives() {
    let wanted = |name: &str| DiscoveryQuery {
        collective: Some(name.parse().unwrap()),
        ..DiscoveryQuery::default()
    };
    assert_eq!(find(&wanted("uk")).unwrap(), ["db1", "db2", "web1"]);
    assert_eq!(find(&wanted("muster")).unwrap().len(), 4);
}

#[test]
fn invalid_inventories_are_refused() {
    for (text, expected) in [
        ("", "it is not an inventory"),
        ("[]", "it is not an inventory"),
        ("{\"nodes\": []}", "it is not an inventory: missing field `$schema`"),
        ("{\"$schema\": \"x\", \"nodes\": []}", "its `$schema` is \"x\""),
        (
            "{\"$schema\": \"x\", \"nodes\": [{\"name\": 1}]}",
            "it is not an inventory: invalid type",
        ),
        (
            "{\"$schema\": \"x\", \"nodes\": [{\"name\": \"a\", \"agents\": [1]}]}",
            "it is not an inventory: an agent must be a name",
        ),
    ] {
        let told = FleetInventory::parse(text, None).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{text}: {told}");
    }
    let text = FLEET.replace("WEB2", "web 2");
    let told = FleetInventory::parse(&text, None).unwrap().find_nodes(&DiscoveryQuery::default());
    assert!(told.unwrap_err().to_string().starts_with("node 2: `web 2.acme.net` contains ' '"));
}

#[test]
fn all_problems_are_reported_together() {
    let text = FLEET
        .replace("name: all", "name: web")
        .replace("db2.acme", "db1.acme")
        .replace("WEB2", "web_2!")
        .replace("facts: {country: de}", "fcats: {country: de}");
    let told = find_problems(&text, None).unwrap().join("\n");
    insta::assert_snapshot!(told, @r#"
    unknown key `nodes.1.fcats` is ignored
    group "web" is defined twice; the first definition is used
    group "broken": cannot use filter "a and (": expected a condition: a class, a fact such as country=uk, not, or an opening parenthesis at column 8
    node 2: `web_2!.acme.net` contains '!'; names consist of a-z, 0-9, - and _, joined by dots
    node 4: db1.acme.net is listed twice
    "#);
    let good = FLEET.replace("'a and ('", "'a'");
    assert_eq!(find_problems(&good, None).unwrap(), Vec::<String>::new());
}

#[test]
fn json_and_yaml_are_equivalent() {
    let yaml = FleetInventory::parse(FLEET, None).unwrap();
    let json = serde_json::to_string(&yaml).unwrap();
    assert_eq!(FleetInventory::parse(&json, None).unwrap(), yaml);
}

#[test]
fn reads_ten_thousand_nodes_as_json_and_yaml() {
    let mut text = format!("$schema: {}\nnodes:\n", super::INVENTORY_SCHEMA);
    for n in 0..10_000 {
        write!(text, "  - name: n{n}.acme.net\n    facts: {{n: {n}, os: {{family: Debian, release: '12'}}}}\n").unwrap();
    }
    let inventory = FleetInventory::parse(&text, None).unwrap();
    let found = inventory.find_nodes(&wanted(|f| f.with_fact("n<100"))).unwrap();
    assert_eq!(found.len(), 100);
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        let _ = FleetInventory::parse(&text, None);
        let _ = find_problems(&text, None);
    }
}
