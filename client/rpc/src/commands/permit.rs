//! `rpc permit`: who holds the pools of run permits, and taking permits away.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{Amount, choose};

use super::context::Context;
use super::form::{self, JsonForm};
use super::request::nobody_found;
use super::{inquiry, request};
use crate::ask::{AskError, Fleet, Found, Progress, agreed, is_terminal};
use crate::cli::approval::Approval;
use crate::cli::errand::Errand;
use crate::cli::filters::{Conditions, Filters};
use crate::cli::output::Output;
use crate::cli::pace::Pace;
use crate::cli::permit::{List, Permit, Release, Show};
use crate::cli::request::Request;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::permit::{Document, Pool, list, pools, question, show};
use crate::report::Report;

/// The agent that is asked.
const AGENT: &str = "permit";
/// All nodes see the same pools: so many are asked, one after the other, until one tells.
const TRIES: usize = 3;

/// Runs one of the commands.
pub async fn run(command: Permit, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Permit::List(List {
            pool,
            json,
            filters,
        }) => {
            let json = form::json(&json)?;
            let seen = look(pool.as_deref(), &filters, json.is_none(), cx).await?;
            seen.print(json.as_ref(), list, cx)
        }
        Permit::Show(Show {
            pool,
            json,
            filters,
        }) => {
            let json = form::json(&json)?;
            let seen = look(Some(&pool), &filters, json.is_none(), cx).await?;
            seen.print(json.as_ref(), show, cx)
        }
        Permit::Release(args) => release(args, cx).await,
    }
}

/// What a node told of pools.
struct Seen {
    report: Report,
    pools: Vec<Pool>,
}

/// Asks one node; another one where that does not tell.
async fn look(
    pool: Option<&str>,
    filters: &Filters,
    shown: bool,
    cx: Context<'_>,
) -> Result<Seen, Error> {
    let target = cx.target(filters)?.with_agent(AGENT)?;
    let settings = cx.settings()?;
    let schemas = cx.schemas(Some(&settings))?;
    let inputs = pool.map(|pool| ("pool".to_owned(), pool.to_owned()));
    let plan = inquiry::plan_of(&schemas, (AGENT, "list"), inputs.into_iter().collect())?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, shown);
    let found = fleet.discover(&target, &progress).await?;
    let mut report = Report::nothing(AGENT, "list");
    if found.nodes.is_empty() {
        nobody_found(&target, cx);
    }
    for node in choose(&found.nodes, Amount::Count(TRIES), None) {
        let one = Found::named(BTreeSet::from([node]));
        report = inquiry::ask(&fleet, &plan, one, &progress).await?;
        if report.stats.ok > 0 {
            break;
        }
    }
    for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
        let (node, why) = (&reply.node, crate::render::printable::line(&reply.message));
        cx.printer.error(format_args!("{node}: {why}"));
    }
    let pools = pools(&report);
    Ok(Seen { report, pools })
}

impl Seen {
    fn print(
        &self,
        json: Option<&JsonForm>,
        draw: fn(&[Pool], usize) -> String,
        cx: Context<'_>,
    ) -> Result<Exit, Error> {
        let exit = self.report.stats.exit();
        if let Some(json) = json {
            cx.json(&Document::new(&self.pools, &self.report), json)?;
        } else if exit == Exit::Passed {
            if self.pools.is_empty() {
                cx.printer.say("nobody holds a permit or waits for one");
            }
            cx.printer
                .text(draw(&self.pools, cx.printer.screen().width))?;
        }
        cx.warn_of_gaps(&self.report);
        Ok(exit)
    }
}

/// Takes permits away, after it was asked whether what runs under them shall be stopped.
async fn release(args: Release, cx: Context<'_>) -> Result<Exit, Error> {
    let filters = Filters {
        conditions: Conditions {
            identities: args.nodes.clone(),
            ..Conditions::default()
        },
        ..Filters::default()
    };
    if !args.yes {
        let seen = look(Some(&args.pool), &Filters::default(), false, cx).await?;
        let holders = seen.pools.iter().flat_map(Pool::holders);
        let live: Vec<_> = holders
            .filter(|holder| args.nodes.iter().any(|node| node == holder.node()))
            .collect();
        if !live.is_empty() && !is_terminal() {
            let nodes = live.iter().map(|holder| holder.node().to_owned());
            return Err(AskError::LiveHolders {
                pool: args.pool,
                nodes: nodes.collect(),
            }
            .into());
        }
        if !live.is_empty() && !agreed(&question(&args.pool, &live), cx.printer).await? {
            return Err(AskError::Declined.into());
        }
    }
    let request = Request {
        agent: Some(AGENT.to_owned()),
        words: vec!["release".to_owned(), format!("pool={}", args.pool)],
        timeout: None,
        ttl: Duration::from_mins(1),
        output: Output {
            json: args.json.json,
            jq: args.json.jq,
            ..Output::default()
        },
        approval: Approval {
            propose: None,
            lifetime: Duration::from_hours(1),
            approve: None,
        },
        errand: Errand {
            yes: true,
            ..Errand::default()
        },
        pace: Pace::default(),
        filters,
        bare: false,
        help: false,
    };
    Box::pin(request::run(request, cx)).await
}
