//! The tests that `docs/coverage.md` and `SECURITY.md` name exist: a promise that nothing holds is worse than none.

use std::path::Path;

/// What a page refers to in this column of its tables, as `` `file::test` `` or `` `file` ``, row by row.
fn referred(page: &str, column: usize) -> Vec<Vec<String>> {
    let references = |line: &str| {
        let cell = line.trim_matches('|').split(" | ").nth(column)?;
        let references = cell.split('`').skip(1).step_by(2);
        Some(references.map(str::to_owned).collect())
    };
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(references).collect()
}

/// Those of the references that lead nowhere. A reference without a test's name is a file or a directory.
fn missing<'a>(references: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let is_there = |reference: &str| {
        let (file, name) = reference.split_once("::").unwrap_or((reference, ""));
        let path = root.join(file);
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        match name {
            "" => path.exists(),
            name => source.contains(&format!("fn {name}(")),
        }
    };
    let references = references.into_iter().map(String::as_str);
    references.filter(|reference| !is_there(reference)).collect()
}

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_tests_that_the_table_names_are_there() {
    let rows = referred(&page("docs/coverage.md"), 2);
    assert!(rows.len() > 80, "{} rows", rows.len());
    let missing = missing(rows.iter().flatten());
    assert!(missing.is_empty(), "not there: {missing:#?}");
}

#[test]
fn every_claim_of_security_names_tests_that_are_there() {
    let page = page("SECURITY.md");
    let (_, claims) = page.split_once("\n## What is claimed").unwrap();
    let (claims, _) = claims.split_once("\n## What is not claimed").unwrap();
    let rows = referred(claims, 1);
    // Titles and rules of tables have no reference, and no claim either.
    let is_claim = |line: &&str| {
        line.starts_with("| ") && !line.starts_with("| claim |") && !line.starts_with("|--")
    };
    let claimed = claims.lines().filter(is_claim).count();
    let held = rows.iter().filter(|row| row.iter().any(|reference| reference.contains("::")));
    assert!(claimed > 50, "{claimed} claims");
    assert_eq!(held.count(), claimed, "a claim without a test's name");
    let missing = missing(rows.iter().flatten());
    assert!(missing.is_empty(), "not there: {missing:#?}");
}
