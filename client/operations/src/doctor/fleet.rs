//! Checks the replies to `rpcutil diagnose`: clocks, duplicates, versions, and problems that nodes report about themselves.

use std::collections::{BTreeMap, BTreeSet};

use muster_base::{count_text, error_chain, format_millis};
use muster_calls::ReceivedReply;
use muster_client::{
    AgentSchemas, FleetConnection, FleetRequestError, RollCall, RpcSettings, TargetSelection,
    roll_call, survey_stores,
};
use muster_contract::rpcutil::{RpcutilDiagnose, RpcutilDiagnoseOutput};
use muster_ddl::AgentDdl;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;

use super::advice::node_advice;
use super::finding::{DiagnosisFinding, DiagnosisLevel, DiagnosisSection};
use super::stores::stores_section;

/// Clock differences below this are not reported, in milliseconds.
const NOTABLE_SKEW_MS: u64 = 1000;
/// Clock differences above this are rejected by nodes in their default configuration, in milliseconds.
const REFUSED_SKEW_MS: u64 = 30_000;

/// Connects, asks the target nodes for their diagnosis, and evaluates the replies. `describe_absent` gets the nodes that replied, and describes those
/// that are known and did not.
pub async fn check_fleet(
    settings: &RpcSettings,
    target: &TargetSelection,
    describe_absent: impl FnOnce(&BTreeSet<&Identity>) -> Option<String>,
) -> Vec<DiagnosisSection> {
    let roll_call = async {
        let schemas = AgentSchemas::load(Some(settings))?;
        let fleet = FleetConnection::connect(settings, target).await?;
        let call = roll_call::<RpcutilDiagnose>(&fleet, &target.filter);
        let (survey, call) = tokio::join!(survey_stores(&fleet), call);
        Ok::<_, FleetRequestError>((stores_section(&survey), call?, schemas))
    };
    let (stores, finding) = match roll_call.await {
        Err(error) => (None, DiagnosisFinding::error("connection", error_chain(&error))),
        Ok((stores, call, _)) if call.answers.is_empty() && call.rejected.is_empty() => {
            let silent = DiagnosisFinding::error("nodes", "connected, but no node replies");
            let advice =
                "check that rpcd runs on the nodes in this collective, and that the filter matches";
            (Some(stores), silent.with_advice(advice))
        }
        Ok((stores, call, schemas)) => {
            let mut section = fleet_section(&call, &schemas);
            let replied = call.answers.iter().map(|answer| &answer.reply.sender).collect();
            let absent = describe_absent(&replied).map(|absent| {
                DiagnosisFinding::warning("absent nodes", absent)
                    .with_advice("check that rpcd runs there, and that it can reach a broker")
            });
            section.findings.extend(absent);
            return vec![stores, section];
        }
    };
    stores.into_iter().chain([DiagnosisSection::single("Fleet", finding)]).collect()
}

/// Evaluates the roll call. `schemas` are the local DDLs.
fn fleet_section(call: &RollCall, schemas: &AgentSchemas) -> DiagnosisSection {
    let answers = &call.answers;
    let outputs =
        |answer: &ReceivedReply| answer.read_outputs::<RpcutilDiagnose>().unwrap_or_default();
    let diagnoses: Vec<Diagnosis<'_>> =
        answers.iter().map(|answer| (&answer.reply.sender, outputs(answer))).collect();
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
    let count = answers.len();
    let about = format!("Fleet: {}", count_text(count, "node", "nodes"));
    DiagnosisSection { about, is_local: false, findings }
}

/// A node and its outputs of `diagnose`; empty ones if it refused, or if they cannot be read.
type Diagnosis<'a> = (&'a Identity, RpcutilDiagnoseOutput);

/// Nodes by the value of one property.
type NodesBy<K> = BTreeMap<K, BTreeSet<Identity>>;

fn group_nodes<'a, K: Ord>(entries: impl IntoIterator<Item = (K, &'a Identity)>) -> NodesBy<K> {
    let mut groups = NodesBy::new();
    for (key, node) in entries {
        groups.entry(key).or_default().insert(node.clone());
    }
    groups
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
        let skew = format_millis(max_skew);
        DiagnosisFinding::new("clocks", level, format!("up to {skew} off the local clock"))
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
            format!("{} failed verification ({reason})", count_text(*count, "reply", "replies")),
        )
        .with_advice("check for senders of another organisation, or with revoked credentials")
    });
    findings.collect()
}

fn version_finding(diagnoses: &[Diagnosis<'_>]) -> Option<DiagnosisFinding> {
    let versions = diagnoses.iter();
    let versions =
        group_nodes(versions.filter_map(|(node, told)| Some((told.version.as_deref()?, *node))));
    match versions.len() {
        0 | 1 => versions
            .keys()
            .next()
            .map(|version| DiagnosisFinding::ok("versions", format!("all run rpcd {version}"))),
        _ => Some(DiagnosisFinding::warning(
            "versions",
            format!("different rpcd versions: {}", count_values(&versions)),
        )),
    }
}

/// Agents whose DDL differs from the local one, or between nodes.
fn ddl_findings(diagnoses: &[Diagnosis<'_>], schemas: &AgentSchemas) -> Vec<DiagnosisFinding> {
    let mut agents: BTreeMap<&str, NodesBy<&str>> = BTreeMap::new();
    for (node, diagnosis) in diagnoses {
        for (agent, version) in &diagnosis.agents {
            let versions = agents.entry(agent).or_default();
            versions.entry(version).or_default().insert((*node).clone());
        }
    }
    let mut findings = Vec::new();
    for (agent, versions) in &agents {
        let found = count_values(versions);
        let local = schemas.store.get(agent).map(AgentDdl::version);
        let others =
            versions.iter().filter(|(version, _)| local.is_some_and(|own| own != **version));
        let others: BTreeSet<Identity> = others.flat_map(|(_, nodes)| nodes.clone()).collect();
        if let Some(local) = local.filter(|_| !others.is_empty()) {
            let message =
                format!("agent {agent}: the local DDL has version {local}, nodes have {found}");
            findings.push(
                DiagnosisFinding::warning("ddls", message)
                    .with_advice("install the same version on both sides")
                    .with_nodes(others),
            );
        } else if versions.len() > 1 {
            let message = format!("agent {agent} differs between nodes: {found}");
            findings.push(DiagnosisFinding::warning("ddls", message));
        }
    }
    if findings.is_empty() && !agents.is_empty() {
        let agents = count_text(agents.len(), "agent", "agents");
        let message = format!("{agents}, with the same version on all nodes");
        findings.push(DiagnosisFinding::ok("ddls", message));
    }
    findings
}

fn count_values(nodes_by_value: &NodesBy<&str>) -> String {
    let counts = nodes_by_value.iter().map(|(value, nodes)| format!("{value} ({})", nodes.len()));
    counts.collect::<Vec<_>>().join(", ")
}

/// Sandbox settings of external agents; equal texts are merged.
fn sandbox_findings(diagnoses: &[Diagnosis<'_>]) -> Vec<DiagnosisFinding> {
    let settings = diagnoses
        .iter()
        .flat_map(|(node, diagnosis)| diagnosis.sandbox.iter().map(move |entry| (entry, *node)));
    group_nodes(settings)
        .into_iter()
        .map(|((agent, text), nodes)| {
            DiagnosisFinding::ok("sandbox", format!("agent {agent}: {text}")).with_nodes(nodes)
        })
        .collect()
}

/// Problems that nodes report about themselves, the worst first; equal texts are merged.
fn self_reported_findings(diagnoses: &[Diagnosis<'_>]) -> Vec<DiagnosisFinding> {
    let findings = diagnoses.iter().flat_map(|(node, diagnosis)| {
        diagnosis.findings.iter().map(move |finding| {
            let is_error = finding.level == "error";
            let level = if is_error { DiagnosisLevel::Error } else { DiagnosisLevel::Warning };
            ((level, &finding.check, &finding.message), *node)
        })
    });
    group_nodes(findings)
        .into_iter()
        .rev()
        .map(|((level, check, message), nodes)| {
            let mut finding = DiagnosisFinding::new(check, level, message).with_nodes(nodes);
            finding.advice = node_advice(check).map(str::to_owned);
            finding
        })
        .collect()
}

/// Nodes that rejected the request, or whose diagnosis cannot be read.
fn refusal_findings(answers: &[ReceivedReply]) -> Vec<DiagnosisFinding> {
    let refusals = answers.iter().filter_map(|answer| {
        let reply = &answer.reply;
        let reason = match &reply.reason {
            _ if answer.is_ok() => {
                let error = answer.read_outputs::<RpcutilDiagnose>().err()?;
                format!("diagnosis cannot be read: {error}")
            }
            Some(ReplyReason::Denied { rule }) if muster_policy::is_fault(rule) => {
                let reason = format!("a policy has an error, so requests are denied: {rule}");
                return Some(((DiagnosisLevel::Error, "policies", reason), &reply.sender));
            }
            Some(ReplyReason::Denied { rule }) => format!("diagnosis denied: {rule}"),
            _ => format!("diagnosis failed: {}", reply.statusmsg.raw()),
        };
        Some(((DiagnosisLevel::Warning, "answers", reason), &reply.sender))
    });
    group_nodes(refusals)
        .into_iter()
        .map(|((level, check, reason), nodes)| {
            let mut finding = DiagnosisFinding::new(check, level, reason).with_nodes(nodes);
            finding.advice = node_advice(check).map(str::to_owned);
            finding
        })
        .collect()
}

#[cfg(test)]
mod tests;
