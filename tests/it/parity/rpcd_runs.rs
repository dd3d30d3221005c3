//! Runs `rpcd apply` in the same scratch roots and compares it with the recordings of Puppet.

#![expect(clippy::disallowed_types, reason = "starts the real rpcd")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use muster_tests::command::find_program;

use super::compare::{Difference, find_differences};
use super::known_differences::{KNOWN_DEFECTS, KNOWN_DIFFERENCES};
use super::oracle::{PuppetOracle, print_line};
use super::outcome::{RunOutcome, ScenarioRun};
use super::recorded::{missing_requirement, play_scenario};
use super::scenario::{ApplyFlags, Requirement, Scenario};
use super::scratch_root::{ScratchRoot, enter_etc};

/// Applies a catalog of the corpus in a scratch root. The outcome of a refused catalog has no resources.
pub(crate) fn apply(catalog: &str, root: &ScratchRoot, flags: &ApplyFlags) -> RunOutcome {
    apply_with(catalog, root, flags, &[])
}

/// Applies a catalog whose paths are relative to the scratch root.
pub(crate) fn apply_below(catalog: &str, root: &ScratchRoot, flags: &ApplyFlags) -> RunOutcome {
    apply_with(catalog, root, flags, &["--root".to_owned(), root.root().display().to_string()])
}

fn apply_with(
    catalog: &str,
    root: &ScratchRoot,
    flags: &ApplyFlags,
    options: &[String],
) -> RunOutcome {
    let state = root.state();
    let report = state.join("report.json");
    let _ = fs::remove_file(&report);
    let mut command_line = root.etc().map_or_else(Vec::new, |etc| enter_etc(&etc).to_vec());
    let paths = [&state.join("engine"), &report, &state.join("puppet")]
        .map(|path| path.display().to_string());
    let [engine, report_path, puppet] = paths;
    command_line.push(find_program("rpcd").display().to_string());
    command_line.extend(["apply".to_owned(), root.catalog(catalog).display().to_string()]);
    command_line.extend(
        ["--state-dir", &engine, "--report", &report_path, "--puppet-state", &puppet]
            .map(str::to_owned),
    );
    command_line.push("--detailed-exitcodes".to_owned());
    command_line.extend_from_slice(options);
    command_line.extend(flags.noop.then(|| "--noop".to_owned()));
    for (name, tags) in [("--tags", &flags.tags), ("--skip-tags", &flags.skip_tags)] {
        command_line.extend(tags.iter().flat_map(|tags| [name.to_owned(), tags.clone()]));
    }
    let [program, arguments @ ..] = command_line.as_slice() else {
        unreachable!("the line has a program")
    };
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let exit = i64::from(output.status.code().unwrap_or(-1));
    match fs::read(&report) {
        Ok(report) => {
            RunOutcome::from_report(&serde_json::from_slice(&report).unwrap(), exit, root)
        }
        Err(_) => RunOutcome {
            exit,
            status: root.normalize(&String::from_utf8_lossy(&output.stderr)),
            transaction_completed: false,
            noop_pending: false,
            order: Vec::new(),
            resources: BTreeMap::new(),
        },
    }
}

/// Plays a scenario with `rpcd`.
fn play_with_rpcd(scenario: &Scenario) -> Vec<ScenarioRun> {
    let catalog = fs::read_to_string(scenario.catalog()).unwrap();
    let root = ScratchRoot::new(scenario.needs(Requirement::Etc));
    let runs = root.play_steps(scenario, |root, flags| apply(&catalog, root, flags));
    runs.into_iter().map(|(outcome, tree)| ScenarioRun { outcome, tree }).collect()
}

/// The differences that are not known; marks the known ones that occurred in `seen`.
fn unknown_differences(
    scenario: &Scenario,
    expected: &[ScenarioRun],
    seen: &mut [bool],
) -> Vec<String> {
    let is_known = |difference: &Difference, seen: &mut [bool]| {
        let mut known = false;
        for (entry, seen) in KNOWN_DIFFERENCES.iter().zip(seen) {
            if entry.scenario == scenario.name && difference.location.contains(entry.location) {
                *seen = true;
                known = true;
            }
        }
        known
    };
    find_differences(expected, &play_with_rpcd(scenario))
        .into_iter()
        .filter(|difference| !is_known(difference, seen))
        .map(|difference| format!("{}: {difference}", scenario.name))
        .collect()
}

#[test]
fn a13_7_rpcd_matches_the_recordings_of_puppet() {
    let (mut wrong, mut seen) = (Vec::new(), vec![false; KNOWN_DIFFERENCES.len()]);
    let mut skipped = Vec::new();
    for scenario in Scenario::all() {
        if let Some(reason) = missing_requirement(&scenario) {
            print_line(&format!("{}: skipped: {reason}", scenario.name));
            skipped.push(scenario.name);
        } else if !scenario.needs(Requirement::Live) {
            let text = fs::read_to_string(scenario.recording()).unwrap();
            let expected: Vec<ScenarioRun> = serde_json::from_str(&text).unwrap();
            let found = unknown_differences(&scenario, &expected, &mut seen);
            match KNOWN_DEFECTS.iter().find(|(name, _)| *name == scenario.name) {
                Some((name, what)) => {
                    print_line(&format!("{name}: {} differences, known: {what}", found.len()));
                }
                None => wrong.extend(found),
            }
        }
    }
    for (entry, _) in KNOWN_DIFFERENCES.iter().zip(seen).filter(|(_, seen)| !seen) {
        if !skipped.contains(&entry.scenario.to_owned()) {
            wrong.push(format!(
                "{}: `{}` no longer differs: remove it from the table",
                entry.scenario, entry.location
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// Scenarios that depend on the machine are compared with what its Puppet does at the same time.
#[test]
fn unrecorded_scenarios_match_the_local_puppet() {
    let Some(mut oracle) = PuppetOracle::start() else {
        return;
    };
    let mut wrong = Vec::new();
    for scenario in Scenario::all() {
        if scenario.needs(Requirement::Live) && missing_requirement(&scenario).is_none() {
            let expected = play_scenario(&mut oracle, &scenario);
            wrong.extend(unknown_differences(
                &scenario,
                &expected,
                &mut vec![false; KNOWN_DIFFERENCES.len()],
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether refreshes are pending after the last run.
pub(crate) fn has_pending_refreshes(root: &ScratchRoot) -> bool {
    let report = fs::read(root.state().join("report.json")).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap_or_default();
    let pending = report.get("pending_refreshes").and_then(serde_json::Value::as_array);
    pending.is_some_and(|pending| !pending.is_empty())
}
