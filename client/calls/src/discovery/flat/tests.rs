//! Node lists as text, JSON and YAML, and invalid lists.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{DiscoveryFileFormat, NodeListError, filter_identities, read_list_file};

fn parse(text: &str) -> Result<BTreeSet<muster_wire::identity::Identity>, NodeListError> {
    super::parse_list(text, None)
}

fn names(text: &str) -> Vec<String> {
    let nodes = parse(text).unwrap();
    nodes.iter().map(|node| node.as_str().to_owned()).collect()
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn text_has_one_name_per_line_and_comments() {
    let text = "\u{feff}# web servers\r\nweb2 # the new one\n\n  WEB1.acme.net.\nweb2\n#\n";
    assert_eq!(names(text), ["web1.acme.net", "web2"]);
    assert!(names("# nobody\n\n").is_empty());
}

#[test]
fn json_has_names_or_objects_with_names() {
    for text in [
        r#"["b", "a"]"#,
        r#" [{"sender": "a"}, {"certname": "b", "facts": {}}]"#,
        r#"{"schema": "muster.nodes.v1", "nodes": ["a", "b"], "incomplete": false}"#,
        r#""a" "b""#,
        "{\"kind\":\"discovered\",\"nodes\":[\"a\",\"b\",\"c\"]}\n{\"kind\":\"result\",\"sender\":\"a\"}\n\
         {\"kind\":\"result\",\"sender\":\"b\"}\n{\"kind\":\"stats\",\"request_stats\":{}}\n",
    ] {
        assert_eq!(names(text), ["a", "b"], "{text}");
    }
    assert!(names("[]").is_empty());
}

#[test]
fn request_document_lists_the_nodes_that_replied() {
    let document = r#"{"schema": "muster.request.v1", "agent": "rpcutil", "action": "ping",
        "replies": [{"sender": "b", "statuscode": 0, "data": {}}, {"sender": "a", "statuscode": 1, "data": {}}],
        "request_stats": {"no_responses": ["c"]}}"#;
    assert_eq!(names(document), ["a", "b"]);
}

#[test]
fn yaml_is_detected_by_its_start_or_extension_or_requested() {
    for text in ["---\n- b\n- a\n", "# ours\n- sender: a\n- certname: b\n"] {
        assert_eq!(names(text), ["a", "b"], "{text}");
    }
    let text = "nodes:\n  - a\n  - b\n";
    assert!(parse(text).is_err());
    assert_eq!(super::parse_list(text, Some(DiscoveryFileFormat::Yaml)).unwrap().len(), 2);
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("nodes.yaml");
    std::fs::write(&path, text).unwrap();
    assert_eq!(read_list_file(&path, None).unwrap().len(), 2);
    assert!(matches!(
        read_list_file(&path, Some(DiscoveryFileFormat::Json)),
        Err(NodeListError::Json(_))
    ));
    // Nested aliases (a YAML bomb) are refused quickly.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let last = format!("*a{}", n - 1);
        let row = [last.as_str(); 9].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{row}]").unwrap();
    }
    assert!(matches!(
        super::parse_list(&bomb, Some(DiscoveryFileFormat::Yaml)),
        Err(NodeListError::Yaml(_))
    ));
}

#[test]
fn identity_filters_select_from_a_list() {
    let nodes = parse("web1\nweb2\ndb1\n").unwrap();
    let filter = muster_filter::NodeFilter::default();
    assert_eq!(filter_identities(nodes.clone(), &filter), nodes);
    let web = filter.with_identity("/^web/").unwrap().with_identity("nobody").unwrap();
    let left = filter_identities(nodes, &web);
    assert_eq!(
        left.iter().map(muster_wire::identity::Identity::as_str).collect::<Vec<_>>(),
        ["web1", "web2"]
    );
}

#[test]
fn invalid_names_are_reported_with_their_position() {
    for (text, expected) in [
        ("web1\n\nweb 2\n", "line 3: `web 2` contains ' '"),
        ("web1\n*\n", "line 2: `*` contains '*'"),
        (r#"["a", "b!"]"#, "name 2: `b!` contains '!'"),
        ("\u{1b}[2J", "line 1: `\\u{1b}[2J` contains"),
        (r#"["a", 7]"#, "entry 2 is not a node"),
        (r#"[{"name": "a"}]"#, "entry 1 is not a node"),
        (r#"["a""#, "it begins like JSON, but is not valid JSON"),
    ] {
        let told = refusal(text);
        assert!(told.starts_with(expected), "{text}: {told}");
    }
}

#[test]
fn missing_and_empty_lists_are_refused() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("nodes");
    assert!(matches!(read_list_file(&path, None), Err(NodeListError::Read(_))));
    std::fs::write(&path, "# gone\n").unwrap();
    assert!(matches!(read_list_file(&path, None), Err(NodeListError::Empty)));
    std::fs::write(&path, "a\nb").unwrap();
    assert_eq!(read_list_file(&path, None).unwrap().len(), 2);
}

proptest! {
    #[test]
    fn text_and_json_are_equivalent(names in prop::collection::btree_set("[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){0,2}", 0..20)) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text: String = names.iter().flat_map(|name| [name, " # ", name, "\n"]).collect();
        let parsed = parse(&text).unwrap();
        let seen: Vec<&str> = parsed.iter().map(muster_wire::identity::Identity::as_str).collect();
        prop_assert_eq!(seen.iter().copied().collect::<BTreeSet<_>>(), names.iter().copied().collect());
        prop_assert_eq!(parse(&serde_json::to_string(&names).unwrap()).unwrap(), parsed);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>(), lead in "[\\[{\" ]?") {
        let _ = parse(&format!("{lead}{text}"));
    }
}
