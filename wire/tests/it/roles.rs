//! The permission template of each role. `tests/it` verifies that the broker enforces the templates.

use muster_wire::stores::{ALL_BUCKETS, StoreUse, fleet_buckets};
use muster_wire::token::UserRole;
use muster_wire::token::claims::{AccountLimits, PermissionTemplate};
use muster_wire::token::permission::find_permission;
use muster_wire::token::scope::CallerGrant;

use crate::world::{TestOrganisation, name};

#[test]
fn nodes_can_only_reply_register_and_use_permits() {
    let template = UserRole::Node.permission_template(&[name("fleet"), name("lab")]);
    let mut publish = vec![
        "_R.*.*.{{name()}}",
        "_E.*.{{name()}}",
        "_B.{{name()}}",
        "$KV.NODES.{{name()}}",
        "$JS.API.DIRECT.GET.KV_NODES.$KV.NODES.{{name()}}",
        "$KV.HISTORY.{{name()}}",
    ];
    let keys: Vec<String> = ["wait", "claim", "beat"]
        .into_iter()
        .flat_map(|sign| {
            (1..=4).map(move |slot| format!("$KV.PERMITS.{sign}.{slot}.{{{{name()}}}}"))
        })
        .collect();
    publish.extend(keys.iter().map(String::as_str));
    publish.extend([
        "$JS.API.DIRECT.GET.KV_PERMITS",
        "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.account",
        "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.head",
        "$JS.API.DIRECT.GET.KV_TOKENS.$KV.TOKENS.{{name()}}",
        "$JS.API.DIRECT.GET.KV_REQUESTS.$KV.REQUESTS.*",
        "$JS.API.DIRECT.GET.KV_CATALOGS.$KV.CATALOGS.catalog.{{name()}}.*",
        "$JS.API.DIRECT.GET.KV_CATALOGS.$KV.CATALOGS.released.{{name()}}",
        "$JS.API.DIRECT.GET.KV_CONTENT.$KV.CONTENT.*.*",
        "$JS.API.DIRECT.GET.KV_PROGRAMS.$KV.PROGRAMS.*.*",
        "_CONFIRM",
    ]);
    assert_eq!(template.publish.allow, publish);
    assert_eq!(
        template.subscribe.allow,
        [
            "fleet.*.*.all",
            "fleet.*.*.node.{{name()}}",
            "fleet.*.*.ref.{{name()}}",
            "lab.*.*.all",
            "lab.*.*.node.{{name()}}",
            "lab.*.*.ref.{{name()}}",
            "_T.*.*.{{name()}}",
            "_B.{{name()}}",
            "_W.TRUST.account",
            "_W.TRUST.head",
            "_W.PERMITS.>",
            "_INBOX.{{subject()}}.>",
        ]
    );
}

#[test]
fn callers_can_request_the_agents_of_their_tags_and_not_reply() {
    let template = UserRole::Caller.permission_template(&[name("fleet")]);
    assert_eq!(
        template.publish.allow,
        [
            "fleet.{{tag(agent)}}.>",
            "_T.{{subject()}}.>",
            "$KV.REQUESTS.*",
            "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.account",
            "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.head",
            "_CONFIRM",
        ]
    );
    assert_eq!(
        template.subscribe.allow,
        [
            "_R.{{subject()}}.>",
            "_E.>",
            "_W.TRUST.account",
            "_W.TRUST.head",
            "_INBOX.{{subject()}}.>",
        ]
    );
}

/// Response permissions would let a client publish on any subject: it publishes to itself with that subject as the reply subject.
#[test]
fn no_role_has_response_permissions() {
    for role in UserRole::ALL {
        assert!(role.permission_template(&[name("fleet")]).resp.is_none(), "{role}");
        let among_newcomers = role.newcomers_account_template();
        assert!(among_newcomers.is_none_or(|template| template.resp.is_none()), "{role}");
    }
}

/// The subjects for which a role has permission to publish and to subscribe: none for callers and bootstrapping machines, for nodes the heartbeats of their own
/// name, for services also requests to themselves, which grant nothing more. The lists are complete.
#[test]
fn only_own_heartbeats_and_services_overlap() {
    let overlaps = |template: &PermissionTemplate| {
        let mut found = Vec::new();
        for publish in &template.publish.allow {
            for subscribe in &template.subscribe.allow {
                if patterns_overlap(publish, subscribe) {
                    found.push(format!("{publish} & {subscribe}"));
                }
            }
        }
        found
    };
    assert_eq!(
        overlaps(&UserRole::Node.permission_template(&[name("fleet")])),
        ["_B.{{name()}} & _B.{{name()}}"]
    );
    for role in [UserRole::Caller, UserRole::Newcomer] {
        // A placeholder such as `{{tag(agent)}}` or `{{name()}}` is a single token here, so it cannot hide an overlap.
        assert_eq!(overlaps(&role.permission_template(&[name("fleet")])), [""; 0], "{role}");
    }
    assert_eq!(
        overlaps(&UserRole::Service.permission_template(&[name("fleet")])),
        [
            "fleet.{{tag(agent)}}.> & fleet.*.*.all",
            "fleet.{{tag(agent)}}.> & fleet.*.*.node.{{name()}}",
            "fleet.{{tag(agent)}}.> & fleet.*.*.ref.{{name()}}",
            "fleet.{{tag(agent)}}.> & fleet.{{tag(service)}}.*.any",
            "_R.*.*.{{name()}} & _R.{{subject()}}.>",
            "_B.{{name()}} & _B.>",
        ]
    );
    assert_eq!(
        overlaps(&UserRole::Service.newcomers_account_template().unwrap()),
        ["newcomers.trust & newcomers.trust"]
    );
}

/// Whether a subject exists that matches both patterns.
fn patterns_overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            // A placeholder can have any value.
            (Some(a), Some(b)) if a.starts_with("{{") || b.starts_with("{{") => {}
            _ => return false,
        }
    }
}

#[test]
fn no_role_has_an_empty_allow_list() {
    for role in UserRole::ALL {
        let template = role.permission_template(&[name("fleet")]);
        assert!(!template.publish.allow.is_empty() || template.publish.deny == [">"], "{role}");
        assert!(!template.subscribe.allow.is_empty(), "{role}");
        assert_eq!(role.as_str().parse::<UserRole>().unwrap(), role);
    }
}

#[test]
fn newcomers_can_only_request_enrolment() {
    for template in [
        UserRole::Newcomer.newcomers_account_template().unwrap(),
        UserRole::Newcomer.permission_template(&[name("fleet")]),
    ] {
        assert_eq!(template.publish.allow, ["newcomers.enrol", "_CONFIRM"]);
        assert_eq!(template.subscribe.allow, ["_R.{{subject()}}.>", "_INBOX.{{subject()}}.>"]);
    }
    let service = UserRole::Service.newcomers_account_template().unwrap();
    assert_eq!(service.publish.allow, ["newcomers.trust", "_R.*.*.{{name()}}", "_CONFIRM"]);
    for role in [UserRole::Node, UserRole::Caller] {
        assert!(role.newcomers_account_template().is_none());
    }
}

#[test]
fn grants_convert_to_tags() {
    for (text, tag) in [
        ("*", "agent:*"),
        ("service", "agent:service"),
        ("Service.Restart", "agent:service.restart"),
    ] {
        assert_eq!(text.parse::<CallerGrant>().unwrap().to_tag(), tag);
    }
    for bad in ["", ">", "a.>", "a.b.c", "*.a", "a b"] {
        assert!(bad.parse::<CallerGrant>().is_err(), "{bad}");
    }
}

#[test]
fn permission_names_its_template_line_and_its_pattern() {
    let world = TestOrganisation::new();
    let caller = world.caller();
    let template = world.trust.template_of_key(&caller.claims().iss).unwrap();
    let may = |subject: &str| find_permission(&template.publish, &caller.claims(), subject);
    let found = may("fleet.puppetral.do.all").unwrap();
    assert_eq!(found.line, "fleet.{{tag(agent)}}.>");
    assert_eq!(found.pattern, "fleet.puppetral.>");
    assert!(may("fleet.service.restart.all").is_none());
    assert!(may("lab.puppetral.do.all").is_none());
    let mut narrowed = template.publish.clone();
    narrowed.deny = vec!["fleet.*.do.>".to_owned()];
    assert!(find_permission(&narrowed, &caller.claims(), "fleet.puppetral.do.all").is_none());

    let node = world.node();
    let template = world.trust.template_of_key(&node.claims().iss).unwrap();
    let own = "fleet.rpcutil.ping.node.db1.acme.net";
    assert!(find_permission(&template.subscribe, &node.claims(), own).is_some());
    let foreign = "fleet.rpcutil.ping.node.db2.acme.net";
    assert!(find_permission(&template.subscribe, &node.claims(), foreign).is_none());
}

/// All buckets at their limits, on three servers, fit in the account's storage: a full bucket takes no space from another one. A server of an earlier version
/// offers 2 GiB, one of this version 6 GiB.
#[test]
fn all_buckets_at_their_limits_fit_in_the_account() {
    for (uses, offered) in [(&[][..], 2 << 30), (&StoreUse::ALL, 6 << 30)] {
        let sum: u64 = fleet_buckets(uses).map(|bucket| bucket.max_bytes).sum();
        let limits = AccountLimits::with_jetstream(uses);
        let account = limits.disk_storage.unwrap().cast_unsigned();
        assert!(3 * sum <= account && account < offered, "{sum} {account}");
    }
    for bucket in ALL_BUCKETS {
        assert!(bucket.max_bytes >= 2 * u64::from(bucket.max_value_bytes), "{}", bucket.name);
    }
}
