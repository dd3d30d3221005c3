//! NRPE's configuration from arbitrary text: every command line is split or refused, and arguments never change the number of words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_contract::nrpe::is_command_name;
use muster_agents::nrpe::command_line::CommandTemplate;
use muster_agents::nrpe::nrpe_file::{NrpeDirective, parse_nrpe_file};

fuzz_target!(|input: (String, String)| {
    let (text, argument) = input;
    for directive in parse_nrpe_file(&text) {
        let NrpeDirective::Command { name, line } = directive else { continue };
        assert!(is_command_name(&name));
        if let Ok(template) = CommandTemplate::parse(&line) {
            let plain = template.to_argv(&vec!["x".to_owned(); 16]);
            let hostile = template.to_argv(&vec![format!("x{argument}"); 16]);
            assert_eq!(plain.len(), hostile.len());
            assert_eq!(plain.first(), hostile.first());
        }
    }
});
