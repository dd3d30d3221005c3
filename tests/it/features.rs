//! `docs/features.md`: each feature has lines that can be typed in the demonstration, in the order of the page, and each line succeeds.

use std::path::Path;

use crate::demo::{Demo, describe_output};

/// Features without a line, and the reason, which the page states, too.
const NOT_IN_DEMO: [(&str, &str); 3] = [
    ("SSH certificates", "it needs root and an sshd"),
    ("Catalogs compiled ahead", "it needs Puppet, see `rpc demo up --catalogs`"),
    ("Upgrades", "it needs the program of another release"),
];

/// An item of the page's list.
struct FeatureItem<'a> {
    name: &'a str,
    text: &'a str,
    lines: Vec<&'a str>,
}

/// The items of the list before the heading `Missing`.
fn feature_items(page: &str) -> Vec<FeatureItem<'_>> {
    let (list, _) = page.split_once("\n## Missing").unwrap();
    let items = list.split("\n- *").skip(1);
    let item = |text| {
        let (name, _) = str::split_once(text, "*: ").unwrap();
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
        FeatureItem { name, text, lines: lines.collect() }
    };
    items.map(item).collect()
}

#[test]
fn each_feature_has_lines_that_succeed_in_the_demonstration() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/features.md");
    let page = std::fs::read_to_string(page).unwrap();
    let features = feature_items(&page);
    assert!(features.len() > 15, "{} features", features.len());
    let without: Vec<_> = features.iter().filter(|feature| feature.lines.is_empty()).collect();
    let names: Vec<_> = without.iter().map(|feature| feature.name).collect();
    assert_eq!(names, NOT_IN_DEMO.map(|(name, _)| name));
    for (feature, (name, reason)) in without.iter().zip(NOT_IN_DEMO) {
        assert!(feature.text.contains(&format!("Not in the demo: {reason}.")), "{name}");
    }

    let demo = Demo::start();
    let mut failed = Vec::new();
    for line in features.iter().flat_map(|feature| &feature.lines) {
        let output = demo.type_line(line);
        if !output.status.success() {
            failed.push(format!("$ {line}\n{}{}", describe_output(&output), output.status));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
