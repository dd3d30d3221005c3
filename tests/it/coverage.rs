//! The tests that `docs/coverage.md` and `SECURITY.md` name exist.

use std::path::Path;

/// The references in this column of a page's tables, `` `file::test` `` or `` `file` ``, by row.
fn references_in(page: &str, column: usize) -> Vec<Vec<String>> {
    let references = |line: &str| {
        let cell = line.trim_matches('|').split(" | ").nth(column)?;
        let references = cell.split('`').skip(1).step_by(2);
        Some(references.map(str::to_owned).collect())
    };
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(references).collect()
}

/// The references that do not exist. A reference without a test name is a file or a directory.
fn missing_references<'a>(references: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let exists = |reference: &str| {
        let (file, name) = reference.split_once("::").unwrap_or((reference, ""));
        let path = root.join(file);
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        match name {
            "" => path.exists(),
            name => source.contains(&format!("fn {name}(")),
        }
    };
    let references = references.into_iter().map(String::as_str);
    references.filter(|reference| !exists(reference)).collect()
}

fn read_page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn coverage_table_names_existing_tests() {
    let rows = references_in(&read_page("docs/coverage.md"), 2);
    assert!(rows.len() > 80, "{} rows", rows.len());
    let missing = missing_references(rows.iter().flatten());
    assert!(missing.is_empty(), "do not exist: {missing:#?}");
}

#[test]
fn security_claims_name_existing_tests() {
    let page = read_page("SECURITY.md");
    let (_, claims) = page.split_once("\n## What is claimed").unwrap();
    let (claims, _) = claims.split_once("\n## What is not claimed").unwrap();
    let rows = references_in(claims, 1);
    // Headings and separators of tables have no reference and are no claims.
    let is_claim = |line: &&str| {
        line.starts_with("| ") && !line.starts_with("| claim |") && !line.starts_with("|--")
    };
    let claimed = claims.lines().filter(is_claim).count();
    let with_tests = rows.iter().filter(|row| row.iter().any(|reference| reference.contains("::")));
    assert!(claimed > 50, "{claimed} claims");
    assert_eq!(with_tests.count(), claimed, "a claim without a test's name");
    let missing = missing_references(rows.iter().flatten());
    assert!(missing.is_empty(), "do not exist: {missing:#?}");
}
