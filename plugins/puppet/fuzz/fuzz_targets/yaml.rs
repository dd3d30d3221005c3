//! Summaries and reports: any text is a mapping or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_puppet::yaml;

fuzz_target!(|text: &str| {
    if let Some(document) = yaml::parse_mapping(text) {
        assert!(document.is_object());
    }
});
