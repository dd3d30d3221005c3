//! What the nodes answer to `rpcutil diagnose`, judged: clocks, doubles, versions, and what they find wrong with themselves.

use std::collections::{BTreeMap, BTreeSet};

use muster_client::Answer;
use muster_wire::identity::Identity;
use muster_wire::status::Reason;
use serde_json::Value;

use super::{Finding, Level, Section};
use crate::ask::{RollCall, Schemas};
use crate::render::ping::Pong;

/// Clocks that differ by less are nothing to speak of, in milliseconds.
const NOTABLE_SKEW: u64 = 1000;
/// What differs by more is refused by nodes as they are configured by default, in milliseconds.
const REFUSED_SKEW: u64 = 30_000;

/// What the roll call shows. `schemas` are the DDLs that this side has.
pub fn section(call: &RollCall, schemas: &Schemas) -> Section {
    let answers = &call.answers;
    let mut findings = Vec::new();
    findings.extend(clocks(call));
    findings.extend(doubles(&call.twice));
    findings.extend(disbelieved(&call.disbelieved));
    findings.extend(versions(answers));
    findings.extend(ddls(answers, schemas));
    findings.extend(sandboxes(answers));
    findings.extend(own_words(answers));
    findings.extend(refusals(answers));
    if call.incomplete {
        findings.push(
            Finding::warning(
                "gaps",
                "answers may have been lost on the way; there may be more nodes",
            )
            .advising("ask again; if it stays, look at the broker's log for slow consumers"),
        );
    }
    Section {
        about: format!(
            "Fleet: {} {}",
            answers.len(),
            if answers.len() == 1 { "node" } else { "nodes" }
        ),
        here: false,
        findings,
    }
}

fn clocks(call: &RollCall) -> Vec<Finding> {
    let mut off: BTreeMap<Level, (BTreeSet<Identity>, u64)> = BTreeMap::new();
    for (answer, arrived) in call.answers.iter().zip(&call.arrived) {
        let reply = &answer.reply;
        let skew = Pong::new(reply.sender.clone(), answer.after, reply.time, *arrived)
            .skew
            .unsigned_abs();
        let level = match skew {
            0..NOTABLE_SKEW => continue,
            NOTABLE_SKEW..REFUSED_SKEW => Level::Warning,
            _ => Level::Error,
        };
        let (nodes, most) = off.entry(level).or_default();
        nodes.insert(reply.sender.clone());
        *most = skew.max(*most);
    }
    if off.is_empty() && !call.answers.is_empty() {
        return vec![Finding::ok("clocks", "all within 1 s of this one")];
    }
    let told = off.into_iter().map(|(level, (nodes, most))| {
        let seconds = std::time::Duration::from_millis(most).as_secs_f64();
        Finding::new(
            "clocks",
            level,
            format!("up to {seconds:.1} s away from this one"),
        )
        .advising("run NTP or chrony there, or here")
        .about(nodes)
    });
    told.collect()
}

fn doubles(twice: &BTreeMap<Identity, usize>) -> Option<Finding> {
    let nodes: Vec<Identity> = twice.keys().cloned().collect();
    (!nodes.is_empty()).then(|| {
        Finding::error(
            "identities",
            "more than one daemon answers under the same name",
        )
        .advising("stop the copy, and give it credentials of its own: `rpc org add node NAME`")
        .about(nodes)
    })
}

fn disbelieved(words: &BTreeMap<&'static str, usize>) -> Vec<Finding> {
    let told = words.iter().map(|(word, count)| {
        Finding::error("signatures", format!("{count} answers were not believed ({word})"))
            .advising("somebody answers who is not of this organisation, or with credentials that were revoked")
    });
    told.collect()
}

/// The values of one kind that nodes have, and who has them.
type Spread<'a> = BTreeMap<&'a str, BTreeSet<Identity>>;

fn versions(answers: &[Answer]) -> Option<Finding> {
    let mut spread = Spread::new();
    for answer in answers {
        if let Some(version) = answer.reply.data.get("version").and_then(Value::as_str) {
            spread
                .entry(version)
                .or_default()
                .insert(answer.reply.sender.clone());
        }
    }
    match spread.len() {
        0 => None,
        1 => spread
            .keys()
            .next()
            .map(|version| Finding::ok("versions", format!("all run rpcd {version}"))),
        _ => Some(Finding::warning(
            "versions",
            format!("nodes run different rpcd: {}", counted(&spread)),
        )),
    }
}

/// Agents whose DDL is another one here, or differs between nodes.
fn ddls(answers: &[Answer], schemas: &Schemas) -> Vec<Finding> {
    let mut agents: BTreeMap<&str, Spread<'_>> = BTreeMap::new();
    for answer in answers {
        let known = answer.reply.data.get("agents").and_then(Value::as_object);
        for (agent, version) in known.into_iter().flatten() {
            let version = version.as_str().unwrap_or_default();
            let spread = agents.entry(agent).or_default();
            spread
                .entry(version)
                .or_default()
                .insert(answer.reply.sender.clone());
        }
    }
    let mut findings = Vec::new();
    for (agent, spread) in &agents {
        let here = schemas
            .agent(agent)
            .ok()
            .map(|ddl| ddl.metadata().version.clone());
        let others = spread
            .iter()
            .filter(|(version, _)| here.as_deref().is_some_and(|here| here != **version));
        let others: BTreeSet<Identity> = others.flat_map(|(_, nodes)| nodes.clone()).collect();
        if !others.is_empty() {
            let here = here.unwrap_or_default();
            let message = format!(
                "agent {agent}: this side has {here}, nodes have {}",
                counted(spread)
            );
            findings.push(
                Finding::warning("ddls", message)
                    .advising("bring both to one version")
                    .about(others),
            );
        } else if spread.len() > 1 {
            let message = format!("agent {agent} differs between nodes: {}", counted(spread));
            findings.push(Finding::warning("ddls", message));
        }
    }
    if findings.is_empty() && !agents.is_empty() {
        let count = agents.len();
        findings.push(Finding::ok(
            "ddls",
            format!("{count} agents, of one version everywhere"),
        ));
    }
    findings
}

fn counted(spread: &Spread<'_>) -> String {
    let told = spread
        .iter()
        .map(|(value, nodes)| format!("{value} ({})", nodes.len()));
    told.collect::<Vec<_>>().join(", ")
}

/// What external agents are held to; the same only once.
fn sandboxes(answers: &[Answer]) -> Vec<Finding> {
    let mut held: BTreeMap<(&str, &str), BTreeSet<Identity>> = BTreeMap::new();
    for answer in answers {
        let agents = answer.reply.data.get("sandbox").and_then(Value::as_object);
        for (agent, words) in agents.into_iter().flatten() {
            let key = (agent.as_str(), words.as_str().unwrap_or_default());
            held.entry(key)
                .or_default()
                .insert(answer.reply.sender.clone());
        }
    }
    held.into_iter()
        .map(|((agent, words), nodes)| {
            Finding::ok("sandbox", format!("agent {agent}: {words}")).about(nodes)
        })
        .collect()
}

/// What nodes find wrong with themselves; the same words only once.
fn own_words(answers: &[Answer]) -> Vec<Finding> {
    let mut said: BTreeMap<(Level, String, String), BTreeSet<Identity>> = BTreeMap::new();
    for answer in answers {
        let findings = answer.reply.data.get("findings").and_then(Value::as_array);
        for finding in findings.into_iter().flatten() {
            let text = |key| finding.get(key).and_then(Value::as_str).unwrap_or_default();
            let level = if text("level") == "error" {
                Level::Error
            } else {
                Level::Warning
            };
            let key = (level, text("check").to_owned(), text("message").to_owned());
            said.entry(key)
                .or_default()
                .insert(answer.reply.sender.clone());
        }
    }
    let worst_first = said.into_iter().rev();
    worst_first
        .map(|((level, check, message), nodes)| Finding::new(check, level, message).about(nodes))
        .collect()
}

/// Nodes that would not say.
fn refusals(answers: &[Answer]) -> Vec<Finding> {
    let mut said: BTreeMap<String, BTreeSet<Identity>> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| !answer.is_ok()) {
        let reply = &answer.reply;
        let why = match &reply.reason {
            Some(Reason::Denied { rule }) => format!("may not be asked for a diagnosis: {rule}"),
            _ => format!("cannot be asked for a diagnosis: {}", reply.statusmsg),
        };
        said.entry(why).or_default().insert(reply.sender.clone());
    }
    let told = said
        .into_iter()
        .map(|(why, nodes)| Finding::warning("answers", why).about(nodes));
    told.collect()
}
