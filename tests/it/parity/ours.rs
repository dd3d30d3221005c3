//! Ours: `rpcd apply` in the same worlds, held against what was recorded of Puppet.

#![expect(clippy::disallowed_types, reason = "starts the real rpcd")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use muster_tests::command::find_program;

use super::compare::{Difference, differences};
use super::known::{DEFECTS, KNOWN};
use super::oracle::{Oracle, tell};
use super::outcome::{Outcome, Run};
use super::recorded::{lacks, play};
use super::scenario::{Flags, Need, Scenario};
use super::world::{World, enter_etc};

/// Applies a catalog of the corpus in a world. A catalog that is refused has an outcome without resources.
pub(crate) fn apply(catalog: &str, world: &World, flags: &Flags) -> Outcome {
    let state = world.state();
    let report = state.join("report.json");
    let _ = fs::remove_file(&report);
    let mut line = world.etc().map_or_else(Vec::new, |etc| enter_etc(&etc).to_vec());
    let paths = [&state.join("engine"), &report, &state.join("puppet")]
        .map(|path| path.display().to_string());
    let [engine, told, puppet] = paths;
    line.push(find_program("rpcd").display().to_string());
    line.extend(["apply".to_owned(), world.catalog(catalog).display().to_string()]);
    line.extend(
        ["--state-dir", &engine, "--report", &told, "--puppet-state", &puppet].map(str::to_owned),
    );
    line.push("--detailed-exitcodes".to_owned());
    line.extend(flags.noop.then(|| "--noop".to_owned()));
    for (name, tags) in [("--tags", &flags.tags), ("--skip-tags", &flags.skip_tags)] {
        line.extend(tags.iter().flat_map(|tags| [name.to_owned(), tags.clone()]));
    }
    let [program, arguments @ ..] = line.as_slice() else { unreachable!("the line has a program") };
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let exit = i64::from(output.status.code().unwrap_or(-1));
    match fs::read(&report) {
        Ok(report) => Outcome::of_report(&serde_json::from_slice(&report).unwrap(), exit, world),
        Err(_) => Outcome {
            exit,
            status: world.normal(&String::from_utf8_lossy(&output.stderr)),
            transaction_completed: false,
            noop_pending: false,
            order: Vec::new(),
            resources: BTreeMap::new(),
        },
    }
}

/// What ours does in a scenario.
fn ours(scenario: &Scenario) -> Vec<Run> {
    let catalog = fs::read_to_string(scenario.catalog()).unwrap();
    let world = World::new(scenario.needs(Need::Etc));
    let runs = world.play(scenario, |world, flags| apply(&catalog, world, flags));
    runs.into_iter().map(|(outcome, tree)| Run { outcome, tree }).collect()
}

/// Differences that are not known; which known ones were seen is noted.
fn surprises(scenario: &Scenario, expected: &[Run], seen: &mut [bool]) -> Vec<String> {
    let is_known = |difference: &Difference, seen: &mut [bool]| {
        let mut known = false;
        for (entry, seen) in KNOWN.iter().zip(seen) {
            if entry.scenario == scenario.name && difference.place.contains(entry.place) {
                *seen = true;
                known = true;
            }
        }
        known
    };
    differences(expected, &ours(scenario))
        .into_iter()
        .filter(|difference| !is_known(difference, seen))
        .map(|difference| format!("{}: {difference}", scenario.name))
        .collect()
}

#[test]
fn a_catalog_ends_as_puppet_was_seen_to_end_it() {
    let (mut wrong, mut seen) = (Vec::new(), vec![false; KNOWN.len()]);
    let mut left_out = Vec::new();
    for scenario in Scenario::all() {
        if let Some(why) = lacks(&scenario) {
            tell(&format!("{}: not played here: {why}", scenario.name));
            left_out.push(scenario.name);
        } else if !scenario.needs(Need::Live) {
            let text = fs::read_to_string(scenario.recording()).unwrap();
            let expected: Vec<Run> = serde_json::from_str(&text).unwrap();
            let found = surprises(&scenario, &expected, &mut seen);
            match DEFECTS.iter().find(|(name, _)| *name == scenario.name) {
                Some((name, what)) => {
                    tell(&format!("{name}: {} differences, known: {what}", found.len()))
                }
                None => wrong.extend(found),
            }
        }
    }
    for (entry, _) in KNOWN.iter().zip(seen).filter(|(_, seen)| !seen) {
        if !left_out.contains(&entry.scenario.to_owned()) {
            wrong.push(format!(
                "{}: `{}` does not differ any more: take it out of the table",
                entry.scenario, entry.place
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// What is the machine's own is compared with what its Puppet does at the same time.
#[test]
fn what_cannot_be_recorded_ends_as_puppet_ends_it_here() {
    let Some(mut oracle) = Oracle::start() else {
        return;
    };
    let mut wrong = Vec::new();
    for scenario in Scenario::all() {
        if scenario.needs(Need::Live) && lacks(&scenario).is_none() {
            let expected = play(&mut oracle, &scenario);
            wrong.extend(surprises(&scenario, &expected, &mut vec![false; KNOWN.len()]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether refreshes are owed after the last run.
pub(crate) fn owes(world: &World) -> bool {
    let report = fs::read(world.state().join("report.json")).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap_or_default();
    let pending = report.get("pending_refreshes").and_then(serde_json::Value::as_array);
    pending.is_some_and(|pending| !pending.is_empty())
}
