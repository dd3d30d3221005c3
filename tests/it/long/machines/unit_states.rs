//! Services in all states that systemd knows, brought to all states that a resource can ask for: by our engine and by the machine's own
//! Puppet, each with units of its own. Both report the same changes and leave the same state.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::machines::nodes::{MachineNodes, NodeOptions};

const CONFIGURATION: &str = "[plugins.catalog]\nenabled = true\n";

/// What a unit is before: a name, and whether it runs.
const BEGINNINGS: [(&str, bool); 12] = [
    ("disabled", false),
    ("enabled", false),
    ("enabled", true),
    ("masked", false),
    ("masked", true),
    // Masked by hand, without being disabled first.
    ("hidden", false),
    ("runtime", false),
    ("static", false),
    ("static", true),
    ("indirect", false),
    ("linked", false),
    ("failing", false),
];

/// What a resource asks for: `ensure` and `enable`.
const WANTED: [(Option<&str>, Option<&str>); 10] = [
    (None, Some("true")),
    (None, Some("false")),
    (None, Some("mask")),
    (Some("running"), None),
    (Some("running"), Some("true")),
    (Some("running"), Some("false")),
    (Some("running"), Some("mask")),
    (Some("stopped"), Some("true")),
    (Some("stopped"), Some("false")),
    (Some("stopped"), Some("mask")),
];

/// A pair of units: one for us and one for Puppet.
struct UnitPair {
    beginning: &'static str,
    is_running: bool,
    wanted: (Option<&'static str>, Option<&'static str>),
    number: usize,
}

impl UnitPair {
    /// All pairs.
    fn all() -> Vec<Self> {
        let combinations = BEGINNINGS
            .iter()
            .flat_map(|beginning| WANTED.iter().map(move |wanted| (*beginning, *wanted)));
        combinations
            .enumerate()
            .map(|(number, ((beginning, is_running), wanted))| Self {
                beginning,
                is_running,
                wanted,
                number,
            })
            .collect()
    }

    fn unit(&self, side: &str) -> String {
        format!("{side}-{}", self.number)
    }

    /// The unit's files and links, made by hand so that systemd reads them once.
    fn prepare(&self, side: &str, script: &mut String) {
        let unit = self.unit(side);
        let (directory, install) = match self.beginning {
            "linked" => ("/opt", "WantedBy=multi-user.target"),
            "static" => ("/usr/lib/systemd/system", ""),
            "indirect" => ("/usr/lib/systemd/system", "Also=dbus.socket"),
            _ => ("/usr/lib/systemd/system", "WantedBy=multi-user.target"),
        };
        let service = match self.beginning {
            "failing" => "Type=oneshot\\nExecStart=/bin/false",
            _ => "ExecStart=/bin/sleep infinity",
        };
        let own = "/etc/systemd/system";
        let wants = format!(
            "ln -s {directory}/{unit}.service {own}/multi-user.target.wants/{unit}.service\n"
        );
        writeln!(
            script,
            "printf '[Service]\\n{service}\\n[Install]\\n{install}\\n' >{directory}/{unit}.service"
        )
        .unwrap();
        let links = match self.beginning {
            "enabled" => wants,
            "masked" => format!("ln -s /dev/null {own}/{unit}.service\n"),
            "hidden" => format!("{wants}ln -s /dev/null {own}/{unit}.service\n"),
            "runtime" => format!("ln -s /dev/null /run/systemd/system/{unit}.service\n"),
            "linked" => format!("ln -s /opt/{unit}.service {own}/{unit}.service\n"),
            _ => String::new(),
        };
        script.push_str(&links);
    }

    fn describe(&self) -> String {
        format!("{} (running: {}) to {:?}", self.beginning, self.is_running, self.wanted)
    }
}

/// Makes all units, starts those that run, and hides those that are masked.
async fn prepare_units(nodes: &MachineNodes, pairs: &[UnitPair]) {
    let (mut running, mut script) = (Vec::new(), String::from("set -e\n"));
    for pair in pairs {
        for side in ["ours", "theirs"] {
            pair.prepare(side, &mut script);
            if pair.is_running {
                running.push(pair.unit(side));
            }
        }
    }
    let (links, files): (Vec<_>, Vec<_>) =
        script.lines().partition(|line| line.starts_with("ln -s /dev/null"));
    let script = format!(
        "{}\nsystemctl daemon-reload\nsystemctl start {}\n{}\nsystemctl daemon-reload\n",
        files.join("\n"),
        running.join(" "),
        links.join("\n")
    );
    nodes.machines.pipe("m1", &script).await;
}

/// The changes of each unit, as `property to value`, by its number.
type Changes = BTreeMap<usize, Vec<String>>;

async fn apply_ours(nodes: &MachineNodes, pairs: &[UnitPair]) -> Changes {
    let resources: Vec<Value> = pairs
        .iter()
        .map(|pair| {
            let mut resource = json!({"type": "service", "title": pair.unit("ours")});
            for (name, value) in [("ensure", pair.wanted.0), ("enable", pair.wanted.1)] {
                if let Some(value) = value {
                    resource[name] = value.into();
                }
            }
            resource
        })
        .collect();
    let input = format!("catalog={}", json!(resources));
    let reply = nodes.call("m1", &["catalog", "apply", &input]).await;
    let events = reply["data"]["events"].as_array();
    let mut changes = Changes::new();
    for event in events.unwrap_or_else(|| panic!("{reply:#}")) {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let unit = text("resource").strip_prefix("Service[ours-").unwrap();
        let number = unit.trim_end_matches(']').parse().unwrap();
        let change = describe_change(text("property"), text("message"));
        changes.entry(number).or_default().push(change);
    }
    changes
}

async fn apply_theirs(nodes: &MachineNodes, pairs: &[UnitPair]) -> Changes {
    let mut manifest = String::new();
    for pair in pairs {
        write!(manifest, "service {{ '{}': provider => systemd,", pair.unit("theirs")).unwrap();
        for (name, value) in [("ensure", pair.wanted.0), ("enable", pair.wanted.1)] {
            if let Some(value) = value {
                write!(manifest, " {name} => {value},").unwrap();
            }
        }
        manifest.push_str(" }\n");
    }
    let script = format!(
        "cat >/var/units.pp <<'END'\n{manifest}END\npuppet apply --color=false /var/units.pp 2>&1"
    );
    let text = nodes.machines.sh("m1", &script).await;
    let mut changes = Changes::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once("Main/Service[theirs-") else { continue };
        let Some((unit, message)) = rest.split_once(": ") else { continue };
        let Some((number, property)) = unit.split_once("]/") else { continue };
        let change = describe_change(property, message);
        changes.entry(number.parse().unwrap()).or_default().push(change);
    }
    changes
}

/// A property and what became of it. A masked unit was disabled in Puppet's words.
fn describe_change(property: &str, message: &str) -> String {
    match message.rsplit_once(" to '") {
        Some((_, value)) if message.starts_with(property) => {
            format!("{property} to {}", value.trim_end_matches('\''))
        }
        _ => format!("{property} failed"),
    }
}

/// What systemd says of the units of one side, in the order of the pairs.
async fn read_units(nodes: &MachineNodes, pairs: &[UnitPair], side: &str) -> Vec<String> {
    let units: Vec<String> =
        pairs.iter().map(|pair| format!("{}.service", pair.unit(side))).collect();
    let script = format!("systemctl show --property=UnitFileState,ActiveState {}", units.join(" "));
    let text = nodes.machines.sh("m1", &script).await;
    text.split("\n\n").map(|unit| unit.lines().collect::<Vec<_>>().join(" ")).collect()
}

/// All differences of one run by both sides.
async fn compare_runs(nodes: &MachineNodes, pairs: &[UnitPair]) -> Vec<String> {
    let ours = apply_ours(nodes, pairs).await;
    let theirs = apply_theirs(nodes, pairs).await;
    let (our_units, their_units) =
        (read_units(nodes, pairs, "ours").await, read_units(nodes, pairs, "theirs").await);
    let mut differences = Vec::new();
    for (pair, (our_state, their_state)) in pairs.iter().zip(our_units.iter().zip(&their_units)) {
        if our_state != their_state {
            differences.push(format!("{}: {our_state}, Puppet: {their_state}", pair.describe()));
        }
        let mut our_changes = ours.get(&pair.number).cloned().unwrap_or_default();
        let their_changes = theirs.get(&pair.number).cloned().unwrap_or_default();
        // Puppet sets `enable` together with `ensure` without a mention.
        if their_changes.iter().any(|change| change.starts_with("ensure")) {
            our_changes.retain(|change| !change.starts_with("enable"));
        }
        if our_changes != their_changes {
            let what = pair.describe();
            differences.push(format!("{what}: {our_changes:?}, Puppet: {their_changes:?}"));
        }
    }
    differences
}

#[tokio::test(flavor = "multi_thread")]
async fn units_in_all_states_are_changed_as_by_puppet() {
    let options =
        NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let pairs = UnitPair::all();
    prepare_units(&nodes, &pairs).await;
    let beginnings = read_units(&nodes, &pairs, "ours").await;
    assert_eq!(beginnings, read_units(&nodes, &pairs, "theirs").await);
    for state in ["disabled", "enabled", "masked", "masked-runtime", "static", "indirect", "linked"]
    {
        let text = format!("UnitFileState={state}");
        assert!(
            beginnings.iter().any(|unit| unit.split(' ').any(|word| word == text)),
            "no unit is {state}"
        );
    }
    for run in ["first", "second"] {
        let differences = compare_runs(&nodes, &pairs).await;
        assert!(differences.is_empty(), "{run} run:\n{}", differences.join("\n"));
    }
    println!("{} pairs of units, two runs, no difference", pairs.len());
}
