//! Faults of networks, machines and users. Each test injects one kind of fault and checks that no accepted request ran
//! twice, that no request was lost without a report to its caller, that no daemon ended, and that memory was released.
//! `make faults` repeats the tests.
//!
//! Executions on nodes and results of callers are recorded separately, in [`call_records`], and compared at the end.

mod broker;
pub(crate) mod call_records;
mod clock;
mod connections;
mod disk;
mod duplicates;
pub(crate) mod fixture;
mod hostile_messages;
mod journal;
mod kills;
mod lame_duck;
mod many_callers;
mod oversized;
mod power_failure;
mod rolling_restart;
mod slow_callers;
mod stored_requests;
mod unplanned;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use call_records::EffectLog;
use futures_util::{StreamExt as _, stream};
use muster_calls::{CallTarget, RpcCall};
use muster_node::core::DaemonCore;
use muster_tests::await_state;
use muster_tests::filler::filler_agent;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::memory::anonymous_kib;
use muster_tests::organisation::{Broker, Organisation};
use muster_tests::rpcd::Rpcd;
use muster_wire::identity::Identity;

/// How long recovery from a fault may take.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of nodes that start concurrently.
const CONCURRENT_STARTS: usize = 8;
/// Permitted growth of this process during a test while its nodes still run: allocators keep some memory.
const GROWTH_KIB: u64 = 96 * 1024;

/// Nodes of one fleet in this process, with the agents `ledger` and `filler`.
struct LedgerNodes(Vec<TestNode>);

impl LedgerNodes {
    /// Starts `node0.example.net` and so on, each with its own connection to this broker.
    async fn start(
        organisation: &Organisation,
        broker: &impl Broker,
        numbers: std::ops::Range<usize>,
        effects: &Arc<EffectLog>,
    ) -> Self {
        let nodes = stream::iter(numbers).map(async |number| {
            let signer = organisation.node(&format!("node{number}.example.net"));
            let mut setup = NodeSetup::new(signer);
            setup.agents = vec![call_records::ledger_agent(effects), filler_agent()];
            TestNode::start(organisation, broker, setup).await
        });
        Self(nodes.buffer_unordered(CONCURRENT_STARTS).collect().await)
    }

    fn names(&self) -> BTreeSet<Identity> {
        let names = self.0.iter().map(|node| node.core.identity().clone());
        names.collect()
    }

    fn cores(&self) -> impl Iterator<Item = &DaemonCore> {
        self.0.iter().map(|node| &*node.core)
    }
}

/// A counted change on these nodes, with this wait for replies.
fn strike_call(nodes: &BTreeSet<Identity>, wait: Duration) -> RpcCall {
    let mut call = RpcCall::new("ledger", "strike", CallTarget::Nodes(nodes.clone())).unwrap();
    call.wait = wait;
    call
}

/// Memory of this process, for comparison during a test.
fn own_memory_kib() -> u64 {
    anonymous_kib(std::process::id()).unwrap()
}

fn assert_memory_released(before: u64) {
    let now = own_memory_kib();
    assert!(now <= before + GROWTH_KIB, "{before} KiB before, {now} KiB after");
}

/// Waits until a daemon has become ready this many times.
async fn await_ready(node: &mut Rpcd, times: usize) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().matches("\"message\":\"ready\"").count() >= times
    })
    .await;
}

/// Prints a line that `tools/faults` shows at its end.
#[expect(clippy::print_stderr, reason = "prints measurements for tools/faults")]
fn print_figures(text: &str) {
    eprintln!("figures: {text}");
}
