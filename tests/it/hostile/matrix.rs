//! All roles times all operations times all subjects: the broker allows what the role's template says, and nothing else.
//!
//! The subjects are made from the templates themselves: each line of each role, filled in for the thief and for each of the others, with
//! its wildcards as they are, and with names in their place.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_tests::organisation::connect;
use muster_tests::raw_nats::RawNats;
use muster_wire::stores;
use muster_wire::token::claims::TokenClaims;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::permission::expand_scope_line;
use muster_wire::token::{UserRole, scope};

use super::actors::{Scene, Thief};

/// Subjects that no template has.
const MORE: [&str; 14] = [
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
pub(super) fn universe(scene: &Scene) -> Vec<String> {
    let fleet = [scene.organisation.collective().clone()];
    let mut lines: Vec<String> = MORE.map(str::to_owned).into();
    for role in UserRole::ALL {
        let among_newcomers = role.newcomers_account_template();
        for template in
            [Some(role.permission_template(&fleet)), among_newcomers].into_iter().flatten()
        {
            lines.extend(template.publish.allow);
            lines.extend(template.subscribe.allow);
        }
    }
    let (publish, subscribe) = scope::administrator_permissions("{{subject()}}");
    lines.extend(publish.allow);
    lines.extend(subscribe.allow);
    let mut owners: Vec<Arc<TokenClaims<UserClaims>>> =
        scene.thieves.iter().map(|thief| thief.signer.claims()).collect();
    owners.extend([scene.node.claims(), scene.caller.claims()]);
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
async fn the_broker_allows_each_role_its_template_and_nothing_else() {
    let scene = Scene::new().await;
    let universe = universe(&scene);
    let mut wrong = Vec::new();
    let mut tried = 0;
    for thief in &scene.thieves {
        let replies = [
            String::new(),
            format!("_INBOX.{}.x", thief.signer.public_key()),
            format!("_R.{}.0123.web1.example.net", scene.caller.public_key()),
        ];
        for subject in &universe {
            let mut client = RawNats::connect(&scene.server, &thief.signer).await;
            for queue in ["", "thieves"] {
                client.subscribe(subject, queue).await;
                tried += 1;
                compare(
                    thief,
                    subject,
                    "subscribe",
                    thief.may_subscribe(subject),
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
                    tried += 1;
                    compare(
                        thief,
                        subject,
                        "publish",
                        thief.may_publish(subject),
                        &mut client,
                        &mut wrong,
                    )
                    .await;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}: {wrong:#?}", wrong.len());
    assert!(tried > 5_000, "{tried}");
    nothing_was_made(&scene).await;
}

async fn compare(
    thief: &Thief,
    subject: &str,
    operation: &str,
    is_allowed: bool,
    client: &mut RawNats,
    wrong: &mut Vec<String>,
) {
    let said = client.sync().await;
    let is_refused = said.refusals.iter().any(|refusal| refusal.contains("Permissions Violation"));
    if is_refused == is_allowed {
        let role = thief.role;
        wrong.push(format!("{role} {operation} {subject}: allowed {is_allowed}, {said:?}"));
    }
}

/// The account has the streams that it had, and no consumer.
pub(super) async fn nothing_was_made(scene: &Scene) {
    let administrator = connect(&scene.server, &scene.organisation.administrator()).await;
    let answer = administrator.request("$JS.API.INFO", "".into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(answer.payload()).unwrap();
    let count = |name: &str| info.get(name).and_then(serde_json::Value::as_u64).unwrap();
    assert_eq!(count("streams"), stores::ALL_BUCKETS.len() as u64, "{info}");
    assert_eq!(count("consumers"), 0, "{info}");
}
