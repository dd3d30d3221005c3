//! The corpus is true: what is compiled and recorded in it is what the Puppet of this machine compiles and does.

#![expect(clippy::indexing_slicing, reason = "JSON that is not there is null")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::compare::differences;
use super::oracle::{Oracle, has_namespaces, tell};
use super::outcome::Run;
use super::scenario::{Need, Scenario};
use super::world::World;

/// Whether the corpus is to be written anew.
fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Why this machine cannot play the scenario, if it cannot.
pub(crate) fn lacks(scenario: &Scenario) -> Option<&'static str> {
    let lacking = |need: &Need| match need {
        Need::Root => !nix::unistd::geteuid().is_root(),
        Need::Etc => !has_namespaces(),
        Need::Dpkg => !Path::new("/var/lib/dpkg/status").exists(),
        Need::Crontab => !Path::new("/usr/bin/crontab").exists(),
        Need::Live => false,
    };
    let need = scenario.needs.iter().find(|need| lacking(need))?;
    Some(match need {
        Need::Root => "it needs root",
        Need::Etc => "it needs a mount namespace",
        Need::Dpkg => "it needs a dpkg database",
        Need::Crontab => "it needs a crontab program",
        Need::Live => "it needs Puppet",
    })
}

/// A catalog without what is new in each compilation.
fn settled(mut catalog: Value, scenario: &Scenario) -> String {
    catalog["version"] = Value::from(1);
    catalog["catalog_uuid"] = Value::from("00000000-0000-0000-0000-000000000000");
    let file = format!("{}.pp", scenario.name);
    for resource in catalog["resources"].as_array_mut().unwrap() {
        if let Some(place) = resource.get_mut("file") {
            *place = Value::from(file.clone());
        }
    }
    serde_json::to_string_pretty(&catalog).unwrap() + "\n"
}

fn golden(path: &Path, text: &str, wrong: &mut Vec<String>) {
    if updating() {
        fs::write(path, text).unwrap();
    } else if fs::read_to_string(path).unwrap_or_default() != text {
        wrong.push(format!("{} is not what Puppet makes of its manifest", path.display()));
    }
}

/// Each scenario, and what Puppet does in it.
pub(crate) fn play(oracle: &mut Oracle, scenario: &Scenario) -> Vec<Run> {
    let catalog = fs::read_to_string(scenario.catalog()).unwrap();
    let world = World::new(scenario.needs(Need::Etc));
    let runs = world.play(scenario, |world, flags| oracle.apply(&catalog, world, flags));
    runs.into_iter().map(|(outcome, tree)| Run { outcome, tree }).collect()
}

#[test]
fn catalogs_and_recordings_are_what_puppet_makes_of_them() {
    let Some(mut oracle) = Oracle::start() else {
        return;
    };
    let mut wrong = Vec::new();
    for scenario in Scenario::all() {
        let catalog = settled(oracle.compile(&scenario.manifest()), &scenario);
        golden(&scenario.catalog(), &catalog, &mut wrong);
        if let Some(why) = lacks(&scenario) {
            tell(&format!("{}: not played here: {why}", scenario.name));
            continue;
        }
        if scenario.needs(Need::Live) {
            continue;
        }
        let runs = play(&mut oracle, &scenario);
        if updating() {
            let text = serde_json::to_string_pretty(&runs).unwrap() + "\n";
            fs::write(scenario.recording(), text).unwrap();
            continue;
        }
        let text = fs::read_to_string(scenario.recording()).unwrap_or_else(|_| "[]".to_owned());
        let recorded: Vec<Run> = serde_json::from_str(&text).unwrap();
        let said = differences(&runs, &recorded).into_iter();
        wrong.extend(said.map(|difference| format!("{}: {difference}", scenario.name)));
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 records anew", wrong.join("\n"));
}

/// What is recorded belongs to a manifest, and the other way round.
#[test]
fn every_recording_has_a_manifest() {
    let mut known: Vec<String> =
        Scenario::all().into_iter().map(|scenario| scenario.name).collect();
    known.sort();
    for directory in ["catalogs", "recorded"] {
        let mut names: Vec<String> = fs::read_dir(super::scenario::corpus().join(directory))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        let expected: Vec<&String> =
            known.iter().filter(|name| directory == "catalogs" || !is_live(name)).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), expected, "{directory}");
    }
}

fn is_live(name: &str) -> bool {
    Scenario::all().iter().any(|scenario| scenario.name == name && scenario.needs(Need::Live))
}
