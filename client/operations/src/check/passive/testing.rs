//! A result for tests.

use muster_contract::nrpe::CheckState;

use super::PassiveResult;

/// A result with these texts.
pub(super) fn sample_result(output: &str, perfdata: &str, long_output: &str) -> PassiveResult {
    PassiveResult {
        time: 1_780_000_000,
        host: "web1.example.net".to_owned(),
        service: "load".to_owned(),
        state: CheckState::Critical,
        output: output.to_owned(),
        perfdata: perfdata.to_owned(),
        long_output: long_output.to_owned(),
    }
}
