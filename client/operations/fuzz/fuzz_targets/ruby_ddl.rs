//! Ruby DDLs: a text is converted or refused; a converted one is a JSON DDL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_operations::bundle::convert_ruby_ddl;

fuzz_target!(|text: &str| {
    if let Ok(converted) = convert_ruby_ddl("fuzz", text) {
        let json: serde_json::Value = serde_json::from_str(&converted.json).expect("it is JSON");
        assert_eq!(json["metadata"]["name"], "fuzz");
    }
});
