//! Random catalogs, applied by the machine's Puppet and by `rpcd`, to cover graphs that no written scenario has.
//!
//! `PARITY_N` catalogs (default 20), starting with the seed `PARITY_SEED`. A failure states its seed; for a single
//! seed, `PARITY_KEEP=FILE` stores the catalog.

use std::fmt::Write as _;

use muster_tests::tier::repetitions;
use serde_json::{Map, Value, json};

use super::compare::find_differences;
use super::oracle::PuppetOracle;
use super::outcome::ScenarioRun;
use super::rpcd_runs;
use super::scenario::{ApplyFlags, CORPUS_ROOT, ScenarioStep};
use super::scratch_root::ScratchRoot;

/// A small random number generator (`SplitMix64`): the same seed gives the same catalog on every machine.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices.get(self.below(choices.len())).unwrap().clone()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// A class or define that contains a range of resources.
struct Container {
    reference: String,
    kind: &'static str,
    range: std::ops::Range<usize>,
}

/// A catalog, the files that exist before, and the flags of the run.
struct RandomCase {
    catalog: String,
    setup: Vec<ScenarioStep>,
    flags: ApplyFlags,
}

/// A resource with its parameters, and the file that exists before, if any.
fn random_resource(
    rng: &mut SplitMix,
    index: usize,
) -> (String, Map<String, Value>, Option<ScenarioStep>) {
    let log = |word: &str| format!("/bin/sh -c 'echo {word}{index} >> {CORPUS_ROOT}/log'");
    let path = format!("{CORPUS_ROOT}/f{index}");
    let before = |text: &str| ScenarioStep::File {
        path: format!("f{index}"),
        mode: 0o644,
        text: text.to_owned(),
    };
    let exec = |parameters: Value| (format!("Exec[e{index}]"), parameters, None);
    let (reference, parameters, setup) = match rng.below(12) {
        0 => exec(json!({"command": log("ran")})),
        1 => exec(json!({"command": "/bin/false"})),
        2 | 3 => exec(json!({"command": log("refreshed"), "refreshonly": true})),
        4 => exec(json!({"command": log("never"), "unless": "/bin/true"})),
        5 => exec(json!({"command": "/bin/false", "refreshonly": true})),
        6 => (format!("Notify[n{index}]"), json!({"message": format!("said {index}")}), None),
        7 => (
            format!("File[{path}]"),
            json!({"ensure": "file", "content": "same"}),
            Some(before("same")),
        ),
        8 => (
            format!("File[{path}]"),
            json!({"ensure": "file", "content": "new", "backup": false}),
            Some(before("old")),
        ),
        9 => (format!("File[{CORPUS_ROOT}/none/f{index}]"), json!({"ensure": "directory"}), None),
        _ => (format!("File[{path}]"), json!({"ensure": "file", "content": "new"}), None),
    };
    let Value::Object(mut parameters) = parameters else {
        unreachable!("parameters are an object")
    };
    if rng.chance(10) {
        parameters.insert("noop".to_owned(), json!(rng.chance(70)));
    }
    (reference, parameters, setup)
}

/// Up to three adjacent containers; each may contain another one.
fn random_containers(rng: &mut SplitMix, count: usize) -> Vec<Container> {
    let mut found: Vec<Container> = Vec::new();
    let mut from = 0;
    for number in 0..rng.below(4) {
        let first = from + rng.below(3);
        let end = first + rng.below(5);
        if end > count {
            break;
        }
        let (reference, kind) = if rng.chance(60) {
            (format!("Class[C{number}]"), "class")
        } else {
            (format!("Parity::Box[b{number}]"), "defined_type")
        };
        let inner = (end - first > 2 && rng.chance(40)).then(|| Container {
            reference: format!("Parity::Box[inner{number}]"),
            kind: "defined_type",
            range: first + 1..end - 1,
        });
        found.push(Container { reference, kind, range: first..end });
        found.extend(inner);
        from = end;
    }
    found
}

/// Adds random relationships, mostly forward, so that few catalogs have cycles.
fn add_relationships(
    rng: &mut SplitMix,
    entries: &mut [(String, Map<String, Value>, std::ops::Range<usize>)],
) {
    for _ in 0..rng.below(entries.len() * 2) {
        let (one, other) = (rng.below(entries.len()), rng.below(entries.len()));
        let name = ["before", "require", "notify", "subscribe"]
            .get(rng.below(4))
            .copied()
            .unwrap_or("before");
        let backward = rng.chance(1);
        let (Some((first, _, range)), Some((second, _, later))) =
            (entries.get(one), entries.get(other))
        else {
            continue;
        };
        if one == other || (range.end > later.start && !backward) {
            continue;
        }
        let (holder, named) = match name {
            "before" | "notify" => (one, second.clone()),
            _ => (other, first.clone()),
        };
        if let Some((_, parameters, _)) = entries.get_mut(holder) {
            let known = parameters.entry(name).or_insert_with(|| json!([]));
            known.as_array_mut().unwrap().push(json!(named));
        }
    }
}

fn random_case(seed: u64) -> RandomCase {
    let mut rng = SplitMix(seed);
    let count = 3 + rng.below(10);
    let (mut setup, mut entries) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (reference, parameters, before) = random_resource(&mut rng, index);
        setup.extend(before);
        entries.push((reference, parameters, index..index + 1));
    }
    let containers = random_containers(&mut rng, count);
    let holder = |index: usize, but: &str| {
        let mut outer = containers
            .iter()
            .filter(|container| container.range.contains(&index) && container.reference != but);
        outer.next_back().map_or("Class[main]", |container| container.reference.as_str())
    };
    let mut edges = vec![json!({"source": "Stage[main]", "target": "Class[main]"})];
    for container in &containers {
        let is_inner = container.reference.contains("inner");
        let outer = if is_inner {
            holder(container.range.start, &container.reference)
        } else {
            "Class[main]"
        };
        edges.push(json!({"source": outer, "target": container.reference}));
        entries.push((container.reference.clone(), Map::new(), container.range.clone()));
    }
    for (reference, _, range) in entries.iter().take(count) {
        edges.push(json!({"source": holder(range.start, ""), "target": reference}));
    }
    add_relationships(&mut rng, &mut entries);
    let kind_of = |reference: &str| {
        let container = containers.iter().find(|container| container.reference == reference);
        container.map_or("compilable_type", |container| container.kind)
    };
    let mut resources: Vec<Value> = entries
        .iter()
        .map(|(reference, parameters, _)| {
            let tags: Vec<String> =
                rng.chance(25).then(|| format!("t{}", rng.below(2))).into_iter().collect();
            resource_json(reference, kind_of(reference), parameters, &tags)
        })
        .collect();
    rng.shuffle(&mut resources);
    let main_resources = [
        json!({"type": "Stage", "title": "main", "tags": ["stage"], "exported": false, "kind": "compilable_type", "parameters": {"name": "main"}}),
        json!({"type": "Class", "title": "main", "tags": ["class"], "exported": false, "kind": "unknown", "parameters": {"name": "main"}}),
    ];
    resources.splice(0..0, main_resources);
    let flags = match rng.below(8) {
        0 => ApplyFlags { noop: true, ..ApplyFlags::default() },
        1 => ApplyFlags { tags: Some("t0".to_owned()), ..ApplyFlags::default() },
        2 => ApplyFlags { skip_tags: Some("t1".to_owned()), ..ApplyFlags::default() },
        _ => ApplyFlags::default(),
    };
    let catalog = json!({
        "tags": [], "name": "parity.example.net", "version": 1, "code_id": null, "catalog_format": 2, "environment": "production",
        "catalog_uuid": "00000000-0000-0000-0000-000000000000", "resources": resources, "edges": edges, "classes": [],
    });
    RandomCase { catalog: serde_json::to_string_pretty(&catalog).unwrap(), setup, flags }
}

fn resource_json(
    reference: &str,
    kind: &str,
    parameters: &Map<String, Value>,
    tags: &[String],
) -> Value {
    let (type_name, title) = reference.trim_end_matches(']').split_once('[').unwrap();
    let mut tags = tags.to_vec();
    tags.push(type_name.to_lowercase());
    json!({"type": type_name, "title": title, "tags": tags, "exported": false, "kind": kind, "parameters": parameters})
}

pub(crate) fn read_number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// One run with the flags of the case and, if no refresh is pending after it, one more without flags. Puppet has lost
/// pending refreshes by then.
#[test]
fn random_catalogs_match_puppet() {
    let Some(mut oracle) = PuppetOracle::start() else {
        return;
    };
    let (first, count) =
        (read_number("PARITY_SEED", 1), read_number("PARITY_N", repetitions(50) as u64));
    let mut wrong = String::new();
    for seed in first..first + count {
        let case = random_case(seed);
        if let Some(path) = std::env::var_os("PARITY_KEEP") {
            std::fs::write(path, &case.catalog).unwrap();
        }
        let roots = [ScratchRoot::new(false), ScratchRoot::new(false)];
        let [puppet_root, rpcd_root] = &roots;
        for root in &roots {
            case.setup.iter().for_each(|step| root.prepare(step));
        }
        let mut pairs = Vec::new();
        for flags in [&case.flags, &ApplyFlags::default()] {
            let puppet = ScenarioRun {
                outcome: oracle.apply(&case.catalog, puppet_root, flags),
                tree: puppet_root.tree(),
            };
            let rpcd = ScenarioRun {
                outcome: rpcd_runs::apply(&case.catalog, rpcd_root, flags),
                tree: rpcd_root.tree(),
            };
            pairs.push((puppet, rpcd));
            if rpcd_runs::has_pending_refreshes(rpcd_root) {
                break;
            }
        }
        let (puppet, rpcd): (Vec<ScenarioRun>, Vec<ScenarioRun>) = pairs.into_iter().unzip();
        for difference in find_differences(&puppet, &rpcd) {
            writeln!(wrong, "PARITY_SEED={seed} PARITY_N=1 ({:?}): {difference}", case.flags)
                .unwrap();
        }
        if wrong.len() > 20_000 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
