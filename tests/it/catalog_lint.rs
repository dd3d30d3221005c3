//! What `rpcd apply --lint` reports of a compiled catalog.

#![expect(clippy::disallowed_types, reason = "the test starts the real program")]

use std::process::{Command, Output};

use muster_tests::command::{describe_output, find_program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory for catalogs.
struct LintFixture(TempDir);

impl LintFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, resources: &[Value], options: &[&str]) -> Output {
        let catalog = self.0.path().join("catalog.json");
        std::fs::write(&catalog, json!(resources).to_string()).unwrap();
        Command::new(find_program("rpcd")).arg("apply").arg(catalog).args(options).output().unwrap()
    }

    /// The file that notifies Y.
    fn source() -> Value {
        json!({"type": "file", "title": "/srv/source", "ensure": "file", "notify": "Exec[Y]"})
    }

    /// Y, with refreshonly and these guards.
    fn exec(guards: &Value) -> Value {
        let mut exec =
            json!({"type": "exec", "title": "Y", "command": ["/bin/true"], "refreshonly": true});
        exec.as_object_mut().unwrap().extend(guards.as_object().unwrap().clone());
        exec
    }

    /// Findings and exit code of `--lint --strict`; without `--strict`, the findings are the same and the code is 0.
    fn lint(&self, resources: &[Value]) -> (String, Option<i32>) {
        let lenient = self.run(resources, &["--lint"]);
        assert_eq!(lenient.status.code(), Some(0), "{}", describe_output(&lenient));
        let strict = self.run(resources, &["--lint", "--strict"]);
        assert_eq!(strict.stdout, lenient.stdout);
        let text = String::from_utf8(strict.stdout).unwrap();
        let lines = text.lines().map(|line| format!("{}\n", line.trim_start()));
        (lines.collect(), strict.status.code())
    }

    /// `Exec[site]`, on which Y depends, and the source not.
    fn outside_dependency() -> Value {
        json!({"type": "exec", "title": "site", "command": ["/bin/true"], "before": "Exec[Y]"})
    }

    /// The lines of a path from `Exec[site]` to Y.
    fn failing_path() -> &'static str {
        "if Exec[site] fails in that run:\nExec[site]\n└─> Exec[Y]\n"
    }
}

/// A13.8: each refreshonly exec without creates, onlyif or unless is listed; `refreshonly` is no guard. One that has a
/// dependency outside its notifier's ancestors is listed with the failing path.
#[test]
fn a13_8_lint_lists_refreshonly_execs_without_guards() {
    let fixture = LintFixture::new();
    let y = LintFixture::exec(&json!({}));
    let (text, code) = fixture.lint(&[LintFixture::source(), y.clone()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("Exec[Y] runs only when File["), "{text}");
    assert!(text.contains("changes, and has no creates, unless or onlyif"), "{text}");
    assert!(!text.contains("fails in that run"), "there is no other dependency: {text}");

    let dependency = LintFixture::outside_dependency();
    let (text, code) = fixture.lint(&[LintFixture::source(), dependency.clone(), y.clone()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(LintFixture::failing_path()), "{text}");

    // A dependency that the notifier has, too, loses nothing: the notifier is skipped with it.
    let mut shared = dependency;
    shared["before"] = json!(["Exec[Y]", "File[/srv/source]"]);
    let (text, _) = fixture.lint(&[LintFixture::source(), shared, y]);
    assert!(text.contains("Exec[Y] runs only when") && !text.contains("Exec[site]"), "{text}");

    // Not a refreshonly exec.
    let always = json!({"type": "exec", "title": "Y", "command": ["/bin/true"], "creates": "/x"});
    let dependency = LintFixture::outside_dependency();
    let found = fixture.lint(&[LintFixture::source(), dependency, always]);
    assert_eq!(found, (String::new(), Some(0)));
}

/// A13.8: a guard besides `refreshonly` does not help against a dependency outside the notifier's ancestors.
#[test]
fn a13_8_lint_lists_guarded_execs_with_a_failing_path() {
    for guard in
        [json!({"creates": "/x"}), json!({"unless": "/bin/false"}), json!({"onlyif": "/bin/true"})]
    {
        let fixture = LintFixture::new();
        let y = LintFixture::exec(&guard);
        let dependency = LintFixture::outside_dependency();
        let (text, code) = fixture.lint(&[LintFixture::source(), dependency, y.clone()]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("changes; its guard does not run it later"), "{text}");
        assert!(text.contains(LintFixture::failing_path()), "{text}");
        // Without such a dependency there is no finding.
        let found = fixture.lint(&[LintFixture::source(), y]);
        assert_eq!(found, (String::new(), Some(0)), "{guard}");
    }
}

/// A13.8: an exec that nothing notifies never runs, with or without a guard.
#[test]
fn a13_8_lint_lists_orphaned_execs() {
    let fixture = LintFixture::new();
    for guard in [json!({}), json!({"creates": "/bin/x"})] {
        let orphan = LintFixture::exec(&guard);
        let (text, code) = fixture.lint(&[orphan]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("Exec[Y] never runs"), "{text}");
    }
}
