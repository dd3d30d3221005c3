//! Generated pages are equal to the output of the code. `UPDATE_GOLDEN=1` rewrites them.

use std::path::Path;

use muster_ddl::{AgentDdl, BUILTIN_AGENTS, doc};

#[test]
fn agent_pages_match_their_ddl() {
    for (name, text) in BUILTIN_AGENTS {
        let page =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/reference/{name}.md"));
        let generated = doc::render_markdown(&AgentDdl::from_slice(text.as_bytes()).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&page, &generated).unwrap();
        }
        let stored = std::fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(
            stored,
            generated,
            "{} is not what the DDL says; run with UPDATE_GOLDEN=1",
            page.display()
        );
    }
}
