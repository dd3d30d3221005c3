//! The tests that `docs/coverage.md` names exist: a promise that nothing holds is worse than none.

use std::path::Path;

#[test]
fn the_tests_that_the_table_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/coverage.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 80, "{} rows", rows.len());
    let mut missing = Vec::new();
    for line in rows {
        let Some(held_by) = line.trim_matches('|').split(" | ").nth(2) else {
            continue;
        };
        for reference in held_by.split('`').skip(1).step_by(2) {
            let (file, name) = reference.split_once("::").unwrap_or((reference, ""));
            let path = root.join(file);
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            let found = match name {
                "" => path.exists(),
                name => source.contains(&format!("fn {name}(")),
            };
            if !found {
                missing.push(reference.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "not there: {missing:#?}");
}
