//! The role of monitoring systems: its key (`role-monitor.nk`) signs users of the system account that may ask the broker's servers for their state, and
//! do nothing else. Their directory works in place of the organisation's for `rpc broker status`.

use std::path::Path;
use std::time::Duration;

use muster_files::files;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::subject;
use muster_wire::token::claims::{
    PermissionTemplate, ScopedKey, SigningKeyEntry, SubjectPermissions, UserClaims,
};
use muster_wire::token::encode::TokenValidity;
use muster_wire::token::{PublicKey, UserCredentials};

use crate::push::PushError;
use crate::rotation::role_key;
use crate::{
    Organisation, OrganisationError, OrganisationKey, OrganisationLayout, OrganisationLock,
    PrincipalKind, bundle, issue, ledger,
};

/// Name of the role, and of its users in the broker's connection list.
const MONITOR_ROLE: &str = "monitor";

/// The reports of servers that a monitoring system may ask for: state, leaf nodes, streams, which account token is in force, and health.
const REPORTS: [&str; 5] = ["VARZ", "LEAFZ", "JSZ", "ACCOUNTZ", "HEALTHZ"];

impl Organisation {
    /// Writes a directory for a monitoring system. With `replace` a new key signs its credentials, and all that were issued before end.
    pub async fn write_monitor_directory(
        &self,
        _lock: &OrganisationLock,
        directory: &Path,
        expires: Option<Duration>,
        replace: bool,
        now: Millis,
    ) -> Result<(), PushError> {
        let layout = OrganisationLayout::new(directory.to_owned());
        bundle::require_absent(directory, &["organisation.toml"])?;
        self.declare_monitor_key(replace, now)?;
        self.push_system_token().await?;
        let creds = self.issue_monitor(expires, now)?;
        issue::write_credentials(&layout.system_creds(), &creds)?;
        Ok(self.copy_public_files(&layout)?)
    }

    /// Lists the key of the role in the token of the system account, and no other key of it.
    fn declare_monitor_key(&self, replace: bool, now: Millis) -> Result<(), OrganisationError> {
        let key = OrganisationKey::Monitor;
        let pair = if replace { self.create_next_key(key)? } else { self.load_or_create_key(key)? };
        let mut account = self.system_claims()?.nats;
        let entry = monitor_entry(pair.public_key());
        let is_role = |entry: &&SigningKeyEntry| role_key(entry, MONITOR_ROLE).is_some();
        if !account.signing_keys.iter().filter(is_role).eq([&entry]) {
            account.signing_keys.retain(|entry| role_key(entry, MONITOR_ROLE).is_none());
            account.signing_keys.push(entry);
            let operator = self.load_key(OrganisationKey::Operator)?;
            self.write_system_account(account, &operator, now)?;
        }
        if replace {
            self.install_next_key(key, &pair)?;
            self.remove_next_key(key)?;
        }
        Ok(())
    }

    fn issue_monitor(
        &self,
        expires: Option<Duration>,
        now: Millis,
    ) -> Result<UserCredentials, OrganisationError> {
        let account = self.profile().system_account;
        let issued_at = now / 1000;
        let expires = expires.map(|lifetime| issued_at.saturating_add(lifetime.as_secs()));
        let validity = TokenValidity { issued_at, expires };
        let claims = |_| UserClaims::new(account, Vec::new());
        self.issue_user(&Identity::parse(MONITOR_ROLE)?, OrganisationKey::Monitor, validity, claims)
    }

    /// Copies what `rpc broker status` reads: the description, tokens of the accounts, the certificate of the authority, and the issue of leaf nodes.
    fn copy_public_files(&self, to: &OrganisationLayout) -> Result<(), OrganisationError> {
        let from = self.layout();
        for (from, to) in [
            (from.account_token(), to.account_token()),
            (from.storage_token(), to.storage_token()),
            (from.newcomers_token(), to.newcomers_token()),
            (from.authority_certificate(), to.authority_certificate()),
            (from.profile_file(), to.profile_file()),
        ] {
            if from.exists() {
                files::replace_public(
                    &to,
                    files::read_text(&from, crate::MAX_FILE_BYTES)?.as_bytes(),
                )?;
            }
        }
        for record in
            self.read_records()?.iter().filter(|record| record.kind == PrincipalKind::Leaf)
        {
            ledger::append_record(&to.ledger_file(), record)?;
        }
        Ok(())
    }
}

fn monitor_entry(key: PublicKey) -> SigningKeyEntry {
    let allowing = |allow: Vec<String>| SubjectPermissions { allow, deny: Vec::new() };
    let mut publish = REPORTS.map(|report| format!("$SYS.REQ.SERVER.PING.{report}")).to_vec();
    publish.push(subject::CONFIRM_SUBJECT.to_owned());
    let template = PermissionTemplate {
        publish: allowing(publish),
        subscribe: allowing(vec!["_INBOX.{{subject()}}.>".to_owned()]),
        resp: None,
        subs: -1,
        data: -1,
        payload: -1,
        rest: serde_json::Map::new(),
    };
    SigningKeyEntry::Scoped(Box::new(ScopedKey::with_role_name(key, MONITOR_ROLE, template)))
}
