//! Requests that no saved job has, such as those of other users: what the history of the fleet knows of them.

use std::collections::{BTreeMap, BTreeSet};

use muster_base::NodeText;
use muster_client::FleetConnection;
use muster_client::documents::ServiceDocument;
use muster_client::jobs::{RequestOutcome, SavedJobError};
use muster_contract::history::{
    HistoryKind, HistoryQuery, HistoryQueryInput, HistoryQueryOutput, HistoryRow, MAX_HISTORY_ROWS,
};
use muster_display::printer::{BAD, STRONG, highlight_code};
use muster_display::time::format_time_millis;
use muster_display::{TextPage, count_text, node_count_text};
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;

use crate::commands::job::args::JobShowArgs;
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Shortest beginning of an id that is looked for in the history.
const MIN_ID_LENGTH: usize = 8;
/// The status of a request that a node executed.
const EXECUTED: &str = "executed";
/// The status of a request that a node has begun to execute.
const STARTED: &str = "started";

/// A request, as the nodes reported it.
pub struct PastRequest {
    pub id: String,
    pub agent: String,
    pub action: String,
    found: HistoryQueryOutput,
}

impl PastRequest {
    /// The request with this id, or whose id begins so.
    ///
    /// # Errors
    /// [`SavedJobError::Unknown`], if the text is no such id, or no node has reported the request; [`SavedJobError::Ambiguous`], if it is one of several.
    pub async fn find(id: &str, fleet: &FleetConnection) -> Result<Self> {
        let mut input = HistoryQueryInput {
            request: Some(id.to_owned()),
            limit: Some(MAX_HISTORY_ROWS),
            ..HistoryQueryInput::default()
        };
        let mut found = HistoryQueryOutput::default();
        loop {
            let page =
                fleet.client.call_service::<HistoryQuery>(ServiceRight::History, &input).await?;
            found.rows.extend(page.rows);
            input.after = page.next;
            if input.after.is_none() {
                break;
            }
        }
        let ids = found.rows.iter().filter_map(|row| row.request.as_ref());
        let ids: BTreeSet<String> = ids.map(|id| id.line().into_owned()).collect();
        let mut ids: Vec<String> = ids.into_iter().collect();
        match (ids.pop(), ids.is_empty()) {
            (Some(request), true) => {
                let agent = first_text(&found, |row| row.agent.as_ref());
                let action = first_text(&found, |row| row.action.as_ref());
                Ok(Self { id: request, agent, action, found })
            }
            (Some(last), false) => {
                ids.push(last);
                Err(SavedJobError::Ambiguous { given: id.to_owned(), found: ids }.into())
            }
            (None, _) => Err(SavedJobError::Unknown(id.to_owned()).into()),
        }
    }

    /// The nodes where it changed something.
    pub fn changed_nodes(&self) -> BTreeSet<Identity> {
        let changes = self.rows(HistoryKind::Change).filter(|row| row.status.line() == "success");
        changes.filter_map(|row| Identity::parse(&row.node).ok()).collect()
    }

    /// What each node decided about it.
    fn decisions(&self) -> BTreeMap<&str, &HistoryRow> {
        self.rows(HistoryKind::Request).map(|row| (&*row.node, row)).collect()
    }

    fn rows(&self, kind: HistoryKind) -> impl Iterator<Item = &HistoryRow> {
        self.found.rows.iter().filter(move |row| row.kind.line() == kind.as_str())
    }

    fn outcome(&self) -> RequestOutcome {
        let decisions = self.decisions();
        let count =
            |status: &str| decisions.values().filter(|row| row.status.line() == status).count();
        RequestOutcome::of_nodes(decisions.len(), count(EXECUTED), count(STARTED))
    }

    fn render(&self) -> String {
        let text = |value| first_text(&self.found, value);
        let moments = || self.found.rows.iter().map(|row| row.time);
        let decisions = self.decisions();
        let (properties, nodes) =
            (self.rows(HistoryKind::Change).count(), self.changed_nodes().len());
        let changes = format!(
            "{} on {}",
            count_text(properties, "resource property", "resource properties"),
            node_count_text(nodes)
        );
        let fields = [
            ("Request", self.id.clone()),
            ("User", text(|row| row.who.as_ref())),
            ("Approved by", text(|row| row.approver.as_ref())),
            ("Schedule", text(|row| row.schedule.as_ref())),
            ("Action", format!("{} {}", self.agent, self.action)),
            ("Inputs", text(|row| row.message.as_ref().filter(|_| row.resource.is_none()))),
            ("First report", moments().min().map(format_time_millis).unwrap_or_default()),
            ("Last report", moments().max().map(format_time_millis).unwrap_or_default()),
            ("Nodes", status_counts(&decisions)),
            ("Changes", if nodes > 0 { changes } else { String::new() }),
        ];
        let mut page = TextPage::default();
        page.push_fields(14, fields.into_iter().filter(|(_, text)| !text.is_empty()));
        let mut bad = decisions.values().filter(|row| row.status.line() != EXECUTED).peekable();
        if bad.peek().is_some() {
            page.push_gap();
            page.push_heading(format_args!("{BAD}Failed:{BAD:#}"));
        }
        for row in bad {
            let message = row.message.as_ref().map(|text| text.line().into_owned());
            let (node, status) = (&row.node, row.status.line());
            page.push_line(format_args!(
                "   {STRONG}{node}{STRONG:#}: {status} {}",
                message.unwrap_or_default()
            ));
        }
        page.into_text()
    }
}

/// The value of the newest row that has it.
fn first_text(found: &HistoryQueryOutput, value: fn(&HistoryRow) -> Option<&NodeText>) -> String {
    let text = found.rows.iter().find_map(value);
    text.map(|text| text.line().into_owned()).unwrap_or_default()
}

/// How many nodes decided how: `12 (10 executed, 2 denied)`.
fn status_counts(decisions: &BTreeMap<&str, &HistoryRow>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in decisions.values() {
        *counts.entry(row.status.line().into_owned()).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    format!("{} ({})", decisions.len(), counts.join(", "))
}

/// Whether a text may be the beginning of a request's id. Ids of jobs have digits and hyphens, too.
pub fn may_be_request(id: &str) -> bool {
    id.len() >= MIN_ID_LENGTH && id.chars().all(|char| char.is_ascii_hexdigit() || char == '-')
}

/// `rpc job show` for a request that is in no saved job.
pub async fn show(args: &JobShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let fleet = connect_to_services(None, cx).await?;
    let request = PastRequest::find(&args.job, &fleet).await?;
    let document = ServiceDocument { schema: "muster.history.v1", output: &request.found };
    cx.print_result(json.as_ref(), &document, || request.render())?;
    let command = format!("rpc history request {}", request.id);
    cx.printer.print_message(format_args!(
        "no saved job has this request; this is what the nodes reported, each change with {}",
        highlight_code(&command)
    ));
    Ok(CommandExitCode::from(request.outcome()))
}
