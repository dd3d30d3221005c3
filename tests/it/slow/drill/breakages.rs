//! What is broken during the drill, for how long, and how it is repaired. One thing is broken at a time.

use std::time::Duration;

use muster_tests::cluster::SERVER_NAMES;
use muster_tests::fault_proxy::{Disconnect, FaultProxy, NetworkFault};
use muster_tests::simulate_delay;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::fleet::{DIRECTORY_NODE, DrillFleet, NODES, STRIKE_ALL};

/// A failure and its repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breakage {
    /// A server is killed, and started again with its old store.
    KillBroker,
    /// A server hangs.
    FreezeBroker,
    /// A server asks its clients to leave, ends, and is started again.
    RetireBroker,
    /// A daemon is killed, and started again with its old state.
    KillNode,
    /// The connection of a node is reset.
    CutNode,
    /// What a node sends and receives is lost without a signal.
    IsolateNode,
    /// The node with the instance of the directory is stopped and started.
    StopDirectory,
    /// `rpc` is killed during a request to all nodes.
    KillCaller,
}

impl Breakage {
    pub(super) const ALL: [Self; 8] = [
        Self::KillBroker,
        Self::FreezeBroker,
        Self::RetireBroker,
        Self::KillNode,
        Self::CutNode,
        Self::IsolateNode,
        Self::StopDirectory,
        Self::KillCaller,
    ];

    /// Breaks something, and returns when it is repaired.
    pub(super) async fn run(self, fleet: &mut DrillFleet, rng: &mut StdRng) {
        let server = rng.random_range(0..SERVER_NAMES.len());
        let node = rng.random_range(0..NODES);
        let duration = Duration::from_millis(rng.random_range(500..8000));
        match self {
            Self::KillBroker => {
                fleet.cluster.kill(server);
                simulate_delay(duration).await;
                fleet.cluster.revive(server).await;
            }
            Self::FreezeBroker => {
                let pid = Pid::from_raw(fleet.cluster.member(server).pid().try_into().unwrap());
                kill(pid, Signal::SIGSTOP).unwrap();
                simulate_delay(duration).await;
                kill(pid, Signal::SIGCONT).unwrap();
                fleet.cluster.await_healthy().await;
            }
            Self::RetireBroker => fleet.cluster.restart_gracefully(server).await,
            Self::KillNode => {
                let node = fleet.nodes.get_mut(node).unwrap();
                node.daemon.kill_and_wait();
                simulate_delay(duration).await;
                node.restart().await;
            }
            Self::CutNode => {
                let node = fleet.nodes.get(node).unwrap();
                node.proxies.iter().for_each(|proxy| proxy.cut(Disconnect::Reset));
                simulate_delay(duration).await;
            }
            Self::IsolateNode => {
                let node = fleet.nodes.get(node).unwrap();
                node.proxies.iter().for_each(|proxy| proxy.inject(NetworkFault::HalfOpen));
                simulate_delay(duration).await;
                node.proxies.iter().for_each(FaultProxy::heal);
            }
            Self::StopDirectory => {
                let node = fleet.nodes.get_mut(DIRECTORY_NODE).unwrap();
                kill(Pid::from_raw(node.daemon.pid()), Signal::SIGTERM).unwrap();
                muster_tests::await_state("the node with the directory stops", || {
                    !node.daemon.is_running()
                })
                .await;
                simulate_delay(duration).await;
                node.restart().await;
            }
            Self::KillCaller => kill_caller(fleet, duration / 4).await,
        }
    }
}

/// Kills `rpc` at some moment of a request to all nodes, at most 2 s after its start; it may have ended by then.
async fn kill_caller(fleet: &DrillFleet, after: Duration) {
    let mut command = fleet.rpc.prepare_command(&STRIKE_ALL);
    let mut child = command.spawn().unwrap();
    simulate_delay(after).await;
    child.kill().await.unwrap();
}

/// All breakages in a random order, with their index in [`Breakage::ALL`].
pub(super) fn shuffle(rng: &mut StdRng) -> Vec<(usize, Breakage)> {
    let mut order: Vec<_> = Breakage::ALL.into_iter().enumerate().collect();
    order.shuffle(rng);
    order
}
