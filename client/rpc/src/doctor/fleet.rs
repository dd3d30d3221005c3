//! Evaluates the replies to `rpcutil diagnose`: clocks, duplicates, versions, and problems that nodes report about themselves.

use std::collections::{BTreeMap, BTreeSet};

use muster_client::ReceivedReply;
use muster_contract::read_values;
use muster_contract::rpcutil::RpcutilDiagnoseOutput;
use muster_request::{AgentSchemas, RollCall};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;

use super::{DiagnosisFinding, DiagnosisLevel, DiagnosisSection};

/// Clock differences below this are not reported, in milliseconds.
const NOTABLE_SKEW_MS: u64 = 1000;
/// Clock differences above this are rejected by nodes in their default configuration, in milliseconds.
const REFUSED_SKEW_MS: u64 = 30_000;

/// Evaluates the roll call. `schemas` are the local DDLs.
pub fn fleet_section(call: &RollCall, schemas: &AgentSchemas) -> DiagnosisSection {
    let answers = &call.answers;
    let diagnoses: Vec<Diagnosis<'_>> = answers.iter().map(read_diagnosis).collect();
    let mut findings = Vec::new();
    findings.extend(clock_findings(call));
    findings.extend(duplicate_finding(&call.duplicates));
    findings.extend(signature_findings(&call.rejected));
    findings.extend(version_finding(&diagnoses));
    findings.extend(ddl_findings(&diagnoses, schemas));
    findings.extend(sandbox_findings(&diagnoses));
    findings.extend(self_reported_findings(&diagnoses));
    findings.extend(refusal_findings(answers));
    if call.incomplete {
        findings.push(
            DiagnosisFinding::warning(
                "gaps",
                "replies may have been lost in transit; there may be more nodes",
            )
            .with_advice("run it again; if it recurs, check the broker's log for slow consumers"),
        );
    }
    DiagnosisSection {
        about: format!(
            "Fleet: {} {}",
            answers.len(),
            if answers.len() == 1 { "node" } else { "nodes" }
        ),
        is_local: false,
        findings,
    }
}

/// A node and its outputs of `diagnose`; empty ones if it refused.
type Diagnosis<'a> = (&'a Identity, RpcutilDiagnoseOutput);

fn read_diagnosis(answer: &ReceivedReply) -> Diagnosis<'_> {
    let reply = &answer.reply;
    (&reply.sender, read_values(&reply.data).unwrap_or_default())
}

fn clock_findings(call: &RollCall) -> Vec<DiagnosisFinding> {
    let mut nodes_by_level: BTreeMap<DiagnosisLevel, (BTreeSet<Identity>, u64)> = BTreeMap::new();
    for (answer, skew) in call.answers.iter().zip(&call.skews) {
        let skew = skew.unsigned_abs();
        let level = match skew {
            0..NOTABLE_SKEW_MS => continue,
            NOTABLE_SKEW_MS..REFUSED_SKEW_MS => DiagnosisLevel::Warning,
            _ => DiagnosisLevel::Error,
        };
        let (nodes, max_skew) = nodes_by_level.entry(level).or_default();
        nodes.insert(answer.reply.sender.clone());
        *max_skew = skew.max(*max_skew);
    }
    if nodes_by_level.is_empty() && !call.answers.is_empty() {
        return vec![DiagnosisFinding::ok("clocks", "all within 1 s of the local clock")];
    }
    let findings = nodes_by_level.into_iter().map(|(level, (nodes, max_skew))| {
        let seconds = std::time::Duration::from_millis(max_skew).as_secs_f64();
        DiagnosisFinding::new("clocks", level, format!("up to {seconds:.1} s off the local clock"))
            .with_advice("run NTP or chrony on these nodes, or on this machine")
            .with_nodes(nodes)
    });
    findings.collect()
}

fn duplicate_finding(duplicates: &BTreeMap<Identity, usize>) -> Option<DiagnosisFinding> {
    let nodes: Vec<Identity> = duplicates.keys().cloned().collect();
    (!nodes.is_empty()).then(|| {
        DiagnosisFinding::error("identities", "more than one daemon replies under the same name")
            .with_advice("stop the copy, and issue credentials of its own: `rpc org add node NAME`")
            .with_nodes(nodes)
    })
}

fn signature_findings(rejected: &BTreeMap<&'static str, usize>) -> Vec<DiagnosisFinding> {
    let findings = rejected.iter().map(|(reason, count)| {
        DiagnosisFinding::error(
            "signatures",
            format!("{count} replies failed verification ({reason})"),
        )
        .with_advice("check for senders of another organisation, or with revoked credentials")
    });
    findings.collect()
}

/// Nodes by the value of one property.
type NodesByValue<'a> = BTreeMap<&'a str, BTreeSet<Identity>>;

fn version_finding(diagnoses: &[Diagnosis<'_>]) -> Option<DiagnosisFinding> {
    let mut nodes_by_version = NodesByValue::new();
    for (node, diagnosis) in diagnoses {
        if let Some(version) = &diagnosis.version {
            let nodes = nodes_by_version.entry(version).or_default();
            nodes.insert((*node).clone());
        }
    }
    match nodes_by_version.len() {
        0 => None,
        1 => nodes_by_version
            .keys()
            .next()
            .map(|version| DiagnosisFinding::ok("versions", format!("all run rpcd {version}"))),
        _ => Some(DiagnosisFinding::warning(
            "versions",
            format!("different rpcd versions: {}", count_values(&nodes_by_version)),
        )),
    }
}

/// Agents whose DDL differs from the local one, or between nodes.
fn ddl_findings(diagnoses: &[Diagnosis<'_>], schemas: &AgentSchemas) -> Vec<DiagnosisFinding> {
    let mut agents: BTreeMap<&str, NodesByValue<'_>> = BTreeMap::new();
    for (node, diagnosis) in diagnoses {
        for (agent, version) in &diagnosis.agents {
            let nodes_by_version = agents.entry(agent).or_default();
            let nodes = nodes_by_version.entry(version).or_default();
            nodes.insert((*node).clone());
        }
    }
    let mut findings = Vec::new();
    for (agent, nodes_by_version) in &agents {
        let local_version =
            schemas.find_agent(agent).ok().map(|ddl| ddl.metadata().version.clone());
        let others = nodes_by_version.iter().filter(|(version, _)| {
            local_version.as_deref().is_some_and(|local| local != **version)
        });
        let others: BTreeSet<Identity> = others.flat_map(|(_, nodes)| nodes.clone()).collect();
        if !others.is_empty() {
            let local_version = local_version.unwrap_or_default();
            let message = format!(
                "agent {agent}: the local DDL has version {local_version}, nodes have {}",
                count_values(nodes_by_version)
            );
            findings.push(
                DiagnosisFinding::warning("ddls", message)
                    .with_advice("install the same version on both sides")
                    .with_nodes(others),
            );
        } else if nodes_by_version.len() > 1 {
            let message =
                format!("agent {agent} differs between nodes: {}", count_values(nodes_by_version));
            findings.push(DiagnosisFinding::warning("ddls", message));
        }
    }
    if findings.is_empty() && !agents.is_empty() {
        let count = agents.len();
        findings.push(DiagnosisFinding::ok(
            "ddls",
            format!("{count} agents, each with the same version on all nodes"),
        ));
    }
    findings
}

fn count_values(nodes_by_value: &NodesByValue<'_>) -> String {
    let counts = nodes_by_value.iter().map(|(value, nodes)| format!("{value} ({})", nodes.len()));
    counts.collect::<Vec<_>>().join(", ")
}

/// Sandbox settings of external agents; equal texts are merged.
fn sandbox_findings(diagnoses: &[Diagnosis<'_>]) -> Vec<DiagnosisFinding> {
    let mut nodes_by_text: BTreeMap<(&str, &str), BTreeSet<Identity>> = BTreeMap::new();
    for (node, diagnosis) in diagnoses {
        for (agent, text) in &diagnosis.sandbox {
            let nodes = nodes_by_text.entry((agent, text)).or_default();
            nodes.insert((*node).clone());
        }
    }
    nodes_by_text
        .into_iter()
        .map(|((agent, text), nodes)| {
            DiagnosisFinding::ok("sandbox", format!("agent {agent}: {text}")).with_nodes(nodes)
        })
        .collect()
}

/// Problems that nodes report about themselves; equal texts are merged.
fn self_reported_findings(diagnoses: &[Diagnosis<'_>]) -> Vec<DiagnosisFinding> {
    let mut nodes_by_finding: BTreeMap<(DiagnosisLevel, String, String), BTreeSet<Identity>> =
        BTreeMap::new();
    for (node, diagnosis) in diagnoses {
        for finding in &diagnosis.findings {
            let level = if finding.level == "error" {
                DiagnosisLevel::Error
            } else {
                DiagnosisLevel::Warning
            };
            let key = (level, finding.check.clone(), finding.message.clone());
            nodes_by_finding.entry(key).or_default().insert((*node).clone());
        }
    }
    let worst_first = nodes_by_finding.into_iter().rev();
    worst_first
        .map(|((level, check, message), nodes)| {
            DiagnosisFinding::new(check, level, message).with_nodes(nodes)
        })
        .collect()
}

/// Nodes that rejected the request.
fn refusal_findings(answers: &[ReceivedReply]) -> Vec<DiagnosisFinding> {
    let mut nodes_by_reason: BTreeMap<String, BTreeSet<Identity>> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| !answer.is_ok()) {
        let reply = &answer.reply;
        let reason = match &reply.reason {
            Some(ReplyReason::Denied { rule }) => {
                format!("diagnosis denied: {rule}")
            }
            _ => format!("diagnosis failed: {}", reply.statusmsg),
        };
        nodes_by_reason.entry(reason).or_default().insert(reply.sender.clone());
    }
    let findings = nodes_by_reason
        .into_iter()
        .map(|(reason, nodes)| DiagnosisFinding::warning("answers", reason).with_nodes(nodes));
    findings.collect()
}
