//! The files that a compile reads are recorded: a change that alters the catalog changes an input, and a change of an unread file does not.

use muster_catalogs::inputs::{CodeInput, FileRead, InputName};
use serde_json::json;

use super::fixture::{Environment, TestNode, comparable};

const CLASS: &str = r"
class web(Integer $port = 80) {
  file { '/etc/web.conf': content => template('web/conf.erb') }
  file { '/etc/web.epp': content => epp('web/conf.epp') }
  file { '/etc/web.key': content => file('web/absent', 'web/key') }
  file { '/etc/web.src': source => ['puppet:///modules/web/special', 'puppet:///modules/web/plain'] }
  file { '/srv/web': ensure => directory, recurse => true, source => 'puppet:///modules/web/tree' }
  web::vhost { 'main': owner_text => web::shout('x') }
  special { 'x': text => old_text() }
  notify { 'level': message => lookup('level', { 'default_value' => 'none' }) }
}
";

const HIERARCHY: &str = r"
version: 5
defaults: {datadir: data, data_hash: yaml_data}
hierarchy:
  - {name: node, path: 'nodes/%{trusted.certname}.yaml'}
  - {name: groups, glob: 'groups/*.yaml'}
  - {name: looked_up, lookup_key: 'web::backend', path: backend.txt}
  - {name: common, path: common.yaml}
";

const BACKEND: &str = r"
Puppet::Functions.create_function(:'web::backend') do
  dispatch(:look) { param 'String', :key; param 'Hash', :options; param 'Puppet::LookupContext', :context }
  def look(key, options, context)
    return context.not_found unless key == 'level'
    File.read(options['path']).strip
  end
end
";

const SHOUT: &str = r"
require_relative '../../../helper'
Puppet::Functions.create_function(:'web::shout') do
  def shout(text) = Helper.shout(text)
end
";

/// A function in the form of Puppet 3.
const OLD_FUNCTION: &str =
    "Puppet::Parser::Functions.newfunction(:old_text, type: :rvalue) { |_| 'old' }\n";
const RESOURCE_TYPE: &str = r"
Puppet::Type.newtype(:special) do
  newparam(:name, namevar: true)
  newparam(:text)
end
";

const RESOURCE_TYPE_WITHOUT_TEXT: &str =
    "Puppet::Type.newtype(:special) { newparam(:name, namevar: true) }\n";

pub(super) fn module_set() -> Option<Environment> {
    let environment = Environment::create()?;
    for (name, text) in [
        ("manifests/site.pp", "node default { include web }\n"),
        ("hiera.yaml", HIERARCHY),
        ("data/common.yaml", "web::port: 8080\nunread: 1\n"),
        ("data/backend.txt", "high\n"),
        ("modules/web/manifests/init.pp", CLASS),
        (
            "modules/web/manifests/vhost.pp",
            "define web::vhost($owner_text) { notify { \"vhost ${title} ${owner_text}\": } }\n",
        ),
        ("modules/web/templates/conf.erb", "port <%= @port %>\n"),
        ("modules/web/templates/conf.epp", "port <%= $web::port %>\n"),
        ("modules/web/templates/unread.erb", "\n"),
        ("modules/web/files/key", "key\n"),
        ("modules/web/files/plain", "plain\n"),
        ("modules/web/files/tree/a", "a\n"),
        ("modules/web/files/unread", "\n"),
        ("modules/web/lib/puppet/functions/web/backend.rb", BACKEND),
        ("modules/web/lib/puppet/functions/web/shout.rb", SHOUT),
        ("modules/old/lib/puppet/parser/functions/old_text.rb", OLD_FUNCTION),
        ("modules/kind/lib/puppet/type/special.rb", RESOURCE_TYPE),
        ("modules/web/lib/helper.rb", "module Helper; def self.shout(text) = text.upcase; end\n"),
    ] {
        environment.write(name, text);
    }
    Some(environment)
}

pub(super) fn node() -> TestNode {
    TestNode::new("web1.acme.net", json!({"role": "web"}))
}

/// Changes files one after the other. Each must change an input exactly if it is said to, and always if the catalog differs.
async fn check_changes(environment: &Environment, changes: &[(&str, &str, bool)]) {
    let node = node();
    for (name, text, is_read) in changes {
        let before = node.compile(&environment.compiler()).await.unwrap();
        assert!(before.result.is_ok(), "{:?}", before.result);
        let inputs = node.inputs(&before, &environment.code());
        environment.write(name, text);
        // A new commit has a new compiler.
        let after = node.compile(&environment.compiler()).await.unwrap();
        let read = node.changes(&inputs, &environment.code());
        let differs = comparable(&before) != comparable(&after);
        assert_eq!(differs, *is_read, "{name}: {:?}", after.result);
        assert_eq!(!read.is_empty(), *is_read, "{name}: {read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_and_templates_that_a_node_read_are_inputs() {
    let Some(environment) = module_set() else { return };
    check_changes(
        &environment,
        &[
            ("data/common.yaml", "web::port: 8081\nunread: 1\n", true),
            ("data/common.yaml", "web::port: 8081\nunread: 2\n", false),
            ("data/nodes/web2.acme.net.yaml", "web::port: 9\n", false),
            ("data/nodes/web1.acme.net.yaml", "web::port: 8082\n", true),
            ("data/groups/all.yaml", "level: low\n", true),
            ("modules/web/templates/unread.erb", "changed\n", false),
            ("modules/web/templates/conf.erb", "ports <%= @port %>\n", true),
            ("modules/web/templates/conf.epp", "ports <%= $web::port %>\n", true),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_a_node_read_or_could_read_are_inputs() {
    let Some(environment) = module_set() else { return };
    check_changes(
        &environment,
        &[
            ("modules/web/files/unread", "changed\n", false),
            ("modules/web/files/key", "other key\n", true),
            ("modules/web/files/plain", "other\n", true),
            ("modules/web/files/special", "earlier\n", true),
            ("modules/web/files/plain", "no longer read\n", false),
            ("modules/web/files/absent", "earlier\n", true),
            ("modules/web/files/tree/deep/b", "b\n", true),
            ("data/backend.txt", "higher\n", true),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_a_node_used_is_an_input() {
    let Some(environment) = module_set() else { return };
    check_changes(
        &environment,
        &[
            (
                "modules/web/manifests/vhost.pp",
                "define web::vhost($owner_text) { notify { \"host ${title} ${owner_text}\": } }\n",
                true,
            ),
            (
                "modules/web/lib/helper.rb",
                "module Helper; def self.shout(text) = text.upcase + '!'; end\n",
                true,
            ),
            (
                "modules/old/lib/puppet/parser/functions/old_text.rb",
                "Puppet::Parser::Functions.newfunction(:old_text, type: :rvalue) { |_| 'new' }\n",
                true,
            ),
            // Code at top scope, in a second file of the main manifest.
            ("manifests/top.pp", "notify { 'top': }\n", true),
            ("manifests/top.pp", "notify { 'changed': }\n", true),
            // The parameter is no longer valid.
            ("modules/kind/lib/puppet/type/special.rb", RESOURCE_TYPE_WITHOUT_TEXT, true),
        ],
    )
    .await;
    environment.write("modules/kind/lib/puppet/type/special.rb", RESOURCE_TYPE);
    // A new file of code could define what another one did, so every node is compiled again.
    let node = node();
    let outcome = node.compile(&environment.compiler()).await.unwrap();
    let inputs = node.inputs(&outcome, &environment.code());
    environment.write("modules/other/manifests/init.pp", "class other { }\n");
    assert_eq!(node.changes(&inputs, &environment.code()), [InputName::Code(CodeInput::Names)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_module_in_another_module_path_is_an_input() {
    let Some(environment) = Environment::create() else { return };
    environment.write("environment.conf", "modulepath = site:modules\n");
    environment.write("site/role/manifests/init.pp", "class role { notify { 'role': } }\n");
    environment.write("manifests/site.pp", "include role\n");
    let node = node();
    let outcome = node.compile(&environment.compiler()).await.unwrap();
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    let inputs = node.inputs(&outcome, &environment.code());
    assert_eq!(node.changes(&inputs, &environment.code()), []);
    environment.write("site/role/functions/title.pp", "function role::title() { 'x' }\n");
    let read = CodeInput::File("site".to_owned(), FileRead::TreeNames);
    assert_eq!(node.changes(&inputs, &environment.code()), [InputName::Code(read)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_commands_and_times_are_recorded() {
    let Some(environment) = Environment::create() else { return };
    environment.write(
        "manifests/site.pp",
        "$nodes = search_nodes({ 'classes' => 'mysql' })\n\
         notify { 'r': message => \"${nodes} ${generate('/bin/echo', 'x')}\" }\n\
         notify { 'now': message => String(Timestamp()) }\n",
    );
    let outcome = node().compile(&environment.compiler()).await.unwrap();
    assert!(super::fixture::message(&outcome).contains("db1.acme.net, db2.acme.net"));
    let mut inputs = outcome.inputs.unwrap();
    inputs.externals.sort();
    assert_eq!(inputs.queries.len(), 1, "{inputs:?}");
    let externals = [("a program", "manifests/site.pp:2"), ("the time", "manifests/site.pp:3")];
    let externals = externals.map(|(what, place)| (what.to_owned(), place.to_owned()));
    assert_eq!(inputs.externals, externals);
}
