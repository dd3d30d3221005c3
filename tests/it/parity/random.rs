//! Random catalogs, applied by the machine's Puppet and by ours: shapes of graphs that nobody thought of.
//!
//! `PARITY_N` catalogs (20 when nothing is said), from the seed `PARITY_SEED` on. A failure names its seed; with one alone,
//! `PARITY_KEEP=FILE` keeps the catalog.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::compare::differences;
use super::oracle::Oracle;
use super::ours;
use super::outcome::Run;
use super::scenario::{Flags, ROOT, Step};
use super::world::World;

/// A small generator of numbers (`SplitMix64`): the same seed is the same catalog on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// A container over a range of resources.
struct Container {
    reference: String,
    kind: &'static str,
    range: std::ops::Range<usize>,
}

/// What is applied, to what, and how.
struct Case {
    catalog: String,
    setup: Vec<Step>,
    flags: Flags,
}

/// A resource with its parameters, and the file that is there before.
fn resource(dice: &mut Dice, index: usize) -> (String, Map<String, Value>, Option<Step>) {
    let log = |word: &str| format!("/bin/sh -c 'echo {word}{index} >> {ROOT}/log'");
    let path = format!("{ROOT}/f{index}");
    let before =
        |text: &str| Step::File { path: format!("f{index}"), mode: 0o644, text: text.to_owned() };
    let exec = |parameters: Value| (format!("Exec[e{index}]"), parameters, None);
    let (reference, parameters, setup) = match dice.below(12) {
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
        9 => (format!("File[{ROOT}/none/f{index}]"), json!({"ensure": "directory"}), None),
        _ => (format!("File[{path}]"), json!({"ensure": "file", "content": "new"}), None),
    };
    let Value::Object(mut parameters) = parameters else {
        unreachable!("parameters are an object")
    };
    if dice.chance(10) {
        parameters.insert("noop".to_owned(), json!(dice.chance(70)));
    }
    (reference, parameters, setup)
}

/// Up to three containers side by side, the first of which may hold another.
fn containers(dice: &mut Dice, count: usize) -> Vec<Container> {
    let mut found: Vec<Container> = Vec::new();
    let mut from = 0;
    for number in 0..dice.below(4) {
        let begin = from + dice.below(3);
        let end = begin + dice.below(5);
        if end > count {
            break;
        }
        let (reference, kind) = if dice.chance(60) {
            (format!("Class[C{number}]"), "class")
        } else {
            (format!("Parity::Box[b{number}]"), "defined_type")
        };
        let inner = (end - begin > 2 && dice.chance(40)).then(|| Container {
            reference: format!("Parity::Box[inner{number}]"),
            kind: "defined_type",
            range: begin + 1..end - 1,
        });
        found.push(Container { reference, kind, range: begin..end });
        found.extend(inner);
        from = end;
    }
    found
}

/// Who comes before whom: mostly forward, so that few catalogs have cycles.
fn relate(dice: &mut Dice, everybody: &mut [(String, Map<String, Value>, std::ops::Range<usize>)]) {
    for _ in 0..dice.below(everybody.len() * 2) {
        let (one, other) = (dice.below(everybody.len()), dice.below(everybody.len()));
        let name = ["before", "require", "notify", "subscribe"]
            .get(dice.below(4))
            .copied()
            .unwrap_or("before");
        let backward = dice.chance(1);
        let (Some((first, _, range)), Some((second, _, later))) =
            (everybody.get(one), everybody.get(other))
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
        if let Some((_, parameters, _)) = everybody.get_mut(holder) {
            let known = parameters.entry(name).or_insert_with(|| json!([]));
            known.as_array_mut().unwrap().push(json!(named));
        }
    }
}

fn case(seed: u64) -> Case {
    let mut dice = Dice(seed);
    let count = 3 + dice.below(10);
    let (mut setup, mut everybody) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (reference, parameters, before) = resource(&mut dice, index);
        setup.extend(before);
        everybody.push((reference, parameters, index..index + 1));
    }
    let containers = containers(&mut dice, count);
    let holder = |index: usize, but: &str| {
        let mut around = containers
            .iter()
            .filter(|container| container.range.contains(&index) && container.reference != but);
        around.next_back().map_or("Class[main]", |container| container.reference.as_str())
    };
    let mut edges = vec![json!({"source": "Stage[main]", "target": "Class[main]"})];
    for container in &containers {
        let is_inner = container.reference.contains("inner");
        let around = if is_inner {
            holder(container.range.start, &container.reference)
        } else {
            "Class[main]"
        };
        edges.push(json!({"source": around, "target": container.reference}));
        everybody.push((container.reference.clone(), Map::new(), container.range.clone()));
    }
    for (reference, _, range) in everybody.iter().take(count) {
        edges.push(json!({"source": holder(range.start, ""), "target": reference}));
    }
    relate(&mut dice, &mut everybody);
    let kind_of = |reference: &str| {
        let container = containers.iter().find(|container| container.reference == reference);
        container.map_or("compilable_type", |container| container.kind)
    };
    let mut resources: Vec<Value> = everybody
        .iter()
        .map(|(reference, parameters, _)| {
            let tags: Vec<String> =
                dice.chance(25).then(|| format!("t{}", dice.below(2))).into_iter().collect();
            written(reference, kind_of(reference), parameters, &tags)
        })
        .collect();
    dice.shuffle(&mut resources);
    let beginning = [
        json!({"type": "Stage", "title": "main", "tags": ["stage"], "exported": false, "kind": "compilable_type", "parameters": {"name": "main"}}),
        json!({"type": "Class", "title": "main", "tags": ["class"], "exported": false, "kind": "unknown", "parameters": {"name": "main"}}),
    ];
    resources.splice(0..0, beginning);
    let flags = match dice.below(8) {
        0 => Flags { noop: true, ..Flags::default() },
        1 => Flags { tags: Some("t0".to_owned()), ..Flags::default() },
        2 => Flags { skip_tags: Some("t1".to_owned()), ..Flags::default() },
        _ => Flags::default(),
    };
    let catalog = json!({
        "tags": [], "name": "parity.example.net", "version": 1, "code_id": null, "catalog_format": 2, "environment": "production",
        "catalog_uuid": "00000000-0000-0000-0000-000000000000", "resources": resources, "edges": edges, "classes": [],
    });
    Case { catalog: serde_json::to_string_pretty(&catalog).unwrap(), setup, flags }
}

fn written(reference: &str, kind: &str, parameters: &Map<String, Value>, tags: &[String]) -> Value {
    let (type_name, title) = reference.trim_end_matches(']').split_once('[').unwrap();
    let mut tags = tags.to_vec();
    tags.push(type_name.to_lowercase());
    json!({"type": type_name, "title": title, "tags": tags, "exported": false, "kind": kind, "parameters": parameters})
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// One run with the case's flags and, when nothing is owed after it, one more without. What Puppet has forgotten by then, ours has not.
#[test]
fn random_catalogs_end_as_puppet_ends_them() {
    let Some(mut oracle) = Oracle::start() else {
        return;
    };
    let (begin, count) = (number("PARITY_SEED", 1), number("PARITY_N", 20));
    let mut wrong = String::new();
    for seed in begin..begin + count {
        let case = case(seed);
        if let Some(path) = std::env::var_os("PARITY_KEEP") {
            std::fs::write(path, &case.catalog).unwrap();
        }
        let worlds = [World::new(false), World::new(false)];
        let [theirs, mine] = &worlds;
        for world in &worlds {
            case.setup.iter().for_each(|step| world.prepare(step));
        }
        let mut pairs = Vec::new();
        for flags in [&case.flags, &Flags::default()] {
            let puppet =
                Run { outcome: oracle.apply(&case.catalog, theirs, flags), tree: theirs.tree() };
            let rpcd = Run { outcome: ours::apply(&case.catalog, mine, flags), tree: mine.tree() };
            pairs.push((puppet, rpcd));
            if ours::owes(mine) {
                break;
            }
        }
        let (puppet, rpcd): (Vec<Run>, Vec<Run>) = pairs.into_iter().unzip();
        for difference in differences(&puppet, &rpcd) {
            writeln!(wrong, "PARITY_SEED={seed} PARITY_N=1 ({:?}): {difference}", case.flags)
                .unwrap();
        }
        if wrong.len() > 20_000 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
