//! Calls the hosts of a service one at a time. All hosts of a service have the same data.

use std::collections::BTreeSet;

use muster_filter::NodeFilter;
use muster_request::{AgentSchemas, FleetConnection, NodeReply, RequestReport, TargetSelection};
use muster_wire::identity::{Identity, SubjectName};

use super::inquiry;
use crate::commands::context::{CommandContext, Result};
use crate::progress::ProgressReporter;

/// A service, and what is printed about it.
#[derive(Debug, Clone, Copy)]
pub struct FleetService {
    /// Its agent.
    pub agent: &'static str,
    /// Printed if no host runs it.
    pub absent: &'static str,
    /// Printed if no host answers.
    pub silent: &'static str,
}

/// A connection, and the hosts of the service.
pub struct ServiceClient<'a> {
    service: FleetService,
    fleet: FleetConnection,
    hosts: BTreeSet<Identity>,
    schemas: AgentSchemas,
    cx: CommandContext<'a>,
}

impl<'a> ServiceClient<'a> {
    /// Finds the hosts; `None` if there are none, which is printed.
    pub async fn find_hosts(
        service: FleetService,
        collective: Option<SubjectName>,
        cx: CommandContext<'a>,
    ) -> Result<Option<Self>> {
        let target = TargetSelection::from_filter(NodeFilter::default(), collective);
        let target = target.with_agent(service.agent)?;
        let settings = cx.load_settings()?;
        let schemas = cx.load_schemas(Some(&settings))?;
        let fleet = FleetConnection::connect(&settings, &target).await?;
        let progress = ProgressReporter::new(cx.printer, false);
        let hosts = fleet.discover_nodes(&target, &progress).await?.nodes;
        if hosts.is_empty() {
            cx.printer.print_error(service.absent);
            return Ok(None);
        }
        Ok(Some(Self { service, fleet, hosts, schemas, cx }))
    }

    /// The nodes that match.
    pub async fn discover_nodes(
        &self,
        target: &TargetSelection,
        show_progress: bool,
    ) -> Result<BTreeSet<Identity>> {
        let progress = ProgressReporter::new(self.cx.printer, show_progress);
        Ok(self.fleet.discover_nodes(target, &progress).await?.nodes)
    }

    /// Returns the reply of the first host that answers. `None` if none answers, which is printed.
    pub async fn ask_first_host(
        &self,
        action: &str,
        inputs: &[(&str, &str)],
    ) -> Result<Option<NodeReply>> {
        let agent = self.service.agent;
        let plan = inquiry::plan_action(&self.schemas, (agent, action), inputs)?;
        let progress = ProgressReporter::new(self.cx.printer, false);
        let mut last_report = RequestReport::empty(agent, action);
        for host in &self.hosts {
            let report = inquiry::ask_node(&self.fleet, &plan, host, &progress).await?;
            match report.replies.first() {
                Some(reply) => return Ok(Some(reply.clone())),
                None => last_report = report,
            }
        }
        self.cx.warn_of_gaps(&last_report);
        self.cx.printer.print_error(self.service.silent);
        Ok(None)
    }
}
