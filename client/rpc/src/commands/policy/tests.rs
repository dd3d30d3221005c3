//! `rpc policy` on real files: output and exit code.

use std::fs;
use std::path::Path;

use clap::Parser as _;
use muster_display::printer::VerbosityLevel;
use tempfile::TempDir;

use crate::cli::Cli;
use crate::commands::Command;
use crate::commands::policy::{CommandContext, CommandResult, PolicyCommand, run};
use crate::flags::deferred::Deferred;
use crate::outcome::exit::CommandExitCode;
use crate::report::testing::printer;
use crate::session::context::Configuration;
use crate::session::environment::ProcessEnvironment;

const SERVICE: &str = "policy default deny\n\
    allow\tadmins\t*\t*\n\
    deny\t*\trestart\tenvironment=production and not maintenance\n\
    allow\toncall\tstatus restart\t*\n\
    allow\toncall\tstop\t*\t*\tapproved-by=admins\n";

/// The policy files of a node.
fn policies(service: &str) -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("groups"), "admins rip anna\n").unwrap();
    fs::write(scratch.path().join("service.policy"), service).unwrap();
    scratch
}

/// Runs a command that sends nothing.
fn run_now(command: PolicyCommand, cx: CommandContext<'_>) -> CommandResult {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(command, cx))
}

/// Runs a command line in which `@` stands for the directory, and replaces the directory in the output.
fn rpc(line: &str, directory: &Path) -> (CommandExitCode, String, String) {
    let (result, data, messages) = try_rpc(line, directory);
    (result.unwrap(), data, messages)
}

/// The same for a command line that may fail.
fn try_rpc(line: &str, directory: &Path) -> (CommandResult, String, String) {
    let place = directory.display().to_string();
    let words = line.split(' ').map(|word| word.replace('@', &place));
    let cli = Cli::try_parse_from(words).unwrap();
    let Command::Policy(Deferred(command)) = cli.command else {
        panic!("{line} is not a policy command")
    };
    let (printer, data, talk) = printer(VerbosityLevel::Normal);
    // The command works without a configuration file; the one of the user who runs the tests must not apply.
    let environment = ProcessEnvironment::default();
    let (environment, configuration) = (&environment, &Configuration::default());
    let cx = CommandContext {
        config: None,
        context: None,
        environment,
        configuration,
        printer: &printer,
    };
    let result = run_now(*command, cx);
    let plain = |text: String| text.replace(&format!("{place}/"), "");
    (result, plain(data.text()), plain(talk.text()))
}

#[test]
fn good_policies_pass_the_check() {
    let scratch = policies(SERVICE);
    let (exit, data, _) = rpc("rpc policy check @", scratch.path());
    assert_eq!(
        (exit, data.as_str()),
        (CommandExitCode::Passed, "1 policy, 0 errors, 0 warnings\n")
    );
    let (exit, _, _) = rpc("rpc policy check --strict @/service.policy", scratch.path());
    assert_eq!(exit, CommandExitCode::Passed);
}

#[test]
fn check_reports_position_reason_and_advice() {
    let bad = format!("{SERVICE}allow rip * *\nallow\trip\t*\t(customer=acme\n");
    let scratch = policies(&bad);
    let (exit, data, _) = rpc("rpc policy check @", scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    insta::assert_snapshot!("policy_check_malformed", data);

    let odd = format!("{SERVICE}allow\tadmin\trestrat\t*\nallow\trip\tstop\tcustomer=acme\n");
    let scratch = policies(&odd);
    let (exit, data, _) = rpc("rpc policy check @", scratch.path());
    assert_eq!(exit, CommandExitCode::Passed);
    insta::assert_snapshot!("policy_check_odd", data);
    assert_eq!(rpc("rpc policy check --strict @", scratch.path()).0, CommandExitCode::SomeFailed);
    let (_, data, _) = rpc("rpc policy check -j @", scratch.path());
    insta::assert_snapshot!("policy_check_json", data);
}

#[test]
fn explanation_names_the_deciding_line() {
    let scratch = policies(SERVICE);
    let line = "rpc policy explain --caller joe --agent service --action restart --dir @ \
                --fact environment=production";
    let (exit, data, _) = rpc(line, scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    insta::assert_snapshot!("policy_explain_denied", data);
    let (exit, data, _) =
        rpc(&format!("{line} --class maintenance -j").replace("joe", "oncall"), scratch.path());
    assert_eq!(exit, CommandExitCode::Passed);
    insta::assert_snapshot!("policy_explain_json", data);
    let (exit, data, _) = rpc(
        "rpc policy explain --caller oncall --agent service --action stop --dir @",
        scratch.path(),
    );
    assert_eq!(exit, CommandExitCode::Passed);
    assert!(data.contains("approved by one of: admins"), "{data}");
    let (exit, data, _) = rpc(
        "rpc policy explain --caller rip --agent puppetral --action do --dir @",
        scratch.path(),
    );
    assert_eq!(exit, CommandExitCode::SomeFailed);
    assert_eq!(
        data,
        "rip is not allowed to call puppetral do\ndecided by default (no puppetral.policy)\n"
    );
}

/// A typing error in the action of a rule that allows everything was answered with "allowed".
#[test]
fn action_that_does_not_exist_is_an_error() {
    let scratch = policies("policy default allow\n");
    let explain = |agent: &str, action: &str| {
        let line =
            format!("rpc policy explain --caller rip --agent {agent} --action {action} --dir @");
        try_rpc(&line, scratch.path())
    };
    let (result, data, _) = explain("service", "restrt");
    let error = result.unwrap_err();
    assert_eq!((error.exit_code(), data.as_str()), (CommandExitCode::Usage, ""));
    let text = format!("{error} {:?}", error.hints());
    assert!(text.contains("restrt") && text.contains("restart"), "{text}");
    // An agent that only nodes have may have any action.
    let (result, data, messages) = explain("unicorn", "fly");
    assert_eq!(result.unwrap(), CommandExitCode::SomeFailed, "{data}");
    assert!(messages.contains("the request is not checked"), "{messages}");
}

#[test]
fn malformed_policy_denies_and_is_explained() {
    let scratch = policies("allow\trip\t*\t*\nalow\trip\n");
    let line = "rpc policy explain --caller rip --agent service --action stop --dir @";
    let (exit, data, talk) = rpc(line, scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    assert_eq!(
        data,
        "rip is not allowed to call service stop\ndecided by service.policy:2: malformed\n"
    );
    assert!(talk.contains("service.policy:2:1: expected"), "{talk}");
}

#[test]
fn test_cases_pass_or_report_the_actual_decision() {
    let scratch = policies(SERVICE);
    let inventory = r#"{"schema": "muster.node.v1", "node": {"node": "db1"}, "facts": {"environment": "production"}}"#;
    fs::write(scratch.path().join("db1.json"), inventory).unwrap();
    let good = r#"
        [nodes.db1]
        inventory = "db1.json"
        [[cases]]
        caller = "rip"
        agent = "service"
        action = "restart"
        node = "db1"
        expect = "allow"
        rule = "service.policy:2"
        [[cases]]
        name = "nobody else restarts in production"
        caller = "oncall"
        agent = "service"
        action = "restart"
        node = "db1"
        expect = "deny"
        [[cases]]
        name = "but in maintenance"
        caller = "oncall"
        agent = "service"
        action = "restart"
        node = "db1"
        classes = ["Maintenance"]
        expect = "allow"
    "#;
    let file = scratch.path().join("good.toml");
    fs::write(&file, good).unwrap();
    let (exit, data, _) = rpc("rpc policy test @/good.toml", scratch.path());
    assert_eq!(exit, CommandExitCode::Passed, "{data}");
    assert!(data.ends_with("3 passed, 0 failed\n"), "{data}");

    fs::write(
        &file,
        good.replace("service.policy:2", "service.policy:4").replace("\"deny\"", "\"allow\""),
    )
    .unwrap();
    let (exit, data, _) = rpc("rpc policy test @/good.toml", scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    insta::assert_snapshot!("policy_test_failed", data);
    let (_, data, _) = rpc("rpc policy test -j @/good.toml", scratch.path());
    insta::assert_snapshot!("policy_test_json", data);
}

const BY_SOURCE: &str = "deny\t*\trestart\tpuppet().applying\n\
    allow\trip\t*\tpuppet().enabled=false\n";

#[test]
fn data_sources_are_unknown_without_assumed_outputs() {
    let scratch = policies(BY_SOURCE);
    let line = "rpc policy explain --caller rip --agent service --action restart --dir @";
    let (exit, data, _) = rpc(line, scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    insta::assert_snapshot!("policy_explain_unknown", data);
    let known = format!("{line} --data puppet().applying=false --data puppet().enabled=false");
    let (exit, data, _) = rpc(&known, scratch.path());
    assert_eq!(exit, CommandExitCode::Passed);
    assert!(data.contains("decided by service.policy:2\n"), "{data}");
    assert!(!data.contains("unknown"), "{data}");

    let cases = r#"
        [nodes.db1]
        data."puppet()" = { applying = false, enabled = true }
        [[cases]]
        caller = "rip"
        agent = "service"
        action = "restart"
        node = "db1"
        data."puppet()".enabled = false
        expect = "allow"
        rule = "service.policy:2"
        [[cases]]
        caller = "rip"
        agent = "service"
        action = "restart"
        expect = "allow"
    "#;
    fs::write(scratch.path().join("x.toml"), cases).unwrap();
    let (exit, data, _) = rpc("rpc policy test @/x.toml", scratch.path());
    assert_eq!(exit, CommandExitCode::SomeFailed);
    insta::assert_snapshot!("policy_test_unknown", data);
}

#[test]
fn check_validates_data_source_lookups() {
    let scratch = policies(&BY_SOURCE.replace("applying", "aplying"));
    let (exit, data, _) = rpc("rpc policy check @", scratch.path());
    assert_eq!(exit, CommandExitCode::Passed);
    insta::assert_snapshot!("policy_check_data", data);
}

#[test]
fn invalid_test_files_are_errors_that_name_the_file() {
    let scratch = policies(SERVICE);
    for (name, text) in [
        ("typo.toml", "[[cases]]\ncaller = \"rip\"\nagnt = \"service\"\n"),
        (
            "nowhere.toml",
            "[[cases]]\ncaller='rip'\nagent='a'\naction='b'\nnode='x'\nexpect='deny'\n",
        ),
        ("late.toml", "[[cases]]\ncaller='rip'\nagent='a'\naction='b'\nat='noon'\nexpect='deny'\n"),
    ] {
        fs::write(scratch.path().join(name), text).unwrap();
        let cli = Cli::try_parse_from([
            "rpc",
            "policy",
            "test",
            scratch.path().join(name).to_str().unwrap(),
        ])
        .unwrap();
        let Command::Policy(Deferred(command)) = cli.command else { panic!() };
        let (printer, ..) = printer(VerbosityLevel::Quiet);
        let cx = CommandContext {
            config: None,
            context: None,
            environment: &ProcessEnvironment::default(),
            configuration: &Configuration::default(),
            printer: &printer,
        };
        let error = run_now(*command, cx).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.exit_code(), CommandExitCode::Local);
    }
}

#[test]
fn shipped_policies_pass_their_check_and_tests() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/policies");
    let (exit, data, _) = rpc("rpc policy check --strict @", &shipped);
    assert_eq!(exit, CommandExitCode::Passed, "{data}");
    for (name, _) in muster_ddl::BUILTIN_AGENTS {
        assert!(shipped.join(format!("{name}.policy")).is_file(), "{name} has no policy");
    }
    let (exit, data, _) = rpc("rpc policy test @/policies.test.toml", &shipped);
    assert_eq!(exit, CommandExitCode::Passed, "{data}");
}

#[test]
fn files_writable_by_others_fail_the_check() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, bits) in [("service.policy", 0o664), ("groups", 0o666), ("", 0o777)] {
        let scratch = policies(SERVICE);
        mode(&scratch.path().join(name), bits);
        let (exit, data, _) = rpc("rpc policy check @ -j", scratch.path());
        let found: serde_json::Value = serde_json::from_str(&data).unwrap();
        let first = &found["findings"][0];
        assert_eq!(
            (exit, &first["code"]),
            (CommandExitCode::SomeFailed, &"unprotected".into()),
            "{data}"
        );
        assert!(first["message"].as_str().unwrap().contains("run `chmod go-w "), "{data}");
    }
}

#[test]
fn service_does_not_match_a_caller_of_its_name() {
    let scratch = policies("allow\trip\tstatus\t*\nallow\tservice=prov\trestart\t*\n");
    for (caller, action, expected) in [
        ("rip", "status", CommandExitCode::Passed),
        ("service=rip", "status", CommandExitCode::SomeFailed),
        ("prov", "restart", CommandExitCode::SomeFailed),
        ("service=prov", "restart", CommandExitCode::Passed),
    ] {
        let line = format!(
            "rpc policy explain --caller {caller} --agent service --action {action} --dir @"
        );
        assert_eq!(rpc(&line, scratch.path()).0, expected, "{line}");
    }
}
