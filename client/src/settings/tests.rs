//! Tests of the configuration file through the public functions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{RpcSettings, RpcSettingsError};

/// A public key without a known private key.
fn operator() -> String {
    let pair =
        muster_wire::token::KeyPair::from_raw(muster_wire::token::KeyKind::Operator, &[7; 32]);
    pair.public_key().to_string()
}

fn minimal() -> String {
    format!("[broker]\nurls = [\"tls://b:4222\"]\n[trust]\noperator = \"{}\"\n", operator())
}

fn parse(text: &str) -> Result<RpcSettings, RpcSettingsError> {
    RpcSettings::parse(Path::new("/e/rpc.toml"), text)
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn minimal_file_has_two_keys() {
    let settings = parse(&minimal()).unwrap();
    assert_eq!(settings.collective.as_str(), "muster");
    assert_eq!(settings.credentials, PathBuf::from("/e/user.creds"));
    assert_eq!(settings.account, PathBuf::from("/e/account.jwt"));
    assert_eq!(settings.discovery_timeout, Duration::from_secs(2));
    assert_eq!(settings.discovery_window, None);
    assert!(!settings.plaintext_on_loopback);
    assert!(settings.warnings.is_empty());
}

#[test]
fn discovery_method_can_be_configured() {
    use muster_calls::DiscoverySource;
    assert_eq!(parse(&minimal()).unwrap().source, DiscoverySource::Automatic);
    let with = |text: &str| parse(&format!("{}[discovery]\n{text}", minimal()));
    let settings = with("method = \"inventory\"\noptions.file = \"fleet.yaml\"\n").unwrap();
    let file = PathBuf::from("/e/fleet.yaml");
    assert_eq!(settings.source, DiscoverySource::Inventory { file });
    assert!(settings.warnings.is_empty() && !settings.require_filter);
    let text = "require_filter = true\nmethod = \"external\"\n[discovery.options]\ncommand = [\"bin/find nodes\", \"-a b\"]\ntimeout = 5\nsite = \"lhr\"\n";
    let settings = with(text).unwrap();
    assert!(settings.require_filter);
    let DiscoverySource::External { command, timeout, options } = settings.source else { panic!() };
    assert_eq!(command, ["/e/bin/find nodes", "-a b"]);
    assert_eq!((timeout.as_secs(), options["site"].as_str()), (5, "lhr"));
    for (text, expected) in [
        (
            "method = \"mongo\"",
            "`discovery.method` cannot be used: \"mongo\" is not a discovery method",
        ),
        (
            "method = \"inventory\"",
            "`discovery.options` cannot be used: the discovery method inventory needs the option `file`",
        ),
        ("options.file = \"x\"", "the discovery method auto has no option `file`"),
        (
            "method = \"external\"\noptions.command = [1]",
            "contains `command`, which must be a string",
        ),
        (
            "method = \"external\"\noptions.command = {}",
            "contains `command`, which must be a string",
        ),
    ] {
        let told = with(text).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn relative_paths_start_at_the_directory_of_the_file() {
    let text = format!("paths.ddls = \"../ddl\"\n{}", minimal());
    let text =
        text.replace("[trust]", "ca = \"/srv/ca.pem\"\ncredentials = \"c/rip.creds\"\n[trust]");
    let settings = parse(&text).unwrap();
    assert_eq!(settings.ddls, PathBuf::from("/e/../ddl"));
    assert_eq!(settings.ca, Some(PathBuf::from("/srv/ca.pem")));
    assert_eq!(settings.credentials, PathBuf::from("/e/c/rip.creds"));
}

#[test]
fn warns_about_unknown_keys_with_suggestions() {
    let text = format!("nonsense = 1\n{}[discovery]\ntimeout_second = 5\n", minimal());
    let mut settings = parse(&text).unwrap();
    assert_eq!(settings.discovery_timeout, Duration::from_secs(2));
    settings.warnings.sort_by(|a, b| b.cmp(a));
    assert_eq!(
        settings.warnings,
        [
            "/e/rpc.toml: unknown key `nonsense` is ignored",
            "/e/rpc.toml: unknown key `discovery.timeout_second` is ignored; did you mean `discovery.timeout_seconds`?",
        ]
    );
}

#[test]
fn known_keys_are_complete() {
    let keys = super::file::known_keys();
    assert_eq!(keys.len(), 25, "{keys:?}");
    for key in ["confirm_above", "broker.ca", "discovery.options", "requests.plain_secrets"] {
        assert!(keys.iter().any(|known| known == key), "{key}");
    }
}

#[test]
fn section_of_icinga_is_resolved_and_validated() {
    let with = |text: &str| parse(&format!("{}[icinga]\n{text}", minimal()));
    let empty = with("").unwrap().icinga;
    assert_eq!((empty.url, empty.client, empty.timeout), (None, None, Duration::from_secs(10)));
    let text = "url = \"https://i:5665\"\nuser = \"muster\"\npassword_file = \"icinga.password\"\nca = \"/srv/ca.pem\"\n\
                certificate = \"c.pem\"\nkey = \"c.key\"\ntimeout_seconds = 30\n";
    let icinga = with(text).unwrap().icinga;
    assert_eq!(icinga.password_file, Some(PathBuf::from("/e/icinga.password")));
    assert_eq!(icinga.ca, Some(PathBuf::from("/srv/ca.pem")));
    assert_eq!(icinga.client.unwrap().key, PathBuf::from("/e/c.key"));
    assert_eq!(
        (icinga.timeout, icinga.file),
        (Duration::from_secs(30), PathBuf::from("/e/rpc.toml"))
    );
    for (text, expected) in [
        ("certificate = \"c.pem\"", "`icinga.certificate` needs `icinga.key`"),
        ("key = \"c.key\"", "`icinga.key` needs `icinga.certificate`"),
        ("password_file = \"p\"", "`icinga.password_file` needs `icinga.user`"),
        ("user = \"a:b\"", "`icinga.user` must be a name without a colon"),
        ("user = \"\"", "`icinga.user` must be"),
        ("timeout_seconds = 0", "`icinga.timeout_seconds` is 0; use a number from 1 to 300"),
        ("timeout_seconds = 301", "`icinga.timeout_seconds` is 301"),
    ] {
        let refused = with(text).unwrap_err().to_string();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}

#[test]
fn errors_name_the_key_and_the_reason() {
    assert!(refusal("").contains("`broker.urls` is not set"));
    let url = minimal().replace("tls://b", "tls://rip:hunter2@b");
    assert!(refusal(&url).contains("user name") && !refusal(&url).contains("hunter2"));
    assert!(refusal("broker.urls = [\"tls://b\"]").contains("`trust.operator` is not set"));
    let seed = minimal().replace(&operator(), "SOhunter2");
    assert!(
        refusal(&seed).contains("not an operator's public key")
            && !refusal(&seed).contains("hunter2")
    );
    for bad in ["-1.0", "inf", "nan", "1e30"] {
        let text = format!("discovery.timeout_seconds = {bad}\n{}", minimal());
        assert!(refusal(&text).contains("`discovery.timeout_seconds` is"), "{bad}");
    }
    assert!(refusal(&format!("collective = \"a b\"\n{}", minimal())).contains("`collective`"));
    assert!(refusal("a = \n").contains("rpc.toml:1:"), "{}", refusal("a = \n"));
}

#[test]
fn named_file_must_exist_and_the_users_file_is_the_default() {
    let home = tempfile::tempdir().unwrap();
    let find = |given| RpcSettings::find_file(given, Some(home.path()));
    let named = Path::new("/nonexistent/rpc.toml");
    assert_eq!(find(Some(named)).unwrap(), named);
    assert!(matches!(RpcSettings::load(named), Err(RpcSettingsError::File(_))));
    if !Path::new(super::SYSTEM_FILE).exists() {
        assert!(
            matches!(find(None), Err(RpcSettingsError::NotFound(searched)) if searched.len() == 2)
        );
    }
    let own = home.path().join("muster/rpc.toml");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, minimal()).unwrap();
    assert_eq!(find(None).unwrap(), own);
    assert_eq!(RpcSettings::load(&own).unwrap().file, own);
}

/// The file may be another one that was named by mistake, such as a key.
#[test]
fn syntax_errors_contain_nothing_of_the_file() {
    for text in [
        "hunter22",
        "hunter22: x",
        "-----BEGIN hunter22-----\nhunter22\n",
        "confirm = \"hunter22\"",
        "confirm_above = \"hunter22\\\", expected\"",
        "[discovery]\nrequire_filter = \"hunter22\"",
        "broker = \"hunter22\"",
        "collective = 'hunter22",
        "collective = \"\\hunter22\"",
    ] {
        let error = RpcSettings::parse(Path::new("/x/rpc.toml"), text).unwrap_err().to_string();
        assert!(error.starts_with("/x/rpc.toml:") && !error.contains("hunter"), "{text}: {error}");
    }
    let kind = RpcSettings::parse(Path::new("/x/rpc.toml"), "\nconfirm_above = \"x\"").unwrap_err();
    let expected = "/x/rpc.toml:2:17: invalid type: string, expected";
    assert!(kind.to_string().starts_with(expected), "{kind}");
}
