//! Types of the installed Puppet, through the real resident process.
//!
//! Without Puppet the tests fail, unless `MUSTER_TESTS_WITHOUT` names `puppet`; then they print the reason and pass.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_engine::puppet::{PuppetBridgeOptions, PuppetTypes};
use muster_engine::resource::ResourceValue;
use muster_engine::type_source::ResourceTypeSource;
use muster_engine::{EngineError, ResourceContext, ResourceEngine};
use muster_system::System;
use muster_system::command::CancelFlag;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use serde_json::{Map, Value as Json, json};

/// A custom type and provider: keys and values in a JSON file, with a structured property. The values `hang`, `crash` and `fail`
/// make the provider misbehave.
const KV_TYPE: &str = r"
Puppet::Type.newtype(:kv) do
  @doc = 'A key of a file.'
  ensurable
  newparam(:key, namevar: true)
  newparam(:file)
  newproperty(:value) do
    validate { |value| raise ArgumentError, 'must not be empty' if value == '' }
  end
  newproperty(:options) do
    def insync?(is); is == should; end
  end
  autorequire(:file) { self[:file] }
  def refresh
    provider.restart
  end
end
";
const KV_PROVIDER: &str = r"
require 'json'
Puppet::Type.type(:kv).provide(:json) do
  def all; File.exist?(resource[:file]) ? JSON.parse(File.read(resource[:file])) : {}; end
  def store(all); puts 'a provider that prints'; File.write(resource[:file], JSON.generate(all)); end
  def exists?; all.key?(resource[:key]); end
  def create; store(all.merge(resource[:key] => { 'value' => resource[:value], 'options' => resource[:options] })); end
  def destroy; store(all.reject { |key, _| key == resource[:key] }); end
  def value; (all[resource[:key]] || {})['value'] || :absent; end
  def value=(to)
    sleep 120 if to == 'hang'
    Process.kill(:KILL, Process.pid) if to == 'crash'
    raise Puppet::Error, 'the provider says no' if to == 'fail'
    store(all.merge(resource[:key] => (all[resource[:key]] || {}).merge('value' => to)))
  end
  def options; (all[resource[:key]] || {})['options'] || :absent; end
  def options=(to); store(all.merge(resource[:key] => all[resource[:key]].merge('options' => to))); end
  def restart; File.write(resource[:file] + '.restarted', 'x', mode: 'a'); end
end
";

struct Node {
    directory: tempfile::TempDir,
    types: Arc<PuppetTypes>,
    engine: ResourceEngine,
}

impl Node {
    /// The installed Puppet with its own settings and module path; `None` if Puppet is not installed and the environment permits it.
    fn new(change: impl FnOnce(&mut PuppetBridgeOptions)) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let module = directory.path().join("modules/kv/lib/puppet");
        for (path, text) in [("type/kv.rb", KV_TYPE), ("provider/kv/json.rb", KV_PROVIDER)] {
            let path = module.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let path = |name: &str| directory.path().join(name).display().to_string();
        let mut options = PuppetBridgeOptions::default();
        for setting in ["confdir", "codedir", "vardir", "rundir", "logdir", "publicdir", "ssldir"] {
            options.settings.insert(setting.to_owned(), path(setting));
        }
        let modules = format!("{}:/usr/share/puppet/modules", path("modules"));
        options.settings.insert("modulepath".to_owned(), modules.clone());
        options.settings.insert("basemodulepath".to_owned(), modules);
        change(&mut options);
        let system: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
        let types = Arc::new(PuppetTypes::new(Arc::clone(&system), options));
        if let Err(error) = types.puppet_version() {
            skip_without_puppet(&error.one_line_message());
            return None;
        }
        let engine = ResourceEngine::new(system)
            .with_type_source(Arc::clone(&types) as Arc<dyn ResourceTypeSource>);
        Some(Self { directory, types, engine })
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("kv.json")
    }

    fn content(&self) -> Json {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }

    /// Returns the messages of the events, or one line `refused: ERROR` if the resource is invalid.
    fn apply(&self, words: &Json) -> Vec<String> {
        self.bring(words, false)
    }

    fn bring(&self, words: &Json, noop: bool) -> Vec<String> {
        let mut words = words.as_object().unwrap().clone();
        words.insert("file".to_owned(), json!(self.file()));
        let resource = match self.engine.check_resource("kv", "k", &words) {
            Ok(resource) => resource,
            Err(error) => return vec![format!("refused: {}", error.one_line_message())],
        };
        let outcome = self.engine.apply_resource(&resource, CancelFlag::default(), noop);
        outcome.events.into_iter().map(|event| event.message).collect()
    }
}

#[test]
fn custom_type_creates_changes_and_removes_resources() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    let first = json!({"ensure": "present", "value": "one", "options": {"a": [1, {"b": true}]}});
    assert_eq!(node.bring(&first, true), ["current_value 'absent', should be 'present' (noop)"]);
    assert!(!node.file().exists());
    assert_eq!(node.apply(&first), ["created"]);
    assert_eq!(node.content(), json!({"k": {"value": "one", "options": {"a": [1, {"b": true}]}}}));
    assert_eq!(node.apply(&first), [""; 0]);
    // Another process changes the file.
    std::fs::write(node.file(), r#"{"k": {"value": "two", "options": {}}}"#).unwrap();
    let messages = node.apply(&first);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages.first().unwrap(), "value changed 'two' to 'one'");
    assert_eq!(node.apply(&first), [""; 0]);
    assert_eq!(node.apply(&json!({"ensure": "absent"})), ["removed"]);
    assert_eq!(node.content(), json!({}));
}

#[test]
fn invalid_attributes_and_unknown_types_are_refused() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    for (words, expected) in [
        (json!({"value": ""}), "must not be empty"),
        (json!({"ensure": "sideways"}), "Invalid value"),
        (json!({"colour": "red"}), "has no property or parameter `colour`"),
    ] {
        let said = node.apply(&words);
        assert!(
            said.iter().any(|line| line.starts_with("refused") && line.contains(expected)),
            "{said:?}"
        );
    }
    let unknown = node.engine.check_resource("no_such_type", "x", &Map::new()).unwrap_err();
    assert!(matches!(unknown, EngineError::UnknownType { .. }), "{unknown}");
    for name in ["../../etc/passwd", "Kv", "component", ""] {
        assert!(node.types.type_named(name).unwrap().is_none(), "{name}");
    }
}

#[test]
fn failure_crash_and_hang_each_fail_only_one_change() {
    let Some(node) = Node::new(|options| options.change_timeout = Duration::from_secs(2)) else {
        return;
    };
    node.apply(&json!({"ensure": "present", "value": "one"}));
    for (value, reason) in [
        ("fail", "the provider says no"),
        ("crash", "Puppet exited during the request"),
        ("hang", "did not end within 2 s"),
    ] {
        let said = node.apply(&json!({"ensure": "present", "value": value}));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said.iter().all(|line| line.starts_with("change from 'one'") && line.contains(reason)),
            "{said:?}"
        );
        assert_eq!(node.apply(&json!({"ensure": "present", "value": "one"})), [""; 0], "{value}");
    }
}

#[test]
fn refresh_runs_the_provider_and_autorequires_are_returned() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    let words = json!({"ensure": "present", "file": node.file()});
    let resource = node.engine.check_resource("kv", "k", words.as_object().unwrap()).unwrap();
    let kv = node.types.type_named("kv").unwrap().unwrap();
    let system = RealSystem::new("/".into());
    let cx = ResourceContext::new(&system, CancelFlag::default());
    assert!(kv.supports_refresh());
    kv.refresh(&cx.bind(&resource)).unwrap();
    assert!(node.directory.path().join("kv.json.restarted").exists());
    let file = node.file().display().to_string();
    assert_eq!(kv.autorequires(&resource, &()), [("file", file)]);
    assert_eq!(kv.provider_name(&cx.bind(&resource)).as_deref(), Some("json"));
}

#[test]
fn files_cached_by_providers_are_read_again() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    let hosts = node.directory.path().join("hosts");
    std::fs::write(&hosts, "10.0.0.9\tother\n").unwrap();
    let host = node.types.type_named("host").unwrap().expect("host_core is not installed");
    let system = RealSystem::new("/".into());
    let cx = ResourceContext::new(&system, CancelFlag::default());
    let words = json!({"ensure": "present", "ip": "10.0.0.1", "target": hosts});
    let resource = muster_engine::munge::munge_resource(
        host.schema(),
        "a.example",
        words.as_object().unwrap(),
    )
    .unwrap();
    let messages = || -> Vec<String> {
        let plan = host.read_and_plan(&cx.bind(&resource)).unwrap();
        plan.changes.iter().map(|change| change.message.clone()).collect()
    };
    let plan = host.read_and_plan(&cx.bind(&resource)).unwrap();
    plan.changes.iter().for_each(|change| host.apply_change(&cx, &plan, change).unwrap());
    assert_eq!(messages(), [""; 0]);
    std::fs::write(&hosts, "10.0.0.9\tother\n10.0.0.2\ta.example\n").unwrap();
    assert_eq!(messages(), ["ip changed '10.0.0.2' to '10.0.0.1'"]);
}

#[test]
fn instances_are_found_and_listed() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    let group = node.types.type_named("group").unwrap().unwrap();
    let system = RealSystem::new("/".into());
    let cx = ResourceContext::new(&system, CancelFlag::default());
    assert_eq!(group.find(&cx, "root").unwrap().get("gid"), Some(&ResourceValue::Int(0)));
    assert!(group.find(&cx, "no-group-of-that-name").unwrap().is_absent());
    let all = group.list_instances(&cx).unwrap();
    assert!(all.iter().any(
        |(title, values)| title == "root" && values.get("gid") == Some(&ResourceValue::Int(0))
    ));
    assert!(node.types.type_names().unwrap().contains(&"kv".to_owned()));
}

#[test]
fn idle_process_exits_and_the_next_request_starts_another() {
    let Some(node) = Node::new(|options| options.idle_timeout = Duration::from_millis(300)) else {
        return;
    };
    let began = Instant::now();
    while !resident().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "the idle Puppet process did not exit");
        std::thread::yield_now();
    }
    assert_eq!(node.apply(&json!({"ensure": "present", "value": "one"})), ["created"]);
}

/// A request takes a few milliseconds: less than a tenth of the start of Ruby.
#[test]
fn request_is_much_cheaper_than_starting_ruby() {
    let Some(node) = Node::new(|_| {}) else {
        return;
    };
    let words = json!({"ensure": "present", "value": "one"});
    node.apply(&words);
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(node.apply(&words), [""; 0]);
    }
    // Checks and plans: 200 requests. Starting Ruby for each would take more than 100 s.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Prints why a test is skipped. Fails unless the environment permits that Puppet is missing.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(crate) fn skip_without_puppet(reason: &str) {
    assert!(
        std::env::var("MUSTER_TESTS_WITHOUT")
            .is_ok_and(|tools| tools.split(',').any(|tool| tool == "puppet")),
        "puppet is not installed: run tools/fetch-puppet, or name it in MUSTER_TESTS_WITHOUT: {reason}"
    );
    eprintln!("skipped: {reason}");
}

/// The process ids of Ruby children of this process. nextest runs each test in its own process.
fn resident() -> Vec<u32> {
    let me = std::process::id();
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let (state, parent) = (words.next()?, words.next()?);
        (name.ends_with("(ruby") && state != "Z" && parent == me.to_string()).then_some(pid)
    });
    children.collect()
}

#[test]
fn missing_ruby_and_scratch_root_are_reported() {
    let absent = PuppetBridgeOptions {
        ruby: Some("/no/such/ruby".to_owned()),
        ..PuppetBridgeOptions::default()
    };
    let types = PuppetTypes::new(Arc::new(RealSystem::new("/".into())), absent);
    let line = types.type_named("augeas").unwrap_err().one_line_message();
    assert!(line.contains("`augeas`") && line.contains("install puppet-agent"), "{line}");
    let scratch = FakeSystem::new().with_root("/srv/image");
    let types = PuppetTypes::new(Arc::new(scratch), PuppetBridgeOptions::default());
    let line = types.type_named("augeas").unwrap_err().one_line_message();
    assert!(line.contains("not another root"), "{line}");
}

/// The scripted Ruby reports that it is ready and then sends an invalid response.
#[test]
fn invalid_response_is_an_error() {
    let system = FakeSystem::new();
    system.script_conversation(&["ruby"], |_, line| {
        Some(if line.contains("\"script\"") {
            r#"{"ready":"7"}"#.to_owned()
        } else {
            "nonsense".to_owned()
        })
    });
    let types = PuppetTypes::new(Arc::new(system), PuppetBridgeOptions::default());
    let line = types.type_named("augeas").unwrap_err().one_line_message();
    assert!(line.contains("invalid response"), "{line}");
}
