//! Reads the facts, classes and policies of a running daemon again, and records what is wrong with them.

use muster_api::FindingLevel;
use muster_api::system::System;
use muster_base::error_chain;

use crate::config::Config;
use crate::core::DaemonCore;
use crate::machine::facts::FactMachines;
use crate::trust::policy;

/// What follows the errors of policies that were not replaced.
const KEPT_POLICIES: &str = "the policies that were read before stay in effect until the next reload without an error; a restart of rpcd would deny what depends on these files";

/// Collects facts, and reads the classes again. A source that fails keeps its last good value, and the failure is reported. Blocks.
pub fn reload_facts(core: &DaemonCore, host: &dyn System) {
    let mut problems = Vec::new();
    for problem in core.node.facts.reload(FactMachines { node: &*core.node.system, host }) {
        // The reason names the file and what to do.
        let problem = error_chain(&problem);
        tracing::warn!(problem, "cannot collect all facts");
        problems.push(problem);
    }
    core.health.set_findings("facts", FindingLevel::Warning, &problems);
    reload_classes(core);
}

/// Reads the classes again. If that fails, the last ones stay, and the failure is reported. Blocks.
pub fn reload_classes(core: &DaemonCore) {
    let problems = core.node.classes.reload().err().map(|error| {
        let problem = error_chain(&error);
        tracing::warn!(problem, "cannot read the classes");
        problem
    });
    core.health.set_findings("classes", FindingLevel::Warning, problems.as_slice());
}

/// Reads the policies again. If one has an error, all stay as they were, and the error is reported: a typing error must not lock out those who mend it.
/// Returns whether the policies were replaced.
pub fn reload_policies(core: &DaemonCore, config: &Config) -> bool {
    let (policy, mut problems) = policy::load_configured_policies(config);
    let is_valid = problems.is_empty();
    if is_valid {
        core.offer.policy.set(policy);
    } else {
        for problem in &problems {
            tracing::error!(problem, "the policies are not replaced");
        }
        problems.push(KEPT_POLICIES.to_owned());
    }
    core.health.set_findings("policies", FindingLevel::Error, &problems);
    is_valid
}
