//! Renders the scheduled checks of the fleet: a table with totals, names, or a document. Texts of nodes are escaped.

use std::fmt::Write as _;

use muster_contract::nrpe::{CheckCounts, CheckState};
use muster_display::{TextPage, count_text, node_count_text};
use muster_operations::check::{FleetCheck, FleetCheckList};
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::commands::checks::args::{CheckListArgs, ListedState};
use crate::report::check_rows::{FleetCheckRow, checks_table};

/// The document of `rpc checks -j`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FleetChecksDocument<'a> {
    schema: &'static str,
    /// `directory` or `nodes`.
    source: &'static str,
    /// Whether the directory is up to date.
    current: bool,
    /// The state of all checks together, without problems that are acknowledged or in maintenance.
    state: CheckState,
    /// Numbers of all checks by hard state.
    counts: CheckCounts,
    /// Checks that are not listed, because records have a limit.
    omitted: usize,
    /// Nodes that are missing or did not reply.
    missing: Vec<&'a str>,
    /// The checks that the options select.
    checks: Vec<FleetCheckRow<'a>>,
    #[serde(skip)]
    all: &'a [FleetCheck],
}

impl<'a> FleetChecksDocument<'a> {
    pub fn new(list: &'a FleetCheckList, source: &'static str, args: &CheckListArgs) -> Self {
        let selected = list.checks.iter().filter(|check| is_selected(check, args));
        Self {
            schema: "muster.checks.v1",
            source,
            current: list.current,
            state: list.overall_state(),
            counts: list.counts(),
            omitted: list.omitted,
            missing: list.missing.iter().map(Identity::as_str).collect(),
            checks: selected.map(FleetCheckRow::new).collect(),
            all: &list.checks,
        }
    }
}

fn is_selected(check: &FleetCheck, args: &CheckListArgs) -> bool {
    if args.all {
        return true;
    }
    if args.state.is_empty() {
        return check.is_problem();
    }
    args.state.iter().any(|state| match state {
        ListedState::Ok => check.state == Some(CheckState::Ok),
        ListedState::Warning => check.state == Some(CheckState::Warning),
        ListedState::Critical => check.state == Some(CheckState::Critical),
        ListedState::Unknown => check.state == Some(CheckState::Unknown),
        ListedState::NotChecked => check.state.is_none(),
        ListedState::Missing => check.node_missing,
    })
}

/// `is_wide` shows whole outputs.
pub fn render_checks_table(
    document: &FleetChecksDocument<'_>,
    now: u64,
    width: usize,
    is_wide: bool,
) -> String {
    let mut table = checks_table(&document.checks, now);
    table.max_lines((!is_wide).then_some(2)).render_rows(width)
}

/// The names of the nodes and checks, one pair per line.
pub fn render_check_names(document: &FleetChecksDocument<'_>) -> String {
    let lines = document.checks.iter().map(|row| format!("{} {}", row.node, row.check));
    lines.collect::<TextPage>().into_text()
}

/// The line with numbers, and the nodes that are missing.
pub fn render_checks_totals(document: &FleetChecksDocument<'_>) -> String {
    let CheckCounts { ok, warning, critical, unknown, not_checked } = document.counts;
    let nodes: std::collections::BTreeSet<&str> =
        document.all.iter().map(|check| check.node.as_str()).collect();
    let mut line = format!(
        "{} on {}: {critical} CRITICAL, {unknown} UNKNOWN, {warning} WARNING, {ok} OK, {not_checked} not checked",
        count_text(document.all.len(), "check", "checks"),
        node_count_text(nodes.len())
    );
    let count =
        |is_set: fn(&FleetCheck) -> bool| document.all.iter().filter(|check| is_set(check)).count();
    let mut separator = "; ";
    for (name, count) in [
        ("acknowledged", count(|check| check.acknowledged)),
        ("in maintenance", count(|check| check.maintenance)),
        ("flapping", count(|check| check.flapping)),
        ("late", count(|check| check.overdue)),
    ] {
        if count > 0 {
            let _ = write!(line, "{separator}{count} {name}");
            separator = ", ";
        }
    }
    let mut page = TextPage::from_iter([line]);
    if document.omitted > 0 {
        let omitted = document.omitted;
        page.push_line(format_args!("{omitted} more are in no record; --live shows them"));
    }
    if !document.missing.is_empty() {
        page.push_line(format_args!("missing: {}", document.missing.join(", ")));
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use muster_contract::nrpe::CheckState;
    use muster_operations::check::{FleetCheck, FleetCheckList};

    use super::{
        FleetChecksDocument, render_check_names, render_checks_table, render_checks_totals,
    };
    use crate::commands::checks::args::CheckListArgs;
    use crate::report::testing::WIDTH;
    use crate::report::testing::plain;

    #[derive(Parser)]
    struct ListLine {
        #[command(flatten)]
        list: CheckListArgs,
    }

    fn options(line: &str) -> CheckListArgs {
        let words = std::iter::once("x").chain(line.split_whitespace());
        ListLine::try_parse_from(words).unwrap().list
    }

    fn check(node: &str, check: &str, state: Option<CheckState>, output: &str) -> FleetCheck {
        FleetCheck {
            node: node.parse().unwrap(),
            check: check.to_owned(),
            state,
            since: Some(1_780_000_000),
            attempt: 1,
            max_attempts: 3,
            acknowledged: false,
            maintenance: false,
            flapping: false,
            overdue: false,
            node_missing: false,
            output: output.to_owned(),
            perfdata: String::new(),
        }
    }

    fn list() -> FleetCheckList {
        let hostile = "CRITICAL\u{1b}[2J\u{202e} - 1 MB\nleft";
        let critical = FleetCheck {
            attempt: 3,
            acknowledged: true,
            flapping: true,
            ..check("db1.example.net", "disk", Some(CheckState::Critical), hostile)
        };
        let gone = FleetCheck {
            node_missing: true,
            ..check("db2.example.net", "load", Some(CheckState::Ok), "fine")
        };
        let fresh = check("web1.example.net", "load", None, "");
        let warning = check("web1.example.net", "users", Some(CheckState::Warning), "7 users");
        FleetCheckList {
            checks: vec![critical, gone, fresh, warning],
            missing: ["db2.example.net".parse().unwrap()].into(),
            omitted: 2,
            current: true,
        }
    }

    #[test]
    fn table_has_problems_and_totals_have_all() {
        let list = list();
        let mut texts = Vec::new();
        for line in ["", "--all", "--state not-checked,critical"] {
            let args = options(line);
            let document = FleetChecksDocument::new(&list, "directory", &args);
            texts.push(render_checks_table(&document, 1_780_003_600, WIDTH, false));
            texts.push(render_check_names(&document));
        }
        let args = options("");
        texts.push(render_checks_totals(&FleetChecksDocument::new(&list, "directory", &args)));
        let text = plain(&texts.join("\n"));
        assert!(!text.chars().any(|c| c != '\n' && muster_base::is_harmful(c)), "{text}");
        insta::assert_snapshot!("checks", text);
    }
}
