//! What each role's template lets the broker allow. That the broker does so is proven in the tests' own room.

use muster_wire::token::Role;
use muster_wire::token::permission::permission;
use muster_wire::token::scope::Grant;

use crate::world::{World, name};

#[test]
fn nodes_only_answer_register_and_take_permits() {
    let template = Role::Node.template(&[name("fleet"), name("lab")]);
    let (own, reading): (Vec<&str>, Vec<&str>) = template
        .publish
        .allow
        .iter()
        .map(String::as_str)
        .partition(|subject| subject.starts_with("$KV."));
    assert_eq!(
        own,
        ["$KV.NODES.{{name()}}", "$KV.PERMITS.*.*.{{name()}}"],
        "what a node writes ends in its own name"
    );
    let about_permits = |subject: &&str| subject.contains("KV_PERMITS");
    let (echo, reading) = reading.split_last().unwrap();
    assert_eq!(*echo, "_INBOX.{{subject()}}.echo.*");
    assert!(reading.iter().all(about_permits), "{reading:?}");
    assert_eq!(
        template.subscribe.allow,
        [
            "fleet.*.*.all",
            "fleet.*.*.node.{{name()}}",
            "fleet.trust.account",
            "lab.*.*.all",
            "lab.*.*.node.{{name()}}",
            "lab.trust.account",
            "_INBOX.{{subject()}}.>",
        ]
    );
    assert_eq!(template.resp.unwrap().ttl, 3_600_000_000_000);
}

#[test]
fn callers_ask_what_their_tags_say_and_never_answer() {
    let template = Role::Caller.template(&[name("fleet")]);
    assert_eq!(
        template.publish.allow,
        ["fleet.{{tag(agent)}}.>", "_INBOX.{{subject()}}.echo.*"]
    );
    assert_eq!(template.subscribe.allow, ["_INBOX.{{subject()}}.>"]);
    assert!(template.resp.is_none());
}

#[test]
fn no_role_has_an_empty_list_that_would_allow_everything() {
    for role in Role::ALL {
        let template = role.template(&[name("fleet")]);
        assert!(
            !template.publish.allow.is_empty() || template.publish.deny == [">"],
            "{role}"
        );
        assert!(!template.subscribe.allow.is_empty(), "{role}");
        assert_eq!(role.word().parse::<Role>().unwrap(), role);
    }
}

#[test]
fn newcomers_wish_to_be_enrolled_and_nothing_else() {
    for template in [
        Role::Newcomer.template_among_newcomers().unwrap(),
        Role::Newcomer.template(&[name("fleet")]),
    ] {
        assert_eq!(
            template.publish.allow,
            ["newcomers.enrol", "_INBOX.{{subject()}}.echo.*"]
        );
        assert_eq!(template.subscribe.allow, ["_INBOX.{{subject()}}.>"]);
        assert!(template.resp.is_none());
    }
    let service = Role::Service.template_among_newcomers().unwrap();
    assert_eq!(
        service.publish.allow,
        ["newcomers.trust", "_INBOX.{{subject()}}.echo.*"]
    );
    assert!(service.resp.is_some());
    for role in [Role::Node, Role::Caller] {
        assert!(role.template_among_newcomers().is_none());
    }
}

#[test]
fn grants_become_tags() {
    for (text, tag) in [
        ("*", "agent:*"),
        ("service", "agent:service"),
        ("Service.Restart", "agent:service.restart"),
    ] {
        assert_eq!(text.parse::<Grant>().unwrap().tag(), tag);
    }
    for bad in ["", ">", "a.>", "a.b.c", "*.a", "a b"] {
        assert!(bad.parse::<Grant>().is_err(), "{bad}");
    }
}

#[test]
fn a_permission_names_the_line_of_the_scope_and_what_it_means() {
    let world = World::new();
    let caller = world.caller();
    let template = world.trust.template(&caller.claims().iss).unwrap();
    let may = |subject: &str| permission(&template.publish, caller.claims(), subject);
    let found = may("fleet.puppetral.do.all").unwrap();
    assert_eq!(found.line, "fleet.{{tag(agent)}}.>");
    assert_eq!(found.pattern, "fleet.puppetral.>");
    assert!(may("fleet.service.restart.all").is_none());
    assert!(may("lab.puppetral.do.all").is_none());
    let mut narrowed = template.publish.clone();
    narrowed.deny = vec!["fleet.*.do.>".to_owned()];
    assert!(permission(&narrowed, caller.claims(), "fleet.puppetral.do.all").is_none());

    let node = world.node();
    let template = world.trust.template(&node.claims().iss).unwrap();
    let own = "fleet.rpcutil.ping.node.db1.acme.net";
    assert!(permission(&template.subscribe, node.claims(), own).is_some());
    let foreign = "fleet.rpcutil.ping.node.db2.acme.net";
    assert!(permission(&template.subscribe, node.claims(), foreign).is_none());
}
