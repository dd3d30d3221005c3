//! All roles × all operations × all subjects: the broker permits exactly what the role's template permits.
//!
//! The subjects are derived from the templates: each line of each role, filled in for the attacker and for each victim,
//! with wildcards, and with names in place of wildcards.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_tests::organisation::connect;
use muster_tests::raw_nats::RawNats;
use muster_tests::tier::case_step;
use muster_wire::stores;
use muster_wire::token::claims::TokenClaims;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::permission::expand_scope_line;
use muster_wire::token::{ServiceRight, UserRole, scope};

use super::fixture::{AttackFixture, StolenCredentials};

/// Subjects that occur in no template.
const OTHER_SUBJECTS: [&str; 14] = [
    ">",
    "*",
    "*.*.*.>",
    "$SYS.>",
    "$SYS.REQ.USER.INFO",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    "$JS.API.>",
    "$JS.API.STREAM.NAMES",
    "$JS.API.CONSUMER.CREATE.KV_TRUST",
    "$JS.EVENT.ADVISORY.>",
    "$O.FILES.C.x",
    "$OBJ.x",
    "_CONFIRM.refused",
    "foreign.rpcutil.ping.all",
];

/// Every subject that any role or the administrator may use.
pub(super) fn all_subjects(fixture: &AttackFixture) -> Vec<String> {
    let fleet = [fixture.organisation.collective().clone()];
    let mut lines: Vec<String> = OTHER_SUBJECTS.map(str::to_owned).into();
    for role in UserRole::ALL {
        let bootstrap_template = role.newcomers_account_template();
        for template in
            [Some(role.permission_template(&fleet)), bootstrap_template].into_iter().flatten()
        {
            lines.extend(template.publish.allow);
            lines.extend(template.subscribe.allow);
        }
    }
    let (publish, subscribe) = scope::administrator_permissions("{{subject()}}");
    lines.extend(publish.allow);
    lines.extend(subscribe.allow);
    let mut owners: Vec<Arc<TokenClaims<UserClaims>>> =
        fixture.stolen_credentials.iter().map(|attacker| attacker.signer.claims()).collect();
    owners.extend([fixture.node.claims(), fixture.caller.claims()]);
    let mut subjects = BTreeSet::new();
    for line in &lines {
        for owner in &owners {
            for pattern in expand_scope_line(line, owner) {
                subjects.insert(pattern.replace('*', "x").replace('>', "x.y"));
                subjects.insert(pattern);
            }
        }
    }
    subjects.into_iter().collect()
}

#[tokio::test]
async fn broker_permits_exactly_the_template_of_each_role() {
    let fixture = AttackFixture::new().await;
    let all_subjects = all_subjects(&fixture);
    let mut wrong = Vec::new();
    let mut attempts = 0;
    for attacker in &fixture.stolen_credentials {
        let replies = [
            String::new(),
            format!("_INBOX.{}.x", attacker.signer.public_key()),
            format!("_R.{}.0123.web1.example.net", fixture.caller.public_key()),
        ];
        for subject in all_subjects.iter().step_by(case_step(4)) {
            let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
            for queue in ["", "thieves"] {
                client.subscribe(subject, queue).await;
                attempts += 1;
                check_refusal(
                    attacker,
                    subject,
                    ("subscribe", attacker.may_subscribe(subject)),
                    &mut client,
                    &mut wrong,
                )
                .await;
            }
            if subject.contains(['*', '>']) {
                continue;
            }
            for reply in &replies {
                for headers in ["", "Nats-Rollup: all"] {
                    client.publish(subject, reply, headers, "{}").await;
                    attempts += 1;
                    check_refusal(
                        attacker,
                        subject,
                        ("publish", attacker.may_publish(subject)),
                        &mut client,
                        &mut wrong,
                    )
                    .await;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {attempts}: {wrong:#?}", wrong.len());
    assert!(attempts > 5_000 / case_step(4), "{attempts}");
    assert_nothing_created(&fixture).await;
}

/// The requests that a service of each right answers, and a key that it writes; a history and a gateway write none, and the key is another's.
fn served_by(right: ServiceRight) -> (String, &'static str) {
    let key = match right {
        ServiceRight::Directory => "$KV.FORGOTTEN.web1.example.net",
        ServiceRight::Schedule => "$KV.SCHEDULES.x",
        ServiceRight::Provision => "$KV.PROVISION.leader",
        ServiceRight::Compile => "$KV.COMPILES.want.web1.example.net",
        ServiceRight::History => "$KV.HISTORY.other.example.net",
        ServiceRight::Gateway => "$KV.NODES.other.example.net",
    };
    (format!("muster.{right}.*.any"), key)
}

/// Every role and every service against every service: only a key for it serves it, at the broker and at receivers.
#[tokio::test]
async fn service_key_is_refused_as_every_other_service() {
    let fixture = AttackFixture::new().await;
    let mut wrong = Vec::new();
    for attacker in &fixture.stolen_credentials {
        let own = ServiceRight::ALL.into_iter().filter(|right| right.as_str() == attacker.role);
        let own: Vec<ServiceRight> = own.collect();
        // Receivers read the rights from the token. Those of bootstrap accounts do not verify here.
        let verified =
            fixture.organisation.trust().verify_user(&attacker.signer.token(), muster_tests::now());
        let rights = verified.map(|user| user.rights()).unwrap_or_default();
        assert_eq!(rights, own, "{}", attacker.role);
        for right in ServiceRight::ALL {
            let is_allowed = own.contains(&right);
            let (requests, key) = served_by(right);
            let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
            client.subscribe(&requests, right.as_str()).await;
            let subscribe = ("subscribe", is_allowed);
            check_refusal(attacker, &requests, subscribe, &mut client, &mut wrong).await;
            client.publish(key, "", "", "{}").await;
            let writes = !matches!(right, ServiceRight::History | ServiceRight::Gateway);
            let publish = ("publish", is_allowed && writes);
            check_refusal(attacker, key, publish, &mut client, &mut wrong).await;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn check_refusal(
    attacker: &StolenCredentials,
    subject: &str,
    (operation, is_allowed): (&str, bool),
    client: &mut RawNats,
    wrong: &mut Vec<String>,
) {
    let output = client.sync().await;
    let is_refused =
        output.refusals.iter().any(|refusal| refusal.contains("Permissions Violation"));
    if is_refused == is_allowed {
        let role = attacker.role;
        wrong.push(format!("{role} {operation} {subject}: allowed {is_allowed}, {output:?}"));
    }
}

/// Checks that the account has no additional streams and no consumers.
pub(super) async fn assert_nothing_created(fixture: &AttackFixture) {
    let administrator = connect(&fixture.server, &fixture.organisation.administrator()).await;
    let answer = administrator.request("$JS.API.INFO", "".into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(answer.payload()).unwrap();
    let count = |name: &str| info.get(name).and_then(serde_json::Value::as_u64).unwrap();
    assert_eq!(count("streams"), stores::ALL_BUCKETS.len() as u64, "{info}");
    assert_eq!(count("consumers"), 0, "{info}");
}
