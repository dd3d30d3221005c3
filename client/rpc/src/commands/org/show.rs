//! `rpc org show`: shows the organisation's account, or the token of one principal with its resolved permissions.

use muster_base::unix_millis_now;
use muster_display::TextPage;
use muster_display::printer::{OutputPrinter, STRONG};
use muster_display::time::format_time;
use muster_organisation::{
    AccountTrusts, CredentialRecord, Organisation, OrganisationError, OrganisationProfile,
    RecordIndex,
};
use muster_wire::token::claims::{
    AccountClaims, ScopedKey, SigningKeyEntry, SubjectPermissions, UserClaims,
};
use muster_wire::token::decode::{DecodedToken, decode_token};
use muster_wire::token::permission::expand_scope_line;
use muster_wire::token::{PublicKey, Seconds};
use serde::Serialize;

use crate::commands::org::args::OrgShowArgs;
use crate::commands::org::list::{CredentialRow, format_optional_time};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// The document that `-j` prints for an organisation. Times are in seconds since the epoch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct OrganisationDocument<'a> {
    schema: &'static str,
    directory: String,
    #[serde(flatten)]
    profile: &'a OrganisationProfile,
    account_issued_at: Seconds,
    revocations: usize,
    roles: Vec<RolePermissions>,
    /// Roles of the bootstrap account; absent if there is no such account.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    newcomer_roles: Vec<RolePermissions>,
}

/// The document that `-j` prints for a principal.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct PrincipalDocument {
    schema: &'static str,
    #[serde(flatten)]
    row: CredentialRow,
    issuer: PublicKey,
    tags: Vec<String>,
    permissions: RolePermissions,
}

/// Permissions that the broker enforces.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
struct RolePermissions {
    role: String,
    publish: SubjectPermissions,
    subscribe: SubjectPermissions,
    /// Whether it may publish replies to the reply subject of any message that it receives.
    answer: bool,
}

pub fn run(args: &OrgShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let trusts = organisation.account_trusts()?;
    let Some(name) = &args.name else {
        let account = &trusts.fleet_trust().claims().nats;
        let stores = trusts.storage_trust().map(|trust| &trust.claims().nats);
        let roles = |account| -> Vec<RolePermissions> {
            let unfilled = |subject: &str| vec![subject.to_owned()];
            let scopes = account_scopes(account);
            scopes.map(|scope| role_permissions(scope, unfilled)).collect()
        };
        let document = OrganisationDocument {
            schema: "muster.org.show.v1",
            directory: organisation.layout().directory().display().to_string(),
            profile: organisation.profile(),
            account_issued_at: trusts.fleet_trust().issued_at(),
            revocations: account.revocations.len(),
            roles: roles(account).into_iter().chain(stores.into_iter().flat_map(roles)).collect(),
            newcomer_roles: trusts
                .newcomers_trust()
                .map(|trust| roles(&trust.claims().nats))
                .unwrap_or_default(),
        };
        return print_organisation(&document, args.json, printer);
    };
    let records = organisation.newest_records()?;
    let found = RecordIndex::new(&records).find_records(name.as_str(), args.kind)?;
    let now = unix_millis_now() / 1000;
    let documents =
        found.into_iter().map(|record| principal_document(organisation, &trusts, record, now));
    let documents: Vec<PrincipalDocument> = documents.collect::<Result<_, _>>()?;
    if args.json {
        printer.print_json(&documents)?;
    } else {
        let texts = documents.iter().map(render_principal);
        printer.print_text(texts.collect::<String>())?;
    }
    Ok(CommandExitCode::Passed)
}

fn account_scopes(account: &AccountClaims) -> impl Iterator<Item = &ScopedKey> {
    account.signing_keys.iter().filter_map(|entry| match entry {
        SigningKeyEntry::Scoped(scope) => Some(&**scope),
        SigningKeyEntry::Plain(_) => None,
    })
}

/// A principal's token, and its role's permissions as the broker resolves them for it.
fn principal_document(
    organisation: &Organisation,
    trusts: &AccountTrusts,
    record: &CredentialRecord,
    now: Seconds,
) -> Result<PrincipalDocument, OrganisationError> {
    let path = organisation.layout().ledger_file();
    let decoded =
        decode_token::<UserClaims>(&record.token).and_then(DecodedToken::verify_signature);
    let claims = decoded.map_err(|source| OrganisationError::Token(path, source))?;
    let account = trusts.realm_trust(record.kind.realm());
    let account = account.map(|trust| &trust.claims().nats);
    let mut scopes = account.into_iter().flat_map(account_scopes);
    let scope = scopes.find(|scope| scope.key == claims.iss);
    let fill = |subject: &str| expand_scope_line(subject, &claims);
    let none = || RolePermissions {
        role: "none: the issuer is no longer a signing key of the account".to_owned(),
        ..RolePermissions::default()
    };
    Ok(PrincipalDocument {
        schema: "muster.org.party.v1",
        row: CredentialRow::new(record, trusts, now),
        issuer: claims.iss,
        permissions: scope.map_or_else(none, |scope| role_permissions(scope, fill)),
        tags: claims.nats.tags.clone(),
    })
}

fn role_permissions(scope: &ScopedKey, fill: impl Fn(&str) -> Vec<String>) -> RolePermissions {
    let fill_all =
        |subjects: &[String]| subjects.iter().flat_map(|subject| fill(subject)).collect();
    let fill_permissions = |subjects: &SubjectPermissions| SubjectPermissions {
        allow: fill_all(&subjects.allow),
        deny: fill_all(&subjects.deny),
    };
    RolePermissions {
        role: scope.role.clone(),
        publish: fill_permissions(&scope.template.publish),
        subscribe: fill_permissions(&scope.template.subscribe),
        answer: scope.template.resp.is_some(),
    }
}

fn print_organisation(
    document: &OrganisationDocument<'_>,
    json: bool,
    printer: &OutputPrinter,
) -> CommandResult {
    if json {
        printer.print_json(document)?;
        return Ok(CommandExitCode::Passed);
    }
    printer.print_text(render_organisation(document))?;
    Ok(CommandExitCode::Passed)
}

fn render_organisation(document: &OrganisationDocument<'_>) -> String {
    let profile = document.profile;
    let collectives: Vec<&str> = profile.collectives.iter().map(AsRef::as_ref).collect();
    let newcomers = profile.newcomers_account.map(|account| account.to_string());
    let mut page = TextPage::default();
    page.push_line(format_args!("{STRONG}{}{STRONG:#} in {}", profile.name, document.directory));
    let rows = [
        ("operator", profile.operator.to_string()),
        ("account", profile.account.to_string()),
        ("system", profile.system_account.to_string()),
        ("newcomers", newcomers.unwrap_or_else(|| "-".to_owned())),
        ("issued", format_time(document.account_issued_at)),
        ("revoked", document.revocations.to_string()),
        ("collectives", collectives.join(", ")),
        ("broker", profile.broker.urls.join(", ")),
    ];
    page.push_labels(2, 12, rows);
    document.roles.iter().for_each(|role| role.render_onto(&mut page));
    if !document.newcomer_roles.is_empty() {
        page.push_gap();
        page.push_line(format_args!("{STRONG}bootstrapping nodes{STRONG:#}"));
    }
    document.newcomer_roles.iter().for_each(|role| role.render_onto(&mut page));
    page.into_text()
}

fn render_principal(document: &PrincipalDocument) -> String {
    let row = &document.row;
    let mut page = TextPage::default();
    page.push_line(format_args!("{STRONG}{} {}{STRONG:#}", row.kind, row.name));
    let rows = [
        ("state", row.state.to_string()),
        ("key", row.key.to_string()),
        ("issued", format_optional_time(Some(row.issued_at))),
        ("expires", format_optional_time(row.expires)),
        ("revoked", format_optional_time(row.revoked_at)),
        ("issuer", document.issuer.to_string()),
        ("tags", document.tags.join(", ")),
    ];
    page.push_labels(2, 12, rows);
    document.permissions.render_onto(&mut page);
    page.into_text()
}

impl RolePermissions {
    fn render_onto(&self, page: &mut TextPage) {
        page.push_gap();
        page.push_line(format_args!("  role {}", self.role));
        let lists = [
            ("publish", &self.publish.allow),
            ("not publish", &self.publish.deny),
            ("subscribe", &self.subscribe.allow),
            ("not subscribe", &self.subscribe.deny),
        ];
        for (label, subjects) in lists {
            page.push_labels(4, 14, subjects.iter().map(|subject| (label, subject)));
        }
        if self.answer {
            page.push_labels(4, 14, [("reply", "to received messages")]);
        }
    }
}
