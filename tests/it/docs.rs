//! Pages that are made from the code equal the code. `UPDATE_GOLDEN=1` writes them anew.

use std::path::Path;

use muster_ddl::{AgentDdl, BUILTIN_AGENTS, doc};

#[test]
fn the_agents_reference_is_the_ddl() {
    for (name, text) in BUILTIN_AGENTS {
        let page =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/reference/{name}.md"));
        let made = doc::render_markdown(&AgentDdl::from_slice(text.as_bytes()).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&page, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(
            kept,
            made,
            "{} is not what the DDL says; run with UPDATE_GOLDEN=1",
            page.display()
        );
    }
}
