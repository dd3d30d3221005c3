//! The output of a plugin from arbitrary text: values are finite, and what is written is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_contract::nrpe::{PluginOutput, parse_perfdata};

fuzz_target!(|text: &str| {
    let output = PluginOutput::parse(text);
    assert!(!output.text.contains(['|', '\n']) && !output.long_text.contains('|'));
    let metrics = parse_perfdata(&output.perfdata);
    assert!(metrics.iter().all(|metric| metric.value.is_none_or(f64::is_finite)));
    let written: Vec<String> = metrics.iter().map(ToString::to_string).collect();
    assert_eq!(parse_perfdata(&written.join(" ")), metrics);
});
