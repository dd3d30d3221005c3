//! The agent through the doors that the host uses, on real files below a scratch directory, with a scripted Puppet in the place of
//! the real one. The real one has its tests in `tests/it`.

mod answers;
mod data;
mod forms;
mod machine;
mod running;
mod surviving;
mod traces;

use muster_api::ddl::{Ddl, builtin};
use muster_api::testing::{data_differences, differences};

use crate::{actions, data as source};

#[test]
fn types_names_and_examples_equal_the_ddls() {
    let ddl = Ddl::from_slice(builtin("puppet").unwrap().as_bytes()).unwrap();
    let found: Vec<String> = [
        differences::<actions::Status>(&ddl),
        differences::<actions::RunOnce>(&ddl),
        differences::<actions::Runs>(&ddl),
        differences::<actions::Enable>(&ddl),
        differences::<actions::Disable>(&ddl),
        differences::<actions::LastRunSummary>(&ddl),
        differences::<actions::LastRunReport>(&ddl),
        differences::<actions::Locks>(&ddl),
        data_differences::<source::Puppet>(),
    ]
    .concat();
    assert_eq!(found, Vec::<String>::new());
}
