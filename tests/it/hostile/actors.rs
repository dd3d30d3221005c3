//! The parties of an attack: one thief for each role, its victims, and what the role's template says that the thief may do.

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::sign::Signer;
use muster_wire::token::UserRole;
use muster_wire::token::claims::{PermissionTemplate, SubjectPermissions};
use muster_wire::token::permission::expand_scope_line;

/// Stolen credentials.
pub(super) struct Thief {
    /// The word for its role in the list of attempts.
    pub(super) role: &'static str,
    pub(super) signer: Signer,
    /// The subjects that the role lets it publish to, as patterns.
    pub(super) publish: Vec<String>,
    /// The subjects that the role lets it subscribe to, as patterns.
    pub(super) subscribe: Vec<String>,
}

impl Thief {
    fn new(role: &'static str, signer: Signer, template: &PermissionTemplate) -> Self {
        let of = |subjects: &SubjectPermissions| {
            assert_eq!(subjects.deny, [""; 0], "the model knows no denials");
            let lines = subjects.allow.iter();
            lines.flat_map(|line| expand_scope_line(line, &signer.claims())).collect()
        };
        Self { role, publish: of(&template.publish), subscribe: of(&template.subscribe), signer }
    }

    pub(super) fn may_publish(&self, subject: &str) -> bool {
        self.publish.iter().any(|pattern| includes(pattern, subject))
    }

    pub(super) fn may_subscribe(&self, subject: &str) -> bool {
        self.subscribe.iter().any(|pattern| includes(pattern, subject))
    }
}

/// Whether everything that a subject, perhaps with wildcards, stands for is in a pattern.
fn includes(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for part in pattern.split('.') {
        match (part, tokens.next()) {
            (">", Some(_)) => return true,
            (_, Some(">") | None) => return false,
            ("*", Some(_)) => {}
            (part, Some(token)) if part == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// A fleet with a real broker, thieves and victims.
pub(super) struct Scene {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) thieves: Vec<Thief>,
    pub(super) node: Signer,
    pub(super) caller: Signer,
    pub(super) service: Signer,
    pub(super) other_newcomer: Signer,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let fleet = [organisation.collective().clone()];
        let newcomers = organisation.bootstrap_account();
        let among_newcomers = |role: UserRole| role.newcomers_account_template().unwrap();
        let thieves = vec![
            Thief::new(
                "node",
                organisation.node("stolen.example.net"),
                &UserRole::Node.permission_template(&fleet),
            ),
            Thief::new(
                "caller",
                organisation.user(UserRole::Caller, "mallory", &["agent:rpcutil"]),
                &UserRole::Caller.permission_template(&fleet),
            ),
            Thief::new(
                "service",
                organisation.service("directory"),
                &UserRole::Service.permission_template(&fleet),
            ),
            Thief::new(
                "newcomer",
                newcomers.bootstrap(&["name:*.example.com"], None),
                &among_newcomers(UserRole::Newcomer),
            ),
            Thief::new(
                "enroller",
                newcomers.enroller("provisioner"),
                &among_newcomers(UserRole::Service),
            ),
        ];
        Self {
            node: organisation.node("web1.example.net"),
            caller: organisation.caller("rip"),
            service: organisation.service("provisioner"),
            other_newcomer: newcomers.bootstrap(&["name:*.example.com"], None),
            organisation,
            server,
            thieves,
        }
    }

    pub(super) fn thief(&self, role: &str) -> &Thief {
        let mut thieves = self.thieves.iter();
        thieves.find(|thief| thief.role == role).unwrap()
    }

    /// Fills the names and keys of the thief and of the others in.
    pub(super) fn filled(&self, text: &str, thief: &Thief) -> String {
        text.replace("{name}", thief.signer.identity().as_str())
            .replace("{key}", &thief.signer.public_key().to_string())
            .replace("{node}", self.node.identity().as_str())
            .replace("{node_key}", &self.node.public_key().to_string())
            .replace("{caller_key}", &self.caller.public_key().to_string())
            .replace("{service_key}", &self.service.public_key().to_string())
            .replace("{other_key}", &self.other_newcomer.public_key().to_string())
    }
}
