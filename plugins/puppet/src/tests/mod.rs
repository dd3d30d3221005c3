//! Tests of the agent through its handlers, with real files below a scratch directory and a scripted Puppet.
//! `tests/it/puppet` has the tests with the real Puppet.

mod answers;
mod data;
mod forms;
mod machine;
mod running;
mod surviving;
mod traces;

use muster_api::testing::data_differences;
use muster_api::wire::identity::Identity;
use muster_api::{HistoryRecorder, NodePlugin as _, StateChanges};

use crate::permits::PermitClient;

use crate::data::PuppetDataOutput;
use crate::{Options, PuppetPlugin};

/// The plugin with default options.
fn plugin() -> PuppetPlugin {
    let node = Identity::parse("dev1.example.net").unwrap();
    PuppetPlugin::new(
        Options::default(),
        PermitClient::new(node),
        StateChanges::default(),
        HistoryRecorder::default(),
    )
    .unwrap()
}

#[test]
fn types_of_the_data_source_equal_its_ddl() {
    let sources = plugin().data_sources().unwrap();
    assert_eq!(data_differences::<PuppetDataOutput>(&sources[0]), Vec::<String>::new());
}
