//! The sections of the reference that follow the code are generated. `UPDATE_GOLDEN=1` rewrites them.

use std::path::Path;

use muster_filter::DocumentQuery;
use muster_filter::state::MapField;

/// Compares a section of a page with what is generated. It begins with `head`, and ends before the first `end`.
fn check_section(page_name: &str, head: &str, end: &str, section: &str) {
    let references = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let path = references.join(page_name);
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(head).unwrap();
    let length = page[start..].find(end).unwrap() + 1;
    let generated = format!("{}{section}{}", &page[..start], &page[start + length..]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &generated).unwrap();
    } else {
        assert!(page == generated, "{page_name} is outdated: run this test with UPDATE_GOLDEN=1");
    }
}

fn check_table(page_name: &str, table: &str) {
    check_section(page_name, table.lines().next().unwrap(), "\n\n", table);
}

#[test]
fn generated_sections_match_the_code() {
    check_table("queries.md", &DocumentQuery::operator_table());
    check_section("queries.md", "{ identity: ", "\n", &DocumentQuery::document_outline());
    check_table("wire.md", &MapField::reference_table());
}
