//! The task that follows the promotions of the node, and what the daemon decides for it: signatures, policies and keys.

use std::sync::Arc;

use muster_agents::release::{ReleaseFollower, ReleaseMachine, ReleaseTrust};
use muster_api::NodeHandle;
use muster_bus::Bus;
use muster_filter::{EvaluationProgress, KnownLookups};
use muster_node::core::DaemonCore;
use muster_policy::{PolicyPrincipal, PolicyQuery};
use muster_schedule::MaintenanceWindows;
use muster_wire::Millis;
use muster_wire::catalog::release::{ApplyTimes, OpenPromotion, ReleaseRefusal, ReleasedEntry};
use muster_wire::catalog::{
    CatalogAddress, CatalogRefusal, CompiledCatalog, OpenCatalog, open_compiled_catalog,
};
use muster_wire::history::RunCause;
use muster_wire::identity::SubjectName;
use serde_json::{Map, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const AGENT: &str = "release";
const ACTION: &str = "promote";

/// Starts the task; `None` without the agent `release`.
pub(crate) fn start(
    releases: Option<ReleaseFollower>,
    core: &Arc<DaemonCore>,
    bus: &Bus,
    stop: CancellationToken,
) -> Option<JoinHandle<()>> {
    let releases = releases?;
    releases.connect(bus.clone(), Arc::new(DaemonReleaseTrust(Arc::clone(core))));
    let node: Arc<dyn NodeHandle> = Arc::clone(core) as Arc<dyn NodeHandle>;
    let (system, cause) = (Arc::clone(&core.node.system), RunCause::default());
    let machine = ReleaseMachine { system, node, cause };
    Some(tokio::spawn(releases.run(machine, stop)))
}

#[derive(Debug)]
struct DaemonReleaseTrust(Arc<DaemonCore>);

impl ReleaseTrust for DaemonReleaseTrust {
    fn now(&self) -> Millis {
        self.0.now()
    }

    fn open_promotion(&self, entry: &ReleasedEntry) -> Result<OpenPromotion, ReleaseRefusal> {
        let trust = &self.0.trust;
        entry.open(&trust.account.get(), &trust.tokens, self.0.now())
    }

    fn permits(&self, opened: &OpenPromotion) -> Result<(), String> {
        let names =
            SubjectName::parse(AGENT).and_then(|agent| Ok((agent, SubjectName::parse(ACTION)?)));
        let (agent, action) = names.map_err(|error| error.to_string())?;
        if !opened.author.may_request(&agent, &action) {
            return Err(format!("the token of {} does not permit it", opened.promotion.author));
        }
        if !self.0.node.collectives.contains(&opened.promotion.collective) {
            return Err(format!(
                "this node is not in the collective {}",
                opened.promotion.collective
            ));
        }
        let caller = PolicyPrincipal::from_verified(&opened.author);
        let inputs =
            Map::from_iter([("apply".to_owned(), json!(opened.promotion.apply.is_some()))]);
        let policy = self.0.offer.policy.get();
        let decided = self.0.with_node_view(|node| {
            let query = PolicyQuery {
                caller: &caller,
                agent: &agent,
                action: &action,
                node,
                inputs: Some(&inputs),
                now: self.0.now(),
            };
            match policy.evaluate_query(&query, &KnownLookups::default()) {
                EvaluationProgress::Decided(decision) => Ok(decision),
                EvaluationProgress::Needs(_) => {
                    Err("the policy reads a data source, which only a request can".to_owned())
                }
            }
        })?;
        // A second person approves a request, and there is none here.
        match decided.approved_by {
            _ if !decided.allowed => Err(decided.rule),
            Some(_) => Err(format!(
                "{}: it needs an approval; promote while the node is here",
                decided.rule
            )),
            None => Ok(()),
        }
    }

    fn is_open(&self, times: &ApplyTimes) -> bool {
        let windows = MaintenanceWindows::parse(&times.windows, times.time_zone.as_deref());
        windows.is_ok_and(|windows| windows.is_open(self.0.now()))
    }

    fn verify_catalog(
        &self,
        bytes: &[u8],
        address: CatalogAddress,
    ) -> Result<CompiledCatalog, CatalogRefusal> {
        let (trust, node) = (&self.0.trust, self.0.identity());
        let now = self.0.now();
        open_compiled_catalog(bytes, node, address, &trust.account.get(), &trust.tokens, now)
    }

    fn decrypt_catalog(&self, catalog: &CompiledCatalog) -> Result<OpenCatalog, CatalogRefusal> {
        catalog.open(self.0.trust.signer.key_pair())
    }
}
