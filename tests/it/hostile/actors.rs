//! The parties of an attack: one thief for each role, its victims, and what the role's template says that the thief may do.

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::sign::Signer;
use muster_wire::token::Role;
use muster_wire::token::claims::{Subjects, Template};
use muster_wire::token::permission::patterns;

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
    fn new(role: &'static str, signer: Signer, template: &Template) -> Self {
        let of = |subjects: &Subjects| {
            assert_eq!(subjects.deny, [""; 0], "the model knows no denials");
            let lines = subjects.allow.iter();
            lines
                .flat_map(|line| patterns(line, &signer.claims()))
                .collect()
        };
        Self {
            role,
            publish: of(&template.publish),
            subscribe: of(&template.subscribe),
            signer,
        }
    }

    pub(super) fn may_publish(&self, subject: &str) -> bool {
        self.publish
            .iter()
            .any(|pattern| includes(pattern, subject))
    }

    pub(super) fn may_subscribe(&self, subject: &str) -> bool {
        self.subscribe
            .iter()
            .any(|pattern| includes(pattern, subject))
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
        let server = organisation.storing_broker().await;
        let fleet = [organisation.collective().clone()];
        let newcomers = organisation.newcomers();
        let among_newcomers = |role: Role| role.template_among_newcomers().unwrap();
        let thieves = vec![
            Thief::new(
                "node",
                organisation.node("stolen.example.net"),
                &Role::Node.template(&fleet),
            ),
            Thief::new(
                "caller",
                organisation.user(Role::Caller, "mallory", &["agent:rpcutil"]),
                &Role::Caller.template(&fleet),
            ),
            Thief::new(
                "service",
                organisation.service("directory"),
                &Role::Service.template(&fleet),
            ),
            Thief::new(
                "newcomer",
                newcomers.bootstrap(&["name:*.example.com"], None),
                &among_newcomers(Role::Newcomer),
            ),
            Thief::new(
                "enroller",
                newcomers.enroller("provisioner"),
                &among_newcomers(Role::Service),
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
            .replace("{key}", &thief.signer.public().to_string())
            .replace("{node}", self.node.identity().as_str())
            .replace("{node_key}", &self.node.public().to_string())
            .replace("{caller_key}", &self.caller.public().to_string())
            .replace("{service_key}", &self.service.public().to_string())
            .replace("{other_key}", &self.other_newcomer.public().to_string())
    }
}
