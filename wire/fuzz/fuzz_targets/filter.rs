//! Filters as text and as JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_filter::NodeFilter;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(filter) = serde_json::from_slice::<NodeFilter>(bytes) {
        let again = serde_json::to_vec(&filter).expect("a filter is written");
        let read: NodeFilter = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, filter);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = NodeFilter::default().with_words(text);
        let _ = NodeFilter::default().with_fact(text);
        let _ = NodeFilter::default().with_class(text);
    }
});
