//! The tests that `docs/coverage.md` and `SECURITY.md` name exist.

use std::collections::BTreeSet;
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

/// Most words of SECURITY.md. A longer page is not read.
const MAX_SECURITY_WORDS: usize = 2250;
/// Fewest tests that SECURITY.md names. Rows may be merged; a promise may not get lost.
const MIN_SECURITY_TESTS: usize = 164;

/// A row of a table whose last column is `tests` is a claim, and names at least one test.
#[test]
fn security_claims_name_existing_tests() {
    let page = read_page("SECURITY.md");
    let words = page.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    assert!(words.count() <= MAX_SECURITY_WORDS);
    let mut claims = Vec::new();
    let mut is_claim = false;
    for line in page.lines() {
        let last = line.trim_matches('|').rsplit(" | ").next().unwrap_or_default().trim();
        match line.starts_with('|') {
            false => is_claim = false,
            true if last == "tests" => is_claim = true,
            true if is_claim && !line.starts_with("|--") => claims.push((line, last)),
            true => {}
        }
    }
    let mut references = Vec::new();
    for (line, tests) in claims {
        let found: Vec<String> = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(found.iter().any(|reference| reference.contains("::")), "no test: {line}");
        references.extend(found);
    }
    let distinct: BTreeSet<&String> = references.iter().collect();
    assert!(distinct.len() >= MIN_SECURITY_TESTS, "{} tests", distinct.len());
    let missing = missing_references(&references);
    assert!(missing.is_empty(), "do not exist: {missing:#?}");
}
