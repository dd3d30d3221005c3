//! The machine's Puppet as a resident process: `tests/parity/oracle.rb` reads and writes one JSON document per line.

#![expect(
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "starts the real Puppet, and panics if it does not answer"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::outcome::RunOutcome;
use super::scenario::{ApplyFlags, corpus_directory};
use super::scratch_root::ScratchRoot;

#[derive(Debug)]
pub(crate) struct PuppetOracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl PuppetOracle {
    /// Starts the process. Returns `None`, with a message, if Puppet is not installed and the run skips tests that need
    /// it.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with_programs(None)
    }

    /// Like [`Self::start`], with further programs in a directory.
    pub(crate) fn start_with_programs(programs: Option<&Path>) -> Option<Self> {
        let programs = programs.map_or_else(String::new, |path| format!("{}:", path.display()));
        let script = corpus_directory().join("oracle.rb");
        let mut command = if has_namespaces() {
            let mut command = Command::new("unshare");
            command.args(["--mount", "ruby"]);
            command
        } else {
            Command::new("ruby")
        };
        let started = command
            .arg(script)
            .env("PATH", format!("{programs}/usr/sbin:/usr/bin:/sbin:/bin"))
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let oracle = started.ok().and_then(Self::from_child);
        if oracle.is_none() {
            assert!(
                muster_tests::tools::is_skipped("puppet"),
                "puppet is not installed: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT"
            );
            print_line("skipped: puppet is not installed; tools/fetch-puppet installs it");
        }
        oracle
    }

    fn from_child(mut child: Child) -> Option<Self> {
        let (input, output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut oracle = Self { child, input, output };
        oracle.read_answer()?.get("ready")?;
        Some(oracle)
    }

    fn read_answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    fn send_request(&mut self, request: &Value) -> Value {
        writeln!(self.input, "{request}").unwrap();
        self.read_answer().expect("the oracle ended")
    }

    /// The catalog that Puppet compiles from a manifest.
    pub(crate) fn compile(&mut self, manifest: &Path) -> Value {
        let mut answer = self.send_request(&json!({"op": "compile", "manifest": manifest}));
        assert!(answer.get("error").is_none(), "{}: {answer}", manifest.display());
        answer["catalog"].take()
    }

    /// Applies a catalog of the corpus in a scratch root.
    pub(crate) fn apply(
        &mut self,
        catalog: &str,
        root: &ScratchRoot,
        flags: &ApplyFlags,
    ) -> RunOutcome {
        let request = json!({
            "op": "apply", "catalog": root.catalog(catalog), "state": root.state(), "etc": root.etc(),
            "noop": flags.noop, "tags": flags.tags, "skip_tags": flags.skip_tags,
        });
        let answer = self.send_request(&request);
        assert!(answer.get("error").is_none(), "Puppet did not apply the catalog: {answer}");
        let exit = answer["exit"].as_i64().unwrap();
        RunOutcome::from_report(&answer["report"], exit, root)
    }
}

impl Drop for PuppetOracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a line to the output of the tests.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn print_line(line: &str) {
    eprintln!("{line}");
}

/// Whether this user may create mount namespaces.
pub(crate) fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}
