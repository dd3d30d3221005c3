//! Records in files that other programs and people write, too: random files, each changed by the machine's Puppet and by `rpcd`.
//!
//! `PARITY_RECORDS` files of each type (default 60; 2 in `make test`), starting with the seed `PARITY_SEED`. A failure states its seed.

#![expect(clippy::indexing_slicing, reason = "each table has an entry for each type")]

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use muster_tests::tier::is_long;
use serde_json::{Value, json};

use super::oracle::{PuppetOracle, print_line};
use super::outcome::{ResourceEvent, RunOutcome};
use super::random::{SplitMix, read_number};
use super::rpcd_runs;
use super::scenario::{ApplyFlags, CORPUS_ROOT};
use super::scratch_root::{ScratchRoot, without_header};
use cases::RecordCase;

/// Reads and installs the one crontab of a test, as `crontab` does. The file is beside the program.
const CRONTAB_PROGRAM: &str = r#"#!/bin/sh
file=$(dirname "$0")/table
for last; do :; done
case $last in
  -l) [ -e "$file" ] || { echo "no crontab for root" >&2; exit 1; }; cat "$file" ;;
  -) cat > "$file" ;;
  *) exit 1 ;;
esac
"#;

/// Runs of Puppet after which nothing may be left to do: it removes one of several records in each.
const PUPPET_RUNS: usize = 4;

/// The texts of the files by type.
type FileTexts = BTreeMap<&'static str, String>;
/// The events by type.
type TypeEvents = BTreeMap<String, Vec<(Option<String>, String)>>;

/// The machine that Puppet changes, and the one that `rpcd` changes.
struct Machines {
    oracle: PuppetOracle,
    puppet: ScratchRoot,
    rpcd: ScratchRoot,
    programs: tempfile::TempDir,
}

impl Machines {
    fn new() -> Option<Self> {
        let programs = tempfile::tempdir().unwrap();
        let crontab = programs.path().join("crontab");
        fs::write(&crontab, CRONTAB_PROGRAM).unwrap();
        fs::set_permissions(&crontab, PermissionsExt::from_mode(0o755)).unwrap();
        let oracle = PuppetOracle::start_with_programs(Some(programs.path()))?;
        let (puppet, rpcd) = (ScratchRoot::new(false), ScratchRoot::new(false));
        fs::create_dir(rpcd.root().join("etc")).unwrap();
        fs::write(rpcd.root().join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::create_dir_all(rpcd.root().join("var/spool/cron/crontabs")).unwrap();
        Some(Self { oracle, puppet, rpcd, programs })
    }

    fn puppet_file(&self, case: &RecordCase) -> PathBuf {
        case.target.map_or_else(
            || self.programs.path().join("table"),
            |target| self.puppet.root().join(target),
        )
    }

    fn rpcd_file(&self, case: &RecordCase) -> PathBuf {
        self.rpcd.root().join(case.target.unwrap_or("var/spool/cron/crontabs/root"))
    }

    /// One run of Puppet on these files: its events, and the files after it.
    fn apply_puppet(&mut self, cases: &[RecordCase], files: &FileTexts) -> (TypeEvents, FileTexts) {
        write_files(cases, files, |case| self.puppet_file(case));
        let catalog = catalog_text(cases, CORPUS_ROOT);
        let outcome = self.oracle.apply(&catalog, &self.puppet, &ApplyFlags::default());
        (events_by_type(outcome), read_files(cases, |case| self.puppet_file(case)))
    }

    fn apply_rpcd(&self, cases: &[RecordCase], files: &FileTexts) -> (TypeEvents, FileTexts) {
        write_files(cases, files, |case| self.rpcd_file(case));
        let catalog = catalog_text(cases, "");
        let outcome = rpcd_runs::apply_below(&catalog, &self.rpcd, &ApplyFlags::default());
        (events_by_type(outcome), read_files(cases, |case| self.rpcd_file(case)))
    }
}

fn write_files(cases: &[RecordCase], files: &FileTexts, path: impl Fn(&RecordCase) -> PathBuf) {
    for case in cases {
        fs::write(path(case), &files[case.type_name]).unwrap();
    }
}

fn read_files(cases: &[RecordCase], path: impl Fn(&RecordCase) -> PathBuf) -> FileTexts {
    let read = |path: &Path| without_header(&fs::read_to_string(path).unwrap());
    cases.iter().map(|case| (case.type_name, read(&path(case)))).collect()
}

fn events_by_type(outcome: RunOutcome) -> TypeEvents {
    assert!(outcome.transaction_completed, "{outcome:?}");
    let event = |event: ResourceEvent| (event.property, event.status);
    let resources = outcome.resources.into_iter();
    resources
        .map(|(reference, status)| {
            let type_name = reference.split('[').next().unwrap_or_default().to_owned();
            (type_name, status.events.into_iter().map(event).collect())
        })
        .collect()
}

/// A catalog with the resource of each case; its files are in the given directory.
fn catalog_text(cases: &[RecordCase], directory: &str) -> String {
    let mut resources = vec![
        json!({"type": "Stage", "title": "main", "tags": ["stage"], "exported": false, "kind": "compilable_type", "parameters": {"name": "main"}}),
        json!({"type": "Class", "title": "main", "tags": ["class"], "exported": false, "kind": "unknown", "parameters": {"name": "main"}}),
    ];
    let mut edges = vec![json!({"source": "Stage[main]", "target": "Class[main]"})];
    for case in cases {
        let mut parameters = case.parameters.clone();
        if let Some(target) = case.target {
            parameters["target"] = json!(format!("{directory}/{target}"));
        }
        resources.push(
            json!({"type": case.type_name, "title": case.title, "tags": [], "exported": false,
            "kind": "compilable_type", "parameters": parameters}),
        );
        edges.push(json!({"source": "Class[main]", "target": format!("{}[{}]", case.type_name, case.title)}));
    }
    let catalog: Value = json!({
        "tags": [], "name": "parity.example.net", "version": 1, "code_id": null, "catalog_format": 2, "environment": "production",
        "catalog_uuid": "00000000-0000-0000-0000-000000000000", "resources": resources, "edges": edges, "classes": [],
    });
    serde_json::to_string_pretty(&catalog).unwrap()
}

/// The first line of others that is missing after a change. A last line without an end may have got one.
fn lost_line(case: &RecordCase, text: &str) -> Option<String> {
    let mut lines = text.split_inclusive('\n');
    let mut is_kept = |other: &String| {
        lines.any(|line| line == other || line.strip_suffix('\n') == Some(other.as_str()))
    };
    case.lines_of_others().into_iter().find(|other| !is_kept(other))
}

/// What was compared.
#[derive(Default)]
struct Figures {
    compared: usize,
    failed_in_puppet: usize,
    damaged_by_puppet: usize,
}

/// The violated rules of one case.
struct Comparison<'c> {
    case: &'c RecordCase,
    before: String,
    wrong: String,
}

impl Comparison<'_> {
    fn check(&mut self, holds: bool, rule: &str, details: &dyn std::fmt::Debug) {
        if !holds {
            let RecordCase { type_name, title, parameters, .. } = self.case;
            let before = &self.before;
            writeln!(
                self.wrong,
                "{type_name}[{title}] {parameters}: {rule}\n  {before:?}\n  {details:?}"
            )
            .unwrap();
        }
    }
}

fn is_failed(events: &[(Option<String>, String)]) -> bool {
    events.iter().any(|(_, status)| status == "failure")
}

fn compare_seed(machines: &mut Machines, seed: u64, figures: &mut Figures) -> String {
    let mut rng = SplitMix::new(seed);
    let cases = RecordCase::of_all_types(&mut rng);
    let before: FileTexts = cases.iter().map(|case| (case.type_name, case.content())).collect();
    let (rpcd_events, by_rpcd) = machines.apply_rpcd(&cases, &before);
    let (again, _) = machines.apply_rpcd(&cases, &by_rpcd);
    let (puppet_events, first_by_puppet) = machines.apply_puppet(&cases, &before);
    let mut by_puppet = first_by_puppet.clone();
    for _ in 1..PUPPET_RUNS {
        by_puppet = machines.apply_puppet(&cases, &by_puppet).1;
    }
    let (after_puppet, _) = machines.apply_rpcd(&cases, &by_puppet);
    let (after_rpcd, _) = machines.apply_puppet(&cases, &by_rpcd);
    let mut wrong = String::new();
    for case in &cases {
        let name = case.type_name;
        let before = before[name].clone();
        let mut compared = Comparison { case, before, wrong: String::new() };
        let (ours, theirs) = (&rpcd_events[name], &puppet_events[name]);
        let rpcd_file = &by_rpcd[name];
        compared.check(!is_failed(ours), "rpcd fails", ours);
        compared.check(again[name].is_empty(), "rpcd changes it twice", &(rpcd_file, &again[name]));
        let lost = lost_line(case, rpcd_file);
        compared.check(lost.is_none(), "rpcd loses a line of others", &(rpcd_file, lost));
        figures.compared += 1;
        if is_failed(theirs) {
            figures.failed_in_puppet += 1;
            compared.check(!case.puppet_reads, "Puppet fails", theirs);
        } else {
            let puppet_file = &by_puppet[name];
            figures.damaged_by_puppet += usize::from(lost_line(case, puppet_file).is_some());
            let is_decided = case.puppet_reads || !case.is_absent();
            let rest = &after_puppet[name];
            compared.check(
                !is_decided || rest.is_empty(),
                "rpcd changes the result of Puppet",
                &(puppet_file, rest),
            );
            // One of several records already matches: Puppet overwrites the last.
            let is_spared = case.own > 1 && ours.is_empty();
            if case.puppet_reads && !is_spared {
                // A property that replaces another has an event for both with rpcd.
                let is_desired = |(property, _): &&(Option<String>, String)| {
                    property.as_deref().is_none_or(|name| case.parameters.get(name).is_some())
                };
                let ours: Vec<_> = ours.iter().filter(is_desired).collect();
                let theirs: Vec<_> = theirs.iter().filter(is_desired).collect();
                compared.check(ours == theirs, "the events differ", &(&ours, &theirs));
                let rest = &after_rpcd[name];
                compared.check(
                    rest.is_empty(),
                    "Puppet changes the result of rpcd",
                    &(rpcd_file, rest),
                );
            }
        }
        wrong.push_str(&compared.wrong);
    }
    wrong
}

#[test]
fn records_in_files_of_others_are_changed_as_by_puppet() {
    let Some(mut machines) = Machines::new() else {
        return;
    };
    let first = read_number("PARITY_SEED", 1);
    let count = read_number("PARITY_RECORDS", if is_long() { 60 } else { 2 });
    let (mut wrong, mut figures) = (String::new(), Figures::default());
    for seed in first..first + count {
        let found = compare_seed(&mut machines, seed, &mut figures);
        if !found.is_empty() {
            writeln!(wrong, "PARITY_SEED={seed} PARITY_RECORDS=1:\n{found}").unwrap();
        }
    }
    let Figures { compared, failed_in_puppet, damaged_by_puppet } = figures;
    print_line(&format!(
        "{compared} files of {count} seeds: Puppet fails on {failed_in_puppet}, changes or loses lines of others in {damaged_by_puppet}"
    ));
    assert!(wrong.is_empty(), "{wrong}");
}
