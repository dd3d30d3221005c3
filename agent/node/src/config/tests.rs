//! Tests of the configuration through its public interface, with real files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_policy::RuleVerdict;
use muster_wire::identity::{Identity, SubjectName};
use proptest::prelude::*;
use serde_json::json;

use super::defaults::DetectedDefaults;
use super::{Config, ConfigError, ConfigFault, LogFormat, SettingOrigin};

const OPERATOR: &str = "OAFGH3WGBOD7HWXMWZ6D2ABKXUVSGZ3FOJ7ZZEQDZSEQDLSPFZEXAMPL";

fn minimal() -> String {
    format!("[broker]\nurls = [\"tls://broker:4222\"]\n[trust]\noperator = \"{OPERATOR}\"\n")
}

/// Writes the files below a scratch directory and loads `rpcd.toml`.
fn load(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Config, ConfigError>) {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = scratch.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let config = Config::load(&scratch.path().join("rpcd.toml"));
    (scratch, config)
}

fn faults(text: &str) -> Vec<ConfigFault> {
    match load(&[("rpcd.toml", text)]).1 {
        Err(ConfigError::Invalid(faults)) => faults,
        other => panic!("{other:?}"),
    }
}

#[test]
fn minimal_configuration_has_safe_defaults() {
    let text = format!("identity = \"DB1.Acme.net\"\n{}", minimal());
    let (scratch, config) = load(&[("rpcd.toml", &text)]);
    let config = config.unwrap();
    assert_eq!(config.identity.as_str(), "db1.acme.net");
    assert_eq!(config.collectives, [SubjectName::parse("muster").unwrap()]);
    assert_eq!(config.policy.default, RuleVerdict::Deny);
    assert!(!config.broker.plaintext_on_loopback);
    assert_eq!(config.broker.ca, None);
    assert_eq!(config.broker.credentials, scratch.path().join("node.creds"));
    assert_eq!(config.paths.policies, scratch.path().join("policies"));
    assert_eq!(config.paths.root, Path::new("/"));
    assert_eq!(config.requests.skew, Duration::from_secs(30));
    assert_eq!(config.log.format, LogFormat::Text);
    assert!(config.warnings().is_empty());
}

#[test]
fn later_files_override_single_keys_and_origins_have_file_and_line() {
    let (scratch, config) = load(&[
        (
            "rpcd.toml",
            &format!("identity = \"a\"\n{}[limits]\nqueue = 7\nconcurrency = 3\n", minimal()),
        ),
        ("conf.d/20-late.toml", "[limits]\n\nqueue = 9\n"),
        ("conf.d/10-early.toml", "limits.queue = 8\nlog.format = \"json\"\n"),
        ("conf.d/.hidden.toml", "limits.queue = 1"),
        ("conf.d/README", "not toml"),
    ]);
    let config = config.unwrap();
    assert_eq!((config.limits.queue, config.limits.concurrency), (9, 3));
    assert_eq!(config.log.format, LogFormat::Json);
    let late = scratch.path().join("conf.d/20-late.toml");
    assert_eq!(config.origin("limits.queue"), Some(&SettingOrigin::File { path: late, line: 3 }));
    assert_eq!(config.origin("drain.seconds"), Some(&SettingOrigin::Default));
    assert_eq!(config.origin("nothing"), None);
}

#[test]
fn paths_are_relative_to_the_file_that_sets_them() {
    let (scratch, config) = load(&[
        ("rpcd.toml", &format!("identity = \"a\"\n{}[paths]\nstate = \"./s/../t\"\n", minimal())),
        ("conf.d/x.toml", "[paths]\naudit = \"a.log\"\nroot = \"/srv\"\n[facts]\nfacter = \"\"\n"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.paths.state, scratch.path().join("s/../t"));
    assert_eq!(config.paths.audit, scratch.path().join("conf.d/a.log"));
    assert_eq!(config.paths.root, Path::new("/srv"));
    assert_eq!(config.facts.facter, None);
}

#[test]
fn paths_of_plugins_are_relative_to_the_file_that_sets_them() {
    let plugins = "[plugins.puppetral]\ntypes_dir = \"../types.d\"\nruby = \"ruby\"\n\
                   [plugins.external]\npaths = [\"agents\", \"/opt/agents\"]\n\
                   [plugins.directory]\ncredentials = \"../directory.creds\"\n\
                   [plugins.directory.http]\nsocket = \"/run/d.sock\"\nsocket_group = \"puppet\"\ntokens = \"tokens\"\n";
    let (scratch, config) = load(&[
        ("rpcd.toml", &format!("identity = \"a\"\n{}", minimal())),
        ("conf.d/x.toml", plugins),
    ]);
    let config = config.unwrap();
    let directory = scratch.path().join("conf.d");
    let puppetral = &config.plugins["puppetral"];
    assert_eq!(puppetral["types_dir"], json!(directory.join("../types.d")));
    assert_eq!(puppetral["ruby"], json!("ruby"));
    let paths = &config.plugins["external"]["paths"];
    assert_eq!(*paths, json!([directory.join("agents"), "/opt/agents"]));
    let directory_options = &config.plugins["directory"];
    assert_eq!(directory_options["credentials"], json!(directory.join("../directory.creds")));
    let http = json!({"socket": "/run/d.sock", "socket_group": "puppet", "tokens": directory.join("tokens")});
    assert_eq!(directory_options["http"], http);
}

#[test]
fn metrics_are_off_by_default_and_a_bare_port_listens_on_loopback() {
    let with = |listen: &str| {
        let more = format!("[metrics]\nlisten = \"{listen}\"\n");
        format!("identity = \"a\"\n{}{more}", minimal())
    };
    let listen = |text: &str| {
        let config = load(&[("rpcd.toml", text)]).1.unwrap();
        config.metrics.listen.map(|address| address.to_string())
    };
    assert_eq!(listen(&format!("identity = \"a\"\n{}", minimal())), None);
    for (given, meant) in [
        ("", None),
        ("9464", Some("127.0.0.1:9464")),
        ("[::1]:9464", Some("[::1]:9464")),
        ("10.0.0.1:9464", Some("10.0.0.1:9464")),
    ] {
        assert_eq!(listen(&with(given)).as_deref(), meant, "{given}");
    }
    for wrong in ["localhost:9464", "127.0.0.1", "65536", "-1"] {
        assert_eq!(faults(&with(wrong))[0].key(), Some("metrics.listen"), "{wrong}");
    }
}

#[test]
fn agent_limits_override_the_general_limits() {
    let text = format!("identity = \"a\"\n{}[limits.agents.package]\nconcurrency = 1\n", minimal());
    let config = load(&[("rpcd.toml", &text)]).1.unwrap();
    let of = |name: &str| config.limits.agent_limits(name);
    assert_eq!((of("package").concurrency, of("package").queue), (1, 100));
    assert_eq!(of("service").concurrency, 10);
}

#[test]
fn warns_about_unknown_keys() {
    let text =
        format!("identity = \"a\"\nnonsense = 1\n{}[request]\nskew_seconds = 5\n", minimal());
    let config = load(&[("rpcd.toml", &text)]).1.unwrap();
    let told: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert!(told[0].ends_with("rpcd.toml:2: unknown key `nonsense` is ignored"), "{told:?}");
    let hint = "rpcd.toml:8: unknown key `request.skew_seconds` is ignored; did you mean `requests.skew_seconds`?";
    assert!(told[1].ends_with(hint), "{told:?}");
    assert_eq!(config.requests.skew, Duration::from_secs(30));
    assert!(config.check_report().contains("warning: "));
}

#[test]
fn reports_all_invalid_values_with_file_and_line() {
    let faults = faults(
        "identity = \"no good\"\ncollectives = []\nlimits = 3\n[broker]\nurls = \"tls://x\"\n\
         plaintext_on_loopback = \"yes\"\n[policy]\ndefault = \"perhaps\"\n[drain]\nseconds = -1\n\
         [requests]\nskew_seconds = 1.5\n[trust]\naccount = \"\"\n[plugins]\nx = 1\n",
    );
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    for expected in [
        "rpcd.toml:1: `identity`: `no good` contains ' '",
        "rpcd.toml:2: `collectives` is []; it must be a list with at least one entry",
        "rpcd.toml:3: `limits` is a number; it must be a table",
        "rpcd.toml:5: `broker.urls` is a string; it must be a list of strings",
        "rpcd.toml:6: `broker.plaintext_on_loopback` is a string; it must be true or false",
        "rpcd.toml:8: `policy.default` is \"perhaps\"; it must be one of deny, allow",
        "rpcd.toml:10: `drain.seconds` is -1; it must be a number from 0 to 86400",
        "rpcd.toml:12: `requests.skew_seconds` is a number; it must be a whole number",
        "rpcd.toml:14: `trust.account` is \"\"; it must be a path",
        "rpcd.toml:16: `plugins.x` is a number; it must be a table",
        "`trust.operator` is not set",
    ] {
        assert!(told.iter().any(|line| line.contains(expected)), "{expected}\n{told:#?}");
    }
    assert_eq!(told.len(), 11, "{told:#?}");
}

#[test]
fn misplaced_secrets_are_refused_and_not_repeated() {
    let told =
        faults("broker.urls = [\"tls://rip:hunter2@broker\"]\ntrust.operator = \"SOhunter2\"\n");
    let told = ConfigError::Invalid(told).to_string();
    assert!(told.contains("user name") && told.contains("not its seed"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn errors_of_broken_and_missing_files_name_the_file() {
    let (_scratch, broken) = load(&[("rpcd.toml", "a = 1\nb = \n")]);
    let told = broken.unwrap_err().to_string();
    assert!(told.contains("rpcd.toml:2: "), "{told}");
    let (_scratch, missing) = load(&[]);
    assert!(matches!(missing, Err(ConfigError::Read { .. })));
    let (_scratch, large) = load(&[("rpcd.toml", &"#".repeat(1024 * 1024 + 1))]);
    assert!(matches!(large, Err(ConfigError::TooLarge { .. })));
}

#[test]
fn looks_up_items_by_dotted_key_and_redacts_secrets() {
    let text = format!(
        "identity = \"a\"\n{}[plugins.x]\ny = [1, {{ token = \"t0k\" }}]\ndb.password = \"hunter2\"\n\
         when = 2026-01-01\n[plugins.empty]\n",
        minimal()
    );
    let config = load(&[("rpcd.toml", &text)]).1.unwrap();
    assert_eq!(config.redacted_item("broker.urls"), Some(json!(["tls://broker:4222"])));
    assert_eq!(config.redacted_item("drain"), Some(json!({"seconds": 30})));
    assert_eq!(config.redacted_item("plugins.x.y"), Some(json!([1, {"token": "(redacted)"}])));
    assert_eq!(config.redacted_item("plugins.x.db.password"), Some(json!("(redacted)")));
    assert_eq!(config.redacted_item("plugins.x.when"), Some(json!("2026-01-01")));
    assert_eq!(config.redacted_item("plugins.x.z"), None);
    assert_eq!(config.redacted_item(""), None);
    assert_eq!(config.plugins["x"]["db"]["password"], json!("hunter2"));
    assert!(config.plugins["empty"].is_empty());
    let report = config.check_report();
    assert!(!report.contains("hunter2") && !report.contains("t0k"), "{report}");
}

#[test]
fn report_is_aligned_and_names_each_origin() {
    let around = DetectedDefaults {
        identity: Some(Identity::parse("n1").unwrap()),
        classes: "/classes.txt",
    };
    let files = [("/e/rpcd.toml".into(), minimal())];
    let config = Config::merge_files(Path::new("/e/rpcd.toml"), &around, &files).unwrap();
    let report = config.check_report();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines.len(), 54, "{report}");
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["identity", "=", "\"n1\"", "#", "default"]
    );
    assert!(lines[2].ends_with("# /e/rpcd.toml:2"), "{report}");
    let equals: Vec<_> = lines.iter().map(|line| line.find(" = ")).collect();
    assert!(equals.iter().all(|at| *at == equals[0]), "{report}");
    assert!(report.contains("broker.ca                           = none"), "{report}");
}

#[test]
fn requires_an_identity_if_the_host_name_is_unusable() {
    let around = DetectedDefaults { identity: None, classes: "/classes.txt" };
    let files = [("/e/rpcd.toml".into(), minimal())];
    let error = Config::merge_files(Path::new("/e/rpcd.toml"), &around, &files).unwrap_err();
    assert!(error.to_string().starts_with("`identity` is not set"), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "(\\PC|\n|\\[|\\]|=|\"|plugins|limits|agents|\\.){0,80}") {
        let around = DetectedDefaults { identity: None, classes: "/c" };
        let _ = Config::merge_files(Path::new("/e/rpcd.toml"), &around, &[("/e/rpcd.toml".into(), text)]);
    }
}
