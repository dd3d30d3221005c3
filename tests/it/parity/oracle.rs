//! The machine's own Puppet, resident: `tests/parity/oracle.rb`, a line of JSON in and a line of JSON out.

#![expect(
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "starts the real Puppet, and ends by panic when it does not answer"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::outcome::Outcome;
use super::scenario::{Flags, corpus};
use super::world::World;

#[derive(Debug)]
pub(crate) struct Oracle {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it; `None`, with a word why, where Puppet is not installed. Continuous integration must have it.
    pub(crate) fn start() -> Option<Self> {
        let script = corpus().join("oracle.rb");
        let mut command = if has_namespaces() {
            let mut command = Command::new("unshare");
            command.args(["--mount", "ruby"]);
            command
        } else {
            Command::new("ruby")
        };
        let started = command
            .arg(script)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let oracle = started.ok().and_then(Self::of);
        if oracle.is_none() {
            assert!(
                muster_tests::tools::is_skipped("puppet"),
                "puppet is not installed: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT"
            );
            tell("skipped: puppet is not installed; tools/fetch-puppet installs it");
        }
        oracle
    }

    fn of(mut child: Child) -> Option<Self> {
        let (ask, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut oracle = Self { child, ask, answers };
        oracle.answer()?.get("ready")?;
        Some(oracle)
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.ask, "{request}").unwrap();
        self.answer().expect("the oracle ended")
    }

    /// The catalog that Puppet compiles of a manifest.
    pub(crate) fn compile(&mut self, manifest: &Path) -> Value {
        let mut answer = self.ask(&json!({"op": "compile", "manifest": manifest}));
        assert!(answer.get("error").is_none(), "{}: {answer}", manifest.display());
        answer["catalog"].take()
    }

    /// Applies a catalog of the corpus in a world.
    pub(crate) fn apply(&mut self, catalog: &str, world: &World, flags: &Flags) -> Outcome {
        let request = json!({
            "op": "apply", "catalog": world.catalog(catalog), "state": world.state(), "etc": world.etc(),
            "noop": flags.noop, "tags": flags.tags, "skip_tags": flags.skip_tags,
        });
        let answer = self.ask(&request);
        assert!(answer.get("error").is_none(), "Puppet did not apply the catalog: {answer}");
        let exit = answer["exit"].as_i64().unwrap();
        Outcome::of_report(&answer["report"], exit, world)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A word to whoever reads the output of the tests.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn tell(line: &str) {
    eprintln!("{line}");
}

/// Whether this user may make mount namespaces.
pub(crate) fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}
