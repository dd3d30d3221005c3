//! A catalog in any of its forms: it is refused with a reason, or judged by the types, without a look at the machine.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use muster_engine::catalog::Catalog;
use muster_engine::{ResourceEngine, lint};
use muster_system::fake::FakeSystem;

static ENGINE: LazyLock<ResourceEngine> =
    LazyLock::new(|| ResourceEngine::new(Arc::new(FakeSystem::new())));

fuzz_target!(|bytes: &[u8]| {
    match Catalog::parse(bytes, "node") {
        Ok(catalog) => {
            for entry in 0..catalog.entries.len() {
                assert!(!catalog.containment_path(entry).is_empty());
            }
            let _ = lint::lint_catalog(&ENGINE, &catalog);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
