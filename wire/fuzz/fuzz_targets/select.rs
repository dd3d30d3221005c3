//! Expressions: what is read prints itself, and the print is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::filter::Select;

fuzz_target!(|text: &str| {
    if let Ok(select) = Select::parse(text) {
        let printed = select.to_string();
        let read = Select::parse(&printed).expect("what is printed is read");
        assert_eq!(read, select);
        assert_eq!(read.to_string(), printed);
        assert!(!select.explain().contains(char::is_control));
    }
});
