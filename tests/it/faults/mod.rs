//! What goes wrong in a network, on a machine and among people, as tests: each injects one kind of fault, and holds that no accepted request
//! ran twice, none was lost without its caller being told, no daemon died, and memory is back where it was. `make faults` repeats them.
//!
//! What was done and what was told are written down apart from each other, in [`books`], and compared at the end.

mod books;
mod broker;
mod clock;
mod crowd;
mod disk;
mod duplicates;
mod hostile;
mod journal;
mod kills;
mod lines;
mod oversized;
mod rig;
mod slow;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use books::Effects;
use futures_util::{StreamExt as _, stream};
use muster_agent::core::DaemonCore;
use muster_client::{CallTarget, RpcCall};
use muster_tests::await_state;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::memory::anonymous_kib;
use muster_tests::organisation::{Broker, Organisation};
use muster_tests::rpcd::Rpcd;
use muster_wire::identity::Identity;

/// How long what was disturbed may take to be as it should be.
const BACK: Duration = Duration::from_secs(30);
/// Nodes that start at the same time.
const STARTING: usize = 8;
/// What this process may have more at the end of a test than at its beginning, when its nodes still run: allocators keep some.
const GROWTH_KIB: u64 = 96 * 1024;

/// Nodes of one fleet in this process, which offer the agent `ledger`.
struct Nodes(Vec<TestNode>);

impl Nodes {
    /// Starts `node0.example.net` and so on, each with its own connection to this broker.
    async fn start(
        organisation: &Organisation,
        broker: &impl Broker,
        numbers: std::ops::Range<usize>,
        effects: &Arc<Effects>,
    ) -> Self {
        let nodes = stream::iter(numbers).map(async |number| {
            let signer = organisation.node(&format!("node{number}.example.net"));
            let mut setup = NodeSetup::new(signer);
            setup.agents = vec![books::agent(effects)];
            TestNode::start(organisation, broker, setup).await
        });
        Self(nodes.buffer_unordered(STARTING).collect().await)
    }

    fn names(&self) -> BTreeSet<Identity> {
        let names = self.0.iter().map(|node| node.core.identity().clone());
        names.collect()
    }

    fn cores(&self) -> impl Iterator<Item = &DaemonCore> {
        self.0.iter().map(|node| &*node.core)
    }
}

/// A change on these nodes that is counted, whose answers are waited for so long.
fn strike(nodes: &BTreeSet<Identity>, wait: Duration) -> RpcCall {
    let mut call = RpcCall::new("ledger", "strike", CallTarget::Nodes(nodes.clone())).unwrap();
    call.wait = wait;
    call
}

/// What this process has now; a test compares it with what it has later.
fn our_memory() -> u64 {
    anonymous_kib(std::process::id()).unwrap()
}

fn assert_memory_is_back(before: u64) {
    let now = our_memory();
    assert!(now <= before + GROWTH_KIB, "{before} KiB before, {now} KiB after");
}

/// Waits until a daemon has become ready so often.
async fn ready(node: &mut Rpcd, times: usize) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().matches("\"message\":\"ready\"").count() >= times
    })
    .await;
}

/// What `tools/faults` shows at its end.
#[expect(clippy::print_stderr, reason = "figures, for who asks to see them")]
fn note(words: &str) {
    eprintln!("figures: {words}");
}
