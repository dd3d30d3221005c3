//! The corpus is correct: the local Puppet compiles and applies its manifests as recorded.

#![expect(clippy::indexing_slicing, reason = "the index of a missing JSON key is null")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::compare::find_differences;
use super::oracle::{PuppetOracle, has_namespaces, print_line};
use super::outcome::ScenarioRun;
use super::scenario::{Requirement, Scenario};
use super::scratch_root::ScratchRoot;

/// Whether the corpus is to be rewritten.
fn is_update_requested() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Why this machine cannot play the scenario, if it cannot.
pub(crate) fn missing_requirement(scenario: &Scenario) -> Option<&'static str> {
    let lacking = |need: &Requirement| match need {
        Requirement::Root => !nix::unistd::geteuid().is_root(),
        Requirement::Etc => !has_namespaces(),
        Requirement::Dpkg => !Path::new("/var/lib/dpkg/status").exists(),
        Requirement::Crontab => !Path::new("/usr/bin/crontab").exists(),
        Requirement::Live => false,
    };
    let need = scenario.needs.iter().find(|need| lacking(need))?;
    Some(match need {
        Requirement::Root => "it needs root",
        Requirement::Etc => "it needs a mount namespace",
        Requirement::Dpkg => "it needs a dpkg database",
        Requirement::Crontab => "it needs a crontab program",
        Requirement::Live => "it needs Puppet",
    })
}

/// A catalog without the values that differ in each compilation.
fn normalize_catalog(mut catalog: Value, scenario: &Scenario) -> String {
    catalog["version"] = Value::from(1);
    catalog["catalog_uuid"] = Value::from("00000000-0000-0000-0000-000000000000");
    let file = format!("{}.pp", scenario.name);
    for resource in catalog["resources"].as_array_mut().unwrap() {
        if let Some(file_entry) = resource.get_mut("file") {
            *file_entry = Value::from(file.clone());
        }
    }
    serde_json::to_string_pretty(&catalog).unwrap() + "\n"
}

fn compare_golden(path: &Path, text: &str, wrong: &mut Vec<String>) {
    if is_update_requested() {
        fs::write(path, text).unwrap();
    } else if fs::read_to_string(path).unwrap_or_default() != text {
        wrong.push(format!("{} is not what Puppet compiles from its manifest", path.display()));
    }
}

/// Plays a scenario with Puppet.
pub(crate) fn play_scenario(oracle: &mut PuppetOracle, scenario: &Scenario) -> Vec<ScenarioRun> {
    let catalog = fs::read_to_string(scenario.catalog()).unwrap();
    let root = ScratchRoot::new(scenario.needs(Requirement::Etc));
    let runs = root.play_steps(scenario, |root, flags| oracle.apply(&catalog, root, flags));
    runs.into_iter().map(|(outcome, tree)| ScenarioRun { outcome, tree }).collect()
}

/// Each recording belongs to a manifest, and each manifest has a recording unless it needs a live Puppet.
#[test]
fn every_recording_has_a_manifest() {
    let mut known: Vec<String> =
        Scenario::all().into_iter().map(|scenario| scenario.name).collect();
    known.sort();
    for directory in ["catalogs", "recorded"] {
        let mut names: Vec<String> =
            fs::read_dir(super::scenario::corpus_directory().join(directory))
                .unwrap()
                .map(|entry| {
                    entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()
                })
                .collect();
        names.sort();
        let expected: Vec<&String> =
            known.iter().filter(|name| directory == "catalogs" || !is_live(name)).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), expected, "{directory}");
    }
}

fn is_live(name: &str) -> bool {
    Scenario::all()
        .iter()
        .any(|scenario| scenario.name == name && scenario.needs(Requirement::Live))
}

/// Run by `make test-all`.
mod long {
    use super::{
        PuppetOracle, Requirement, Scenario, ScenarioRun, compare_golden, find_differences, fs,
        is_update_requested, missing_requirement, normalize_catalog, play_scenario, print_line,
    };

    #[test]
    fn corpus_matches_the_local_puppet() {
        let Some(mut oracle) = PuppetOracle::start() else {
            return;
        };
        let mut wrong = Vec::new();
        for scenario in Scenario::all() {
            let catalog = normalize_catalog(oracle.compile(&scenario.manifest()), &scenario);
            compare_golden(&scenario.catalog(), &catalog, &mut wrong);
            if let Some(reason) = missing_requirement(&scenario) {
                print_line(&format!("{}: skipped: {reason}", scenario.name));
                continue;
            }
            if scenario.needs(Requirement::Live) {
                continue;
            }
            let runs = play_scenario(&mut oracle, &scenario);
            if is_update_requested() {
                let text = serde_json::to_string_pretty(&runs).unwrap() + "\n";
                fs::write(scenario.recording(), text).unwrap();
                continue;
            }
            let text = fs::read_to_string(scenario.recording()).unwrap_or_else(|_| "[]".to_owned());
            let recorded: Vec<ScenarioRun> = serde_json::from_str(&text).unwrap();
            let found = find_differences(&runs, &recorded).into_iter();
            wrong.extend(found.map(|difference| format!("{}: {difference}", scenario.name)));
        }
        assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 records again", wrong.join("\n"));
    }
}
