//! The time to apply a catalog, compared with the machine's Puppet on the same catalog in the same run.
//!
//! Both programs are started once per measurement, including process start. Puppet uses its own directories. Without
//! Puppet nothing is measured, and the report states that.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::report::{Figure, Section, Table};

/// Number of measurements of each program.
const ROUNDS: usize = 3;

const METHOD: &str =
    "Complete programs, started once per measurement, with the same catalog in the same run.";

/// One measurement with both programs.
struct EngineTimes {
    what: &'static str,
    rpcd: Duration,
    puppet: Duration,
}

/// Measures with a catalog of this many files.
pub(crate) fn bench(files: usize) -> Section {
    let title = format!("A catalog of {files} files, median of {ROUNDS}");
    let mut section = Section::of(title, METHOD);
    if !Path::new("/usr/bin/puppet").exists() && !Path::new("/opt/puppetlabs/bin/puppet").exists() {
        section.method = "Not measured: Puppet is not installed on this machine.";
        return section;
    }
    let (mut creating, mut unchanged) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (rpcd, puppet) = (CatalogFixture::new(files), CatalogFixture::new(files));
        creating.push((rpcd.apply(), puppet.apply_with_puppet()));
        unchanged.push((rpcd.apply(), puppet.apply_with_puppet()));
    }
    let user =
        CatalogFixture::with(&json!([resource("User", "root", &json!({"ensure": "present"}))]));
    let users: Vec<_> = (0..ROUNDS).map(|_| (user.apply(), user.apply_with_puppet())).collect();
    let rows = [
        row("all files are created", &creating),
        row("no changes", &unchanged),
        row("one user, no changes", &users),
    ];
    add(&mut section, &rows);
    section
}

fn row(what: &'static str, measured: &[(Duration, Duration)]) -> EngineTimes {
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    EngineTimes {
        what,
        rpcd: median(measured.iter().map(|(rpcd, _)| *rpcd).collect()),
        puppet: median(measured.iter().map(|(_, puppet)| *puppet).collect()),
    }
}

fn add(section: &mut Section, rows: &[EngineTimes]) {
    let mut table = Table::new(["", "rpcd apply ms", "puppet apply ms", "times faster"]);
    for row in rows {
        let (rpcd, puppet) = (row.rpcd.as_secs_f64() * 1e3, row.puppet.as_secs_f64() * 1e3);
        table.rows.push(vec![
            row.what.to_owned(),
            format!("{rpcd:.1}"),
            format!("{puppet:.0}"),
            format!("{:.0}", puppet / rpcd),
        ]);
        let name = format!("catalog, {} x puppet apply", row.what);
        section.figures.push(Figure::ratio(name, rpcd / puppet));
    }
    section.tables.push(table);
}

/// A scratch directory with a catalog.
struct CatalogFixture {
    directory: TempDir,
}

impl CatalogFixture {
    fn new(files: usize) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(fixture.path("w")).unwrap();
        let file = |number: usize| {
            let title = fixture.path("w").join(format!("file-{number:05}"));
            let parameters = json!({"ensure": "file", "mode": "0644", "content": format!("line of file {number}\n")});
            resource("File", &title.to_string_lossy(), &parameters)
        };
        fixture.write(&Value::Array((0..files).map(file).collect()));
        fixture
    }

    fn with(resources: &Value) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fixture.write(resources);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the catalog in Puppet's format, which both programs read.
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
        run_timed(command)
    }

    fn apply_with_puppet(&self) -> Duration {
        let mut command = Command::new("puppet");
        command.env("PATH", "/opt/puppetlabs/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.arg("apply").arg("--catalog").arg(self.path("catalog.json"));
        for name in ["conf", "code", "var", "run", "log", "public", "ssl"] {
            let directory = self.path("puppet").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            command.arg(format!("--{name}dir")).arg(directory);
        }
        command.args(["--certname", "bench", "--color=false", "--no-report"]);
        run_timed(command)
    }
}

fn resource(type_name: &str, title: &str, parameters: &Value) -> Value {
    json!({"type": type_name, "title": title, "tags": [type_name.to_lowercase()], "exported": false, "kind": "compilable_type", "parameters": parameters})
}

fn run_timed(mut command: Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().unwrap();
    let elapsed = started.elapsed();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    elapsed
}
