//! The table of operators in `docs/reference/queries.md` is generated. `UPDATE_GOLDEN=1` rewrites it.

use std::path::Path;

use muster_filter::DocumentQuery;

#[test]
fn the_table_of_operators_is_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/queries.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let table = DocumentQuery::operator_table();
    let head = table.lines().next().unwrap();
    let start = page.find(head).unwrap();
    let length = page[start..].find("\n\n").unwrap() + 1;
    let generated = format!("{}{table}{}", &page[..start], &page[start + length..]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &generated).unwrap();
    } else {
        assert!(page == generated, "queries.md is out of date: run this test with UPDATE_GOLDEN=1");
    }
}
