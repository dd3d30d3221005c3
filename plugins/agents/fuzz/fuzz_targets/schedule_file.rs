//! A file of schedules from arbitrary text: every value of an accepted check is within its limits, and an error is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_contract::nrpe::is_command_name;
use muster_agents::nrpe::schedule::schedule_file::parse_schedule_file;

fuzz_target!(|text: &str| {
    match parse_schedule_file(text) {
        Ok(checks) => {
            for check in checks {
                assert!(is_command_name(&check.name) && is_command_name(&check.command));
                assert!((1..=100).contains(&check.max_attempts));
                assert!(check.interval.as_secs() >= 1 && check.retry_interval.as_secs() >= 1);
                if let Some(thresholds) = check.flapping {
                    assert!(thresholds.low < thresholds.high);
                }
            }
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control)),
    }
});
