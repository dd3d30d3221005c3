//! Evaluates what the broker's stores and the directory answer.

use muster_base::{count_text, error_chain};
use muster_calls::DirectoryError;
use muster_client::StoreSurvey;
use muster_contract::directory::DirectoryStatusOutput;
use muster_wire::identity::Identity;

use super::finding::{DiagnosisFinding, DiagnosisSection};

/// Without stores, revocations do not spread, permits are not granted, and the directory has no records.
pub(crate) fn stores_section(survey: &StoreSurvey) -> DiagnosisSection {
    let mut findings = vec![storage_finding(survey)];
    findings.extend(directory_finding(survey));
    DiagnosisSection { about: "Stores".to_owned(), is_local: false, findings }
}

fn storage_finding(survey: &StoreSurvey) -> DiagnosisFinding {
    match &survey.trust {
        Ok(()) => DiagnosisFinding::ok("jetstream", "the newest account token is stored"),
        Err(_) if !survey.has_jetstream => DiagnosisFinding::error(
            "jetstream",
            "JetStream is off on this server: no revocation spreads, no permit is granted, and the directory has no records",
        )
        .with_advice(
            "on the broker: the log of nats-server has the reason. After a full disk, free space and restart it. If its configuration has no block `jetstream`, write it with `rpc broker config`",
        ),
        Err(error) => DiagnosisFinding::error("jetstream", error_chain(error)).with_advice(
            "`rpc broker status` shows the servers and streams; `rpc org push` writes what is missing",
        ),
    }
}

/// `None` if the fleet has no directory, or this caller may not ask it.
fn directory_finding(survey: &StoreSurvey) -> Option<DiagnosisFinding> {
    let names: Vec<&str> = survey.directories.iter().map(Identity::as_str).collect();
    match survey.directory.as_ref()? {
        Ok(status) => Some(status_finding(status)),
        Err(DirectoryError::Absent) if names.is_empty() => None,
        Err(DirectoryError::Absent) => Some(
            DiagnosisFinding::error("directory", "no instance of the directory is running")
                .with_advice(format!(
                    "start rpcd on the hosts of its instances, which are registered as {}; until then, nodes are found by broadcast, and silent ones are not noticed",
                    names.join(", ")
                )),
        ),
        Err(error) => Some(
            DiagnosisFinding::error("directory", error_chain(error))
                .with_advice("see the log of rpcd on the hosts of its instances"),
        ),
    }
}

fn status_finding(status: &DirectoryStatusOutput) -> DiagnosisFinding {
    let (nodes, missing) = (status.nodes, status.missing);
    if !status.freshness.current {
        return DiagnosisFinding::warning(
            "directory",
            "the directory has not read all records yet, or is not connected to them",
        )
        .with_advice("if this lasts for more than a minute, see the log of rpcd on its host");
    }
    DiagnosisFinding::warning_if(
        missing > 0,
        "directory",
        format!(
            "{}, of which {} missing",
            count_text(nodes, "node", "nodes"),
            count_text(missing, "is", "are")
        ),
        "`rpc nodes --missing` lists them",
    )
}

#[cfg(test)]
mod tests {
    use muster_bus::TrustLookupError;
    use muster_calls::DirectoryError;
    use muster_client::StoreSurvey;
    use muster_contract::directory::{DirectoryFreshness, DirectoryStatusOutput};

    use super::stores_section;
    use crate::doctor::finding::DiagnosisFinding;
    use crate::doctor::finding::DiagnosisLevel::{self, Error, Ok as Fine, Warning};

    fn survey() -> StoreSurvey {
        let freshness = DirectoryFreshness { ready: true, current: true, listening_seconds: 900 };
        let status =
            DirectoryStatusOutput { nodes: 9, freshness, ..DirectoryStatusOutput::default() };
        StoreSurvey {
            has_jetstream: true,
            trust: Ok(()),
            directory: Some(Ok(status)),
            directories: Vec::new(),
        }
    }

    /// Level and message of each finding. Each problem has advice.
    fn findings(survey: &StoreSurvey) -> Vec<(DiagnosisLevel, String)> {
        let section = stores_section(survey);
        let with_advice =
            |finding: &DiagnosisFinding| finding.level == Fine || finding.advice.is_some();
        assert!(section.findings.iter().all(with_advice), "{section:?}");
        section.findings.into_iter().map(|finding| (finding.level, finding.message)).collect()
    }

    #[test]
    fn stores_that_answer_are_no_problem() {
        let levels: Vec<_> = findings(&survey()).into_iter().map(|(level, _)| level).collect();
        assert_eq!(levels, [Fine, Fine]);
        let forbidden = StoreSurvey { directory: None, ..survey() };
        assert_eq!(findings(&forbidden).len(), 1);
        let without = StoreSurvey { directory: Some(Err(DirectoryError::Absent)), ..survey() };
        assert_eq!(findings(&without).len(), 1, "a fleet without a directory");
    }

    #[test]
    fn each_problem_of_the_stores_is_named() {
        let off =
            StoreSurvey { has_jetstream: false, trust: Err(TrustLookupError::Timeout), ..survey() };
        assert!(findings(&off)[0].1.starts_with("JetStream is off"));
        let empty = StoreSurvey { trust: Err(TrustLookupError::Empty), ..survey() };
        assert_eq!(findings(&empty)[0].0, Error);
        let directories = vec!["directory1".parse().unwrap()];
        let silent =
            StoreSurvey { directory: Some(Err(DirectoryError::Absent)), directories, ..survey() };
        assert_eq!(
            findings(&silent)[1],
            (Error, "no instance of the directory is running".to_owned())
        );
        let mut missing = survey();
        if let Some(Ok(status)) = &mut missing.directory {
            status.missing = 2;
        }
        assert_eq!(findings(&missing)[1], (Warning, "9 nodes, of which 2 are missing".to_owned()));
    }
}
