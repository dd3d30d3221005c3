//! Tests of the agent through its handlers, with real files below a scratch directory and a scripted Puppet.
//! `tests/it/puppet` has the tests with the real Puppet.

mod answers;
mod data;
mod forms;
mod machine;
mod running;
mod surviving;
mod traces;

use muster_api::testing::{data_differences, differences};

use crate::permits::PermitClient;
use muster_api::wire::identity::Identity;
use muster_api::{EmptyInput, NodePlugin as _, StateChanges};

use crate::data::PuppetDataOutput;
use crate::{Options, PuppetPlugin, actions};

/// The plugin with default options.
fn plugin() -> PuppetPlugin {
    let node = Identity::parse("dev1.example.net").unwrap();
    PuppetPlugin::new(Options::default(), PermitClient::new(node), StateChanges::default()).unwrap()
}

#[test]
fn types_names_and_examples_equal_the_ddls() {
    let agent = plugin().build_agent().unwrap();
    let found: Vec<String> = [
        differences::<actions::disable::PuppetDisableInput, actions::disable::PuppetDisableOutput>(
            &agent, "disable",
        ),
        differences::<actions::disable::PuppetEnableInput, actions::disable::PuppetEnableOutput>(
            &agent, "enable",
        ),
        differences::<
            actions::last_run_report::LastRunReportInput,
            actions::last_run_report::LastRunReportOutput,
        >(&agent, "last_run_report"),
        differences::<
            actions::last_run_summary::LastRunSummaryInput,
            muster_contract::puppet::LastRunSummaryOutput,
        >(&agent, "last_run_summary"),
        differences::<EmptyInput, actions::locks::PuppetLocksOutput>(&agent, "locks"),
        differences::<
            muster_contract::puppet::PuppetRunOnceInput,
            muster_contract::puppet::PuppetRunOutcome,
        >(&agent, "runonce"),
        differences::<actions::runs::PuppetRunsInput, actions::runs::PuppetRunsOutput>(
            &agent, "runs",
        ),
        differences::<EmptyInput, muster_contract::puppet::PuppetStatusOutput>(&agent, "status"),
        data_differences::<PuppetDataOutput>(&plugin().data_sources().unwrap()[0]),
    ]
    .concat();
    assert_eq!(found, Vec::<String>::new());
}
