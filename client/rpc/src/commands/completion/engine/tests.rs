//! Completion of commands, requests and filters, with the built-in DDLs and a few seen names.

use clap::CommandFactory as _;
use muster_calls::DdlStore;
use serde_json::json;

use crate::cli::Cli;
use crate::commands::completion::engine::{CompletionCandidate, CompletionSources, complete_word};

fn words(line: &str) -> Vec<String> {
    let mut root = Cli::command();
    root.build();
    let agents = DdlStore::load(None).unwrap();
    let seen = serde_json::from_value(json!({
        "nodes": ["db1.acme.net", "web1.acme.net"], "classes": ["apache", "mysql::master"], "agents": ["disk", "rpcutil"],
        "facts": {"country": ["de", "uk"], "os.family": ["Debian", "Old Town"]},
    }))
    .unwrap();
    let jobs = || vec![CompletionCandidate::new("20260131-1", Some("service restart"))];
    let known = CompletionSources::new(&agents, &seen, jobs);
    let mut before: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let current = before.pop().unwrap();
    complete_word(&root, &known, &before, &current)
        .into_iter()
        .map(|candidate| candidate.word)
        .collect()
}

#[test]
fn first_word_completes_to_commands_and_agents() {
    let first = words("");
    for word in ["find", "facts", "do", "puppetral", "service"] {
        assert!(first.contains(&word.to_owned()), "{word}: {first:?}");
    }
    assert!(!first.contains(&"complete".to_owned()), "hidden");
    assert_eq!(words("inv"), ["inventory"]);
    assert_eq!(words("help fil"), ["filter", "filters"]);
    assert_eq!(words("plugin do"), ["doc"]);
    assert_eq!(words("plugin doc rpcu"), ["rpcutil"]);
}

#[test]
fn request_is_completed_from_the_ddl() {
    for lead in ["", "do ", "-v ", "-c rpc.toml do "] {
        let actions = words(&format!("{lead}service sta"));
        assert_eq!(actions, ["status", "start"], "{lead}");
    }
    assert_eq!(words("service restart -C apache s"), ["service="]);
    assert!(words("service restart service=httpd s").is_empty());
    assert!(words("puppetral do noop=").contains(&"noop=true".to_owned()));
    assert!(words("puppetral ty").contains(&"type=".to_owned()), "inputs of the default action");
    assert!(words("nonsense ").is_empty());
}

#[test]
fn completes_options_and_their_values() {
    assert_eq!(words("find --with-i"), ["--with-identity"]);
    assert_eq!(words("find --with-identity web"), ["web1.acme.net"]);
    assert_eq!(words("find -I db"), ["db1.acme.net"]);
    assert_eq!(words("find -vI db"), ["db1.acme.net"]);
    assert_eq!(words("find -F os"), ["os.family="]);
    assert_eq!(words("facts c"), ["country"]);
    assert_eq!(words("service status --display f"), ["failed"]);
    assert_eq!(words("find --color=n"), ["--color=never"]);
    assert_eq!(words("inventory web"), ["web1.acme.net"]);
    assert!(words("find -- --with").is_empty());
}

#[test]
fn classes_facts_and_agents_are_those_that_were_seen() {
    assert_eq!(words("find -C "), ["apache", "mysql::master"]);
    assert_eq!(words("service status --with-class=my"), ["--with-class=mysql::master"]);
    assert_eq!(words("find -F "), ["country=", "os.family="]);
    assert_eq!(words("find -F country="), ["country=de", "country=uk"]);
    assert_eq!(words("find --with-fact os.family=D"), ["os.family=Debian"]);
    assert_eq!(words("find --with-fact=country=u"), ["--with-fact=country=uk"]);
    assert_eq!(words("find -W a"), ["apache"]);
    assert_eq!(words("find -W country=d"), ["country=de"]);
    assert_eq!(words("find -A dis"), ["disk"]);
    assert_eq!(words("find -A rpcutil"), ["rpcutil"], "each name once");
    assert_eq!(words("rpcutil get_fact fact=os"), ["fact=os.family"]);
}

#[test]
fn jobs_and_discovery_methods_are_completed() {
    for line in ["job show ", "job diff ", "job diff 20260131-1 ", "job forget x ", "cancel "] {
        assert_eq!(words(line), ["20260131-1"], "{line}");
    }
    assert_eq!(words("do --resume 2"), ["20260131-1"]);
    assert_eq!(words("find --dm in"), ["inventory"]);
    assert_eq!(words("find --disc-method=puppet"), ["--disc-method=puppetdb"]);
}

#[test]
fn resource_types_their_properties_and_values_are_completed() {
    for lead in ["do puppetral ", "puppetral do ", "puppetral plan ", "puppetral find "] {
        assert_eq!(words(&format!("{lead}type=us")), ["type=user"], "{lead}");
    }
    let properties = words("do puppetral type=user name=rip ");
    for property in ["ensure=", "shell=", "managehome=", "noop="] {
        assert!(properties.contains(&property.to_owned()), "{property}: {properties:?}");
    }
    assert!(!properties.contains(&"type=".to_owned()), "{properties:?}");
    assert_eq!(words("do puppetral type=user ensure="), ["ensure=present", "ensure=absent"]);
    assert_eq!(words("do puppetral type=user managehome=t"), ["managehome=true"]);
    assert!(words("puppetral find type=user she").is_empty(), "find takes no properties");
}
