//! Calls the hosts of the provisioning service one at a time. All of them have the same data.

use std::collections::BTreeSet;

use muster_client::{AgentSchemas, FleetConnection, NodeReply, RequestReport, TargetSelection};
use muster_contract::provisioner::ProvisionerAgent;
use muster_ddl::{Action, AgentContract as _};
use muster_wire::identity::Identity;

use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_node;
use crate::session::context::{CommandContext, Result};

pub struct ProvisionerClient<'a> {
    fleet: FleetConnection,
    hosts: BTreeSet<Identity>,
    schemas: AgentSchemas,
    cx: CommandContext<'a>,
}

impl<'a> ProvisionerClient<'a> {
    /// Finds the hosts; `None` if there are none.
    pub async fn find_hosts(cx: CommandContext<'a>) -> Result<Option<Self>> {
        let target = TargetSelection::default().with_agent(ProvisionerAgent::NAME)?;
        let schemas = cx.load_configured_schemas()?;
        let fleet = cx.connect(&target).await?;
        let progress = ProgressReporter::new(cx.printer, false);
        let hosts = fleet.locate(&target, &progress).await?.nodes;
        if hosts.is_empty() {
            cx.printer.print_error(
                "no host runs the provisioning service; enable it in [plugins.provisioner] on one",
            );
            return Ok(None);
        }
        Ok(Some(Self { fleet, hosts, schemas, cx }))
    }

    /// Returns the reply of the first host that answers. `None` if none answers, which is printed.
    pub async fn ask_first_host<A: Action<Agent = ProvisionerAgent>>(
        &self,
        input: &A::Input,
    ) -> Result<Option<NodeReply>> {
        let plan = self.schemas.plan::<A>(input)?;
        let progress = ProgressReporter::new(self.cx.printer, false);
        let mut last_report = RequestReport::empty(ProvisionerAgent::NAME, A::NAME);
        for host in &self.hosts {
            let report = ask_node(&self.fleet, &plan, host, &progress).await?;
            match report.replies.first() {
                Some(reply) => return Ok(Some(reply.clone())),
                None => last_report = report,
            }
        }
        self.cx.warn_of_gaps(&last_report);
        self.cx.printer.print_error("no provisioning host replied");
        Ok(None)
    }
}
