//! The fixture of the attacks: one set of stolen credentials per role, victims, and what the role's template permits.

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::sign::Signer;
use muster_wire::token::claims::{PermissionTemplate, SubjectPermissions};
use muster_wire::token::permission::expand_scope_line;
use muster_wire::token::{ServiceRight, UserRole};

/// Stolen credentials of one role.
pub(super) struct StolenCredentials {
    /// The name of the role, or of the right of a service, in the list of attempts.
    pub(super) role: &'static str,
    pub(super) signer: Signer,
    /// Patterns of the subjects that the role may publish to.
    pub(super) publish: Vec<String>,
    /// Patterns of the subjects that the role may subscribe to.
    pub(super) subscribe: Vec<String>,
}

impl StolenCredentials {
    fn new(role: &'static str, signer: Signer, template: &PermissionTemplate) -> Self {
        let expand = |subjects: &SubjectPermissions| {
            assert_eq!(subjects.deny, [""; 0], "the model does not support denials");
            let lines = subjects.allow.iter();
            lines.flat_map(|line| expand_scope_line(line, &signer.claims())).collect()
        };
        Self {
            role,
            publish: expand(&template.publish),
            subscribe: expand(&template.subscribe),
            signer,
        }
    }

    /// Whether attempts of this role are made with these credentials; those of `service` with those of every service.
    pub(super) fn has_role(&self, role: &str) -> bool {
        self.role == role || role == "service" && self.role.parse::<ServiceRight>().is_ok()
    }

    pub(super) fn may_publish(&self, subject: &str) -> bool {
        self.publish.iter().any(|pattern| includes(pattern, subject))
    }

    pub(super) fn may_subscribe(&self, subject: &str) -> bool {
        self.subscribe.iter().any(|pattern| includes(pattern, subject))
    }
}

/// Whether a pattern contains every subject that `subject`, which may have wildcards, stands for.
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

/// A fleet with a real broker, stolen credentials and victims.
pub(super) struct AttackFixture {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) stolen_credentials: Vec<StolenCredentials>,
    pub(super) node: Signer,
    pub(super) caller: Signer,
    pub(super) service: Signer,
    pub(super) other_bootstrap: Signer,
}

impl AttackFixture {
    pub(super) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let fleet = [organisation.collective().clone()];
        let bootstrap_account = organisation.bootstrap_account();
        let bootstrap_template = |role: UserRole| role.newcomers_account_template().unwrap();
        let services = ServiceRight::ALL.map(|right| {
            let signer = organisation.service(right, &format!("stolen-{right}"));
            StolenCredentials::new(
                right.as_str(),
                signer,
                &UserRole::Service.permission_template(&fleet),
            )
        });
        let mut stolen_credentials = vec![
            StolenCredentials::new(
                "node",
                organisation.node("stolen.example.net"),
                &UserRole::Node.permission_template(&fleet),
            ),
            StolenCredentials::new(
                "caller",
                organisation.user(UserRole::Caller, "mallory", &["agent:rpcutil"]),
                &UserRole::Caller.permission_template(&fleet),
            ),
            // A service whose token names no right.
            StolenCredentials::new(
                "service",
                organisation.user(UserRole::Service, "stolen-service", &[]),
                &UserRole::Service.permission_template(&fleet),
            ),
            StolenCredentials::new(
                "newcomer",
                bootstrap_account.bootstrap(&["name:*.example.com"], None),
                &bootstrap_template(UserRole::Newcomer),
            ),
            StolenCredentials::new(
                "enroller",
                bootstrap_account.enroller("provisioner"),
                &bootstrap_template(UserRole::Service),
            ),
        ];
        stolen_credentials.extend(services);
        Self {
            node: organisation.node("web1.example.net"),
            caller: organisation.caller("rip"),
            service: organisation.service(ServiceRight::Provision, "provisioner"),
            other_bootstrap: bootstrap_account.bootstrap(&["name:*.example.com"], None),
            organisation,
            server,
            stolen_credentials,
        }
    }

    pub(super) fn attacker(&self, role: &str) -> &StolenCredentials {
        let mut stolen_credentials = self.stolen_credentials.iter();
        stolen_credentials.find(|attacker| attacker.role == role).unwrap()
    }

    /// Fills in the names and keys of the attacker and of the victims.
    pub(super) fn fill_placeholders(&self, text: &str, attacker: &StolenCredentials) -> String {
        text.replace("{name}", attacker.signer.identity().as_str())
            .replace("{key}", &attacker.signer.public_key().to_string())
            .replace("{node}", self.node.identity().as_str())
            .replace("{node_key}", &self.node.public_key().to_string())
            .replace("{caller_key}", &self.caller.public_key().to_string())
            .replace("{service_key}", &self.service.public_key().to_string())
            .replace("{other_key}", &self.other_bootstrap.public_key().to_string())
    }
}
