//! Issues credentials, as every command that creates a principal does.

use std::time::Duration;

use muster_base::unix_millis_now;
use muster_contract::rpcutil::RpcutilAgent;
use muster_ddl::AgentContract as _;
use muster_display::printer::OutputPrinter;
use muster_organisation::{
    CredentialSpec, IssuedCredentials, Organisation, OrganisationError, PrincipalKind,
};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::limits::MAX_NODE_TOKEN_SECONDS;
use muster_wire::token::scope::CallerGrant;

use crate::commands::org::names::{publish_token, reserve_name};
use crate::session::context::Result;

/// The agent that every user may call, because discovery needs it.
const ALWAYS_GRANTED_AGENT: &str = RpcutilAgent::NAME;

/// Validity of a node's credentials if an enroller renews them.
const RENEWED_LIFETIME: Duration = Duration::from_secs(MAX_NODE_TOKEN_SECONDS);

/// The validity of credentials for which none was given: that of a renewed token for a node if an enroller renews it, otherwise without end.
pub fn default_lifetime(
    organisation: &Organisation,
    kind: PrincipalKind,
    now: Millis,
) -> Result<Option<Duration>> {
    let is_renewed = kind == PrincipalKind::Node && organisation.has_enroller(now)?;
    Ok(is_renewed.then_some(RENEWED_LIFETIME))
}

/// Issues credentials: reserves the name, records them, and publishes the token of a node that an enroller renews.
pub async fn issue(
    organisation: &Organisation,
    spec: &CredentialSpec,
    printer: &OutputPrinter,
) -> Result<IssuedCredentials> {
    let (lock, now) = (organisation.lock()?, unix_millis_now());
    let prepared = organisation.prepare_credentials(&lock, spec, now)?;
    reserve_name(organisation, prepared.record(), now).await?;
    let issued = organisation.record_credentials(&lock, prepared)?;
    publish_token(organisation, &issued.record, now, printer).await?;
    Ok(issued)
}

/// The grants of the user: all agents, or the named ones and the agent that every user may call.
pub fn complete_grants(requested: Vec<CallerGrant>) -> Result<Vec<CallerGrant>, OrganisationError> {
    if requested.is_empty() || requested.contains(&CallerGrant::Everything) {
        return Ok(vec![CallerGrant::Everything]);
    }
    let always_granted = SubjectName::parse(ALWAYS_GRANTED_AGENT)
        .map_err(|error| OrganisationError::Name(error.to_string()))?;
    let mut grants = requested;
    grants.push(CallerGrant::Agent(always_granted));
    grants.sort();
    grants.dedup();
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use super::complete_grants;

    #[test]
    fn grants_always_include_rpcutil() {
        let tags = |words: &[&str]| -> Vec<String> {
            let named = words.iter().map(|word| word.parse().unwrap()).collect();
            complete_grants(named).unwrap().iter().map(super::CallerGrant::to_tag).collect()
        };
        assert_eq!(tags(&[]), ["agent:*"]);
        assert_eq!(tags(&["puppetral", "*"]), ["agent:*"]);
        assert_eq!(tags(&["service.status"]), ["agent:rpcutil", "agent:service.status"]);
        assert_eq!(tags(&["rpcutil", "rpcutil"]), ["agent:rpcutil"]);
    }
}
