//! The hosts that run the provisioning service, asked one at a time: all of them know the same.

use std::collections::BTreeSet;

use muster_client::DataStore;
use muster_wire::identity::Identity;

use crate::ask::{AskError, Fleet, Found, Progress, Schemas, Target};
use crate::cli::filters::Filters;
use crate::commands::context::Context;
use crate::commands::inquiry;
use crate::error::Error;
use crate::report::{Reply, Report};

/// The agent of the service.
const AGENT: &str = "provisioner";

/// A connection, and the hosts that run the service.
pub struct Service<'a> {
    fleet: Fleet,
    hosts: BTreeSet<Identity>,
    schemas: Schemas,
    cx: Context<'a>,
}

impl<'a> Service<'a> {
    /// Finds the hosts; `None` when there are none.
    pub async fn find(cx: Context<'a>) -> Result<Option<Self>, Error> {
        let data = DataStore::load(None).map_err(AskError::from)?;
        let target = Target::read(&Filters::default(), &data)?.with_agent(AGENT)?;
        let settings = cx.settings()?;
        let schemas = cx.schemas(Some(&settings))?;
        let fleet = Fleet::connect(&settings, &target).await?;
        let progress = Progress::new(cx.printer, false);
        let hosts = fleet.discover(&target, &progress).await?.nodes;
        if hosts.is_empty() {
            cx.printer.error(
                "no host runs the provisioning service: enable it in [plugins.provisioner] of one",
            );
            return Ok(None);
        }
        Ok(Some(Self {
            fleet,
            hosts,
            schemas,
            cx,
        }))
    }

    /// Asks the first host that answers; without an answer the last report says why.
    pub async fn ask(
        &self,
        action: &str,
        inputs: &[(&str, &str)],
    ) -> Result<Result<Reply, Report>, Error> {
        let inputs = inputs.iter();
        let inputs = inputs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let plan = inquiry::plan_of(&self.schemas, (AGENT, action), inputs.collect())?;
        let progress = Progress::new(self.cx.printer, false);
        let mut silent = Report::nothing(AGENT, action);
        for host in &self.hosts {
            let found = Found::named([host.clone()].into());
            let report = inquiry::ask(&self.fleet, &plan, found, &progress).await?;
            match report.replies.first() {
                Some(reply) => return Ok(Ok(reply.clone())),
                None => silent = report,
            }
        }
        Ok(Err(silent))
    }
}
