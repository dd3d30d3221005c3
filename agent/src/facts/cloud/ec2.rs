//! Amazon's instance metadata service, version 2: a session token first, then paths of plain text.
//!
//! Version 1, without a token, is asked only where the configuration allows it: whoever can make the machine fetch an address could
//! ask it too.

use super::http::MetadataSession;
use super::{CloudMetadata, region_of_zone};

/// How long the session may last, in seconds.
const TOKEN_TTL_SECONDS: &str = "60";
/// Longest session token that is sent back.
const MAX_TOKEN_BYTES: usize = 1024;
/// What is asked for, below `/latest/meta-data/`. Each becomes a fact of its own too: `ec2_placement_availability_zone`.
const METADATA_PATHS: [&str; 17] = [
    "instance-id",
    "instance-type",
    "ami-id",
    "ami-launch-index",
    "instance-life-cycle",
    "hostname",
    "local-hostname",
    "local-ipv4",
    "mac",
    "placement/availability-zone",
    "placement/availability-zone-id",
    "placement/region",
    "profile",
    "public-hostname",
    "public-ipv4",
    "reservation-id",
    "security-groups",
];
/// Most tags that are asked for, a question each.
const MAX_TAGS: usize = 32;

/// Asks; nothing if whoever is there is not it.
pub(super) fn fetch_metadata(
    session: &MetadataSession<'_>,
    imds_v1: bool,
) -> Result<Option<CloudMetadata>, String> {
    let ttl = [("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_TTL_SECONDS)];
    let token = match session.send_put("/latest/api/token", &ttl) {
        Ok(token) => token.filter(|token| is_session_token(token)),
        Err(_) if imds_v1 => None,
        Err(problem) => return Err(problem),
    };
    if token.is_none() && !imds_v1 {
        return Ok(None);
    }
    let headers: Vec<_> = token
        .iter()
        .map(|token| ("X-aws-ec2-metadata-token", token.as_str()))
        .collect();
    let get = |path: &str| session.fetch_value(&format!("/latest/meta-data/{path}"), &headers);
    if !get("instance-id")?.is_some_and(|id| is_instance_id(id.trim())) {
        return Ok(None);
    }
    let mut told = CloudMetadata::default();
    for path in METADATA_PATHS {
        if let Some(value) = get(path)? {
            add_value(&mut told, path, value.trim());
        }
    }
    if told.region.is_none() {
        told.region = told.zone.as_deref().and_then(region_of_zone);
        let flat = told.region.clone();
        told.flat
            .extend(flat.map(|region| ("ec2_placement_region".to_owned(), region)));
    }
    // Offered where the instance's options allow it.
    if let Some(names) = get("tags/instance/")? {
        for name in names
            .lines()
            .filter(|name| is_tag_name(name))
            .take(MAX_TAGS)
        {
            if let Some(value) = get(&format!("tags/instance/{name}"))? {
                told.tags.push((name.to_owned(), value));
            }
        }
    }
    Ok(Some(told))
}

fn add_value(told: &mut CloudMetadata, path: &str, value: &str) {
    let known = match path {
        "instance-id" => Some(&mut told.instance_id),
        "instance-type" => Some(&mut told.kind),
        "ami-id" => Some(&mut told.image),
        // What the operator may have chosen counts; the other is derived from the address.
        "hostname" => Some(&mut told.hostname),
        "local-hostname" if told.hostname.is_none() => Some(&mut told.hostname),
        "local-ipv4" => Some(&mut told.local_ip),
        "public-ipv4" => Some(&mut told.public_ip),
        "placement/availability-zone" => Some(&mut told.zone),
        "placement/region" => Some(&mut told.region),
        _ => None,
    };
    if let Some(known) = known {
        *known = Some(value.to_owned());
    }
    let name = format!("ec2_{}", path.replace(['/', '-'], "_"));
    told.flat.push((name, value.to_owned()));
}

/// What may be in a header that is sent back.
fn is_session_token(text: &str) -> bool {
    let text = text.trim_end();
    (1..=MAX_TOKEN_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An instance's name, as Amazon's are: it tells its service from somebody who answers everything.
fn is_instance_id(id: &str) -> bool {
    let hexadecimal = |rest: &str| {
        (8..=17).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    id.strip_prefix("i-").is_some_and(hexadecimal)
}

/// A name that can be part of a path.
fn is_tag_name(name: &str) -> bool {
    let belongs = |c: char| c.is_ascii_alphanumeric() || "_.:=+@-".contains(c);
    !name.is_empty() && name.len() <= super::MAX_TAG_NAME_CHARS && name.chars().all(belongs)
}
