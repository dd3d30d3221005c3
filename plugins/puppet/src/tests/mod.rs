//! The agent through the doors that the host uses, on real files below a scratch directory, with a scripted Puppet in the place of
//! the real one. The real one has its tests in `tests/it`.

mod answers;
mod data;
mod forms;
mod machine;
mod running;
mod surviving;
mod traces;

use muster_api::ddl::{AgentDdl, builtin_agent};
use muster_api::testing::{data_differences, differences};

use crate::{actions, data as source};

#[test]
fn types_names_and_examples_equal_the_ddls() {
    let ddl = AgentDdl::from_slice(builtin_agent("puppet").unwrap().as_bytes()).unwrap();
    let found: Vec<String> = [
        differences::<actions::PuppetStatusAction>(&ddl),
        differences::<actions::PuppetRunOnceAction>(&ddl),
        differences::<actions::PuppetRunsAction>(&ddl),
        differences::<actions::PuppetEnableAction>(&ddl),
        differences::<actions::PuppetDisableAction>(&ddl),
        differences::<actions::LastRunSummaryAction>(&ddl),
        differences::<actions::LastRunReportAction>(&ddl),
        differences::<actions::PuppetLocksAction>(&ddl),
        data_differences::<source::PuppetDataSource>(),
    ]
    .concat();
    assert_eq!(found, Vec::<String>::new());
}
