//! What applying a catalog costs, beside the machine's own Puppet, on the same catalog in the same run.
//!
//! Both are started as a person would start them, once for each measurement: the process' start is part of it. Puppet takes its
//! own directories. Without Puppet nothing is measured, and that is said.

#![expect(clippy::disallowed_types, reason = "what is measured are whole programs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::report::{Figure, Section, Table};

/// How often each is measured.
const ROUNDS: usize = 3;

const METHOD: &str =
    "Whole programs, started once for each measurement, on the same catalog in the same run.";

/// One measurement: the same work by both.
struct Row {
    what: &'static str,
    ours: Duration,
    puppet: Duration,
}

/// Measures with a catalog of so many files.
pub(crate) fn bench(files: usize) -> Section {
    let title = format!("A catalog of {files} files, median of {ROUNDS}");
    let mut section = Section::of(title, METHOD);
    if !Path::new("/usr/bin/puppet").exists() && !Path::new("/opt/puppetlabs/bin/puppet").exists() {
        section.method = "Not measured: there is no Puppet on this machine to be beside.";
        return section;
    }
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (ours, puppet) = (World::new(files), World::new(files));
        fresh.push((ours.apply(), puppet.puppet()));
        again.push((ours.apply(), puppet.puppet()));
    }
    let user = World::with(&json!([resource("User", "root", &json!({"ensure": "present"}))]));
    let users: Vec<_> = (0..ROUNDS).map(|_| (user.apply(), user.puppet())).collect();
    let rows = [
        row("all files are made", &fresh),
        row("nothing is to be done", &again),
        row("one user, nothing is to be done", &users),
    ];
    add(&mut section, &rows);
    section
}

fn row(what: &'static str, measured: &[(Duration, Duration)]) -> Row {
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Row {
        what,
        ours: median(measured.iter().map(|(ours, _)| *ours).collect()),
        puppet: median(measured.iter().map(|(_, puppet)| *puppet).collect()),
    }
}

fn add(section: &mut Section, rows: &[Row]) {
    let mut table = Table::new(["", "rpcd apply ms", "puppet apply ms", "times faster"]);
    for row in rows {
        let (ours, puppet) = (row.ours.as_secs_f64() * 1e3, row.puppet.as_secs_f64() * 1e3);
        table.rows.push(vec![
            row.what.to_owned(),
            format!("{ours:.1}"),
            format!("{puppet:.0}"),
            format!("{:.0}", puppet / ours),
        ]);
        let name = format!("catalog, {} x puppet apply", row.what);
        section.figures.push(Figure::ratio(name, ours / puppet));
    }
    section.tables.push(table);
}

/// A scratch directory with a catalog.
struct World {
    directory: TempDir,
}

impl World {
    fn new(files: usize) -> Self {
        let world = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(world.path("w")).unwrap();
        let file = |number: usize| {
            let title = world.path("w").join(format!("file-{number:05}"));
            let words = json!({"ensure": "file", "mode": "0644", "content": format!("line of file {number}\n")});
            resource("File", &title.to_string_lossy(), &words)
        };
        world.write(&Value::Array((0..files).map(file).collect()));
        world
    }

    fn with(resources: &Value) -> Self {
        let world = Self { directory: tempfile::tempdir().unwrap() };
        world.write(resources);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puppet's own form, which both read.
    fn write(&self, resources: &Value) {
        let mut all = vec![
            json!({"type": "Stage", "title": "main", "tags": ["stage"], "exported": false, "kind": "compilable_type", "parameters": {"name": "main"}}),
            json!({"type": "Class", "title": "main", "tags": ["class"], "exported": false, "kind": "unknown", "parameters": {"name": "main"}}),
        ];
        let mut edges = vec![json!({"source": "Stage[main]", "target": "Class[main]"})];
        for resource in resources.as_array().unwrap() {
            let target = format!(
                "{}[{}]",
                resource["type"].as_str().unwrap(),
                resource["title"].as_str().unwrap()
            );
            edges.push(json!({"source": "Class[main]", "target": target}));
            all.push(resource.clone());
        }
        let catalog = json!({
            "name": "bench", "version": 1, "environment": "production", "catalog_format": 2, "tags": [], "classes": [],
            "code_id": null, "catalog_uuid": "0", "resources": all, "edges": edges,
        });
        std::fs::write(self.path("catalog.json"), catalog.to_string()).unwrap();
    }

    fn apply(&self) -> Duration {
        let rpcd = std::env::current_exe().unwrap().with_file_name("rpcd");
        let mut command = Command::new(rpcd);
        command.arg("apply").arg(self.path("catalog.json"));
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--puppet-state").arg(self.path("none"));
        timed(command)
    }

    fn puppet(&self) -> Duration {
        let mut command = Command::new("puppet");
        command.env("PATH", "/opt/puppetlabs/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.arg("apply").arg("--catalog").arg(self.path("catalog.json"));
        for name in ["conf", "code", "var", "run", "log", "public", "ssl"] {
            let directory = self.path("puppet").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            command.arg(format!("--{name}dir")).arg(directory);
        }
        command.args(["--certname", "bench", "--color=false", "--no-report"]);
        timed(command)
    }
}

fn resource(type_name: &str, title: &str, words: &Value) -> Value {
    json!({"type": type_name, "title": title, "tags": [type_name.to_lowercase()], "exported": false, "kind": "compilable_type", "parameters": words})
}

fn timed(mut command: Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let output = command.output().unwrap();
    let took = began.elapsed();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    took
}
