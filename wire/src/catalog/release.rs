//! Releases: which catalog each node is to have, and who promoted them.
//!
//! ```text
//! author:   Release { list, ... }       --signed as muster.release.v1-->    release.NAME
//! promoter: Promotion { release, ... }  --signed as muster.promotion.v1-->  released.NODE, and the request to the node
//! node:     promotion -> release -> list -> part -> catalog -> files, each named by the hash of the next
//! ```
//!
//! The list of a release is content: a root with the first node and the address of each part, and parts of up to 256 nodes. A node reads the root and one part.
//! The promoter's signature covers everything below it, so neither a service nor a node can choose another catalog. Of two promotions the later one counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::CatalogAddress;
use super::content::ContentAddress;
use crate::identity::{Identity, SubjectName};
use crate::request::NodeFilter;
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, encode_envelope,
    sign_envelope,
};
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};
use crate::unique::check_unique_keys;
use crate::{Millis, fresh};

/// Most nodes in a part of a list.
pub const NODES_PER_PART: usize = 256;
/// Most nodes in a release.
pub const MAX_RELEASE_NODES: usize = 100_000;
/// Largest root or part of a list, in bytes.
pub const MAX_LIST_BYTES: usize = 256 * 1024;
/// Largest signed release or promotion as text, in bytes.
pub const MAX_SIGNED_TEXT_BYTES: usize = crate::limits::MAX_PROMOTION_BYTES * 4 / 3 + 4;

/// The part of a node's state that says which release it has.
pub const RELEASE_STATE: &str = "release";
/// The address of the catalog that the node has, in that part.
pub const STATE_CATALOG: &str = "catalog";

/// A set of catalogs under a name. Unknown fields are refused: an older reader must not ignore one that restricts the release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its name: `r42`.
    pub name: SubjectName,
    /// The name in the author's token, repeated here because the body is signed.
    pub author: Identity,
    /// The environment of the nodes.
    pub environment: String,
    /// The code that was to be compiled.
    pub code: String,
    /// When it was made, by the author's clock.
    pub created_at: Millis,
    /// Number of nodes in the list.
    pub nodes: usize,
    /// The root of the list.
    pub list: ContentAddress,
    /// The list of the environment's plugins, for nodes that apply catalogs with Puppet; absent without modules that have any. See
    /// [`PluginList`](super::plugins::PluginList).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<ContentAddress>,
}

/// When a node may apply its released catalog by itself. Outside of these times it only reports what would change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyTimes {
    /// Weekly windows as in schedules: `mon-fri 22:00-04:00`. None: always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<String>,
    /// The time zone of the windows, as in the IANA database; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// What a promoter says: nodes that match have the catalogs of this release from now on. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promotion {
    /// UUID version 7.
    pub id: Uuid,
    /// The name in the promoter's token, repeated here because the body is signed.
    pub author: Identity,
    /// The collective.
    pub collective: SubjectName,
    /// The SHA-256 of the release as it is signed.
    pub release: ContentAddress,
    /// The nodes. Each evaluates it itself.
    #[serde(default, skip_serializing_if = "NodeFilter::is_empty")]
    pub filter: NodeFilter,
    /// When it was signed, by the promoter's clock. A node accepts no earlier one than it has.
    pub issued_at: Millis,
    /// When the node may apply the catalog by itself; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApplyTimes>,
}

/// The value of `released.NODE`: both as they were signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedEntry {
    /// The promotion, as text.
    pub promotion: String,
    /// The release that it names, as text.
    pub release: String,
}

/// A promotion with its release. The promoter is verified.
#[derive(Debug, Clone)]
pub struct OpenPromotion {
    /// The promotion.
    pub promotion: Promotion,
    /// The release that it names.
    pub release: Release,
    /// The verified promoter.
    pub author: Arc<VerifiedUser>,
}

/// Why a release or a promotion is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseRefusal {
    /// The envelope or the token of its signer failed verification: it may be revoked or expired.
    #[error("the signer of the {0} is not accepted")]
    Refused(&'static str, #[source] MessageRefusal),
    /// The encoding is invalid.
    #[error("the {0} has an invalid format: {1}")]
    Shape(&'static str, &'static str),
    /// The body is not the expected JSON.
    #[error("the {0} has an invalid format")]
    Json(&'static str, #[source] serde_json::Error),
    /// The claimed author differs from the signer.
    #[error("the {what} names the author {claimed}, but {signer} signed it")]
    WrongAuthor {
        /// Release or promotion.
        what: &'static str,
        /// The signer.
        signer: Identity,
        /// The claimed author.
        claimed: Identity,
    },
    /// The promotion is of another release.
    #[error("the promotion names the release with the hash {expected}, and this one has {found}")]
    OtherRelease {
        /// What the promotion names.
        expected: ContentAddress,
        /// What came with it.
        found: ContentAddress,
    },
    /// It is from the future.
    #[error(
        "the promotion was signed {} in the future; compare the clocks",
        muster_base::format_millis(*.0)
    )]
    Future(Millis),
}

const RELEASE: &str = "release";
const PROMOTION: &str = "promotion";

/// The key under which a release is stored.
pub fn release_key(name: &SubjectName) -> String {
    format!("release.{name}")
}

/// The key of a node's promotion.
pub fn released_key(node: &Identity) -> String {
    format!("released.{node}")
}

impl Release {
    /// Signs it as its author.
    pub fn sign(&self, signer: &Signer) -> Result<String, EnvelopeSignError> {
        Ok(encode_envelope(&sign_envelope(EnvelopeKind::Release, self, signer)?))
    }

    /// Reads a release without verifying its signature, for those who show it, and for those who have a promotion of it.
    pub fn read_unverified(text: &str) -> Result<Self, ReleaseRefusal> {
        let bytes = decode_text(RELEASE, text)?;
        read_body(RELEASE, decode_envelope(RELEASE, EnvelopeKind::Release, &bytes)?.body())
    }

    /// The name by which a promotion knows a release: the SHA-256 of its text.
    pub fn address_of(text: &str) -> ContentAddress {
        ContentAddress::of(text.as_bytes())
    }
}

/// Verifies a release: that its author is a caller whose key is not revoked, and whose token was valid when it was made. A release outlives the token.
pub fn open_release(
    text: &str,
    trust: &AccountTrust,
    cache: &TokenCache,
) -> Result<Release, ReleaseRefusal> {
    let bytes = decode_text(RELEASE, text)?;
    let envelope = decode_envelope(RELEASE, EnvelopeKind::Release, &bytes)?;
    let release: Release = read_body(RELEASE, envelope.body())?;
    let opened = envelope
        .verify(trust, cache, release.created_at, &[UserRole::Caller])
        .map_err(|refusal| ReleaseRefusal::Refused(RELEASE, refusal))?;
    check_author(RELEASE, &opened.sender.identity, &release.author)?;
    Ok(release)
}

impl Promotion {
    /// Signs it as its author.
    pub fn sign(&self, signer: &Signer) -> Result<String, EnvelopeSignError> {
        Ok(encode_envelope(&sign_envelope(EnvelopeKind::Promotion, self, signer)?))
    }
}

impl ReleasedEntry {
    /// Reads both without verifying signatures, for those who show them.
    pub fn read_unverified(&self) -> Result<(Promotion, Release), ReleaseRefusal> {
        let bytes = decode_text(PROMOTION, &self.promotion)?;
        let envelope = decode_envelope(PROMOTION, EnvelopeKind::Promotion, &bytes)?;
        Ok((read_body(PROMOTION, envelope.body())?, Release::read_unverified(&self.release)?))
    }

    /// Verifies the promotion: that its author is a caller whose token is valid now, and that the release is the one that it names. The promoter vouches for the
    /// release, so its own signature does not count here.
    pub fn open(
        &self,
        trust: &AccountTrust,
        cache: &TokenCache,
        now: Millis,
    ) -> Result<OpenPromotion, ReleaseRefusal> {
        let bytes = decode_text(PROMOTION, &self.promotion)?;
        let envelope = decode_envelope(PROMOTION, EnvelopeKind::Promotion, &bytes)?;
        let opened = envelope
            .verify(trust, cache, now, &[UserRole::Caller])
            .map_err(|refusal| ReleaseRefusal::Refused(PROMOTION, refusal))?;
        let promotion: Promotion = read_body(PROMOTION, opened.body)?;
        check_author(PROMOTION, &opened.sender.identity, &promotion.author)?;
        if promotion.id.get_version_num() != 7 {
            return Err(ReleaseRefusal::Shape(PROMOTION, "the id is not a version 7 UUID"));
        }
        let ahead = promotion.issued_at.saturating_sub(now);
        if ahead > fresh::CLOCK_SKEW_MILLIS {
            return Err(ReleaseRefusal::Future(ahead));
        }
        let (expected, found) = (promotion.release, Release::address_of(&self.release));
        if expected != found {
            return Err(ReleaseRefusal::OtherRelease { expected, found });
        }
        let release = Release::read_unverified(&self.release)?;
        Ok(OpenPromotion { promotion, release, author: opened.sender })
    }
}

fn decode_text(what: &'static str, text: &str) -> Result<Vec<u8>, ReleaseRefusal> {
    if text.len() > MAX_SIGNED_TEXT_BYTES {
        return Err(ReleaseRefusal::Shape(what, "too long"));
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| ReleaseRefusal::Shape(what, "not base64url"))
}

fn decode_envelope<'a>(
    what: &'static str,
    kind: EnvelopeKind,
    bytes: &'a [u8],
) -> Result<Envelope<'a>, ReleaseRefusal> {
    Envelope::decode(kind, bytes).map_err(|refusal| ReleaseRefusal::Refused(what, refusal))
}

fn read_body<T: for<'a> Deserialize<'a>>(
    what: &'static str,
    body: &[u8],
) -> Result<T, ReleaseRefusal> {
    let read = check_unique_keys(body).and_then(|()| serde_json::from_slice(body));
    read.map_err(|error| ReleaseRefusal::Json(what, error))
}

fn check_author(
    what: &'static str,
    signer: &Identity,
    claimed: &Identity,
) -> Result<(), ReleaseRefusal> {
    if signer == claimed {
        return Ok(());
    }
    let (signer, claimed) = (signer.clone(), claimed.clone());
    Err(ReleaseRefusal::WrongAuthor { what, signer, claimed })
}

/// The catalogs of a release by node.
pub type ReleaseNodes = BTreeMap<Identity, CatalogAddress>;

/// The bytes of a list: the root, and the parts that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseList {
    /// The root. Its address is the release's `list`.
    pub root: Vec<u8>,
    /// The parts, in the order of their nodes.
    pub parts: Vec<Vec<u8>>,
}

/// The root of a list: the first node of each part, and its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseListRoot(Vec<(Identity, ContentAddress)>);

/// A root or part is not that of a list.
#[derive(Debug, thiserror::Error)]
#[error("the list of the release has an invalid format")]
pub struct ReleaseListError(#[from] serde_json::Error);

impl ReleaseList {
    /// The list of these catalogs. Equal catalogs have equal bytes.
    pub fn new(nodes: &ReleaseNodes) -> serde_json::Result<Self> {
        let (mut root, mut parts) = (Vec::new(), Vec::new());
        let nodes: Vec<_> = nodes.iter().collect();
        for part in nodes.chunks(NODES_PER_PART) {
            let Some((first, _)) = part.first() else { continue };
            let bytes = serde_json::to_vec(&part.iter().copied().collect::<BTreeMap<_, _>>())?;
            root.push(((*first).clone(), ContentAddress::of(&bytes)));
            parts.push(bytes);
        }
        Ok(Self { root: serde_json::to_vec(&ReleaseListRoot(root))?, parts })
    }

    /// The address of the root.
    pub fn address(&self) -> ContentAddress {
        ContentAddress::of(&self.root)
    }
}

impl ReleaseListRoot {
    /// Reads a root whose hash was compared.
    pub fn read(bytes: &[u8]) -> Result<Self, ReleaseListError> {
        Ok(serde_json::from_slice(bytes)?)
    }

    /// The part in which this node is, if it is in the list.
    pub fn part_of(&self, node: &Identity) -> Option<ContentAddress> {
        let after = self.0.partition_point(|(first, _)| first <= node);
        after.checked_sub(1).and_then(|index| self.0.get(index)).map(|(_, part)| *part)
    }

    /// The addresses of all parts, in the order of their nodes.
    pub fn parts(&self) -> impl Iterator<Item = ContentAddress> {
        self.0.iter().map(|(_, part)| *part)
    }
}

/// Reads a part whose hash was compared.
pub fn read_list_part(bytes: &[u8]) -> Result<ReleaseNodes, ReleaseListError> {
    Ok(serde_json::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> ReleaseNodes {
        let name = |number| Identity::parse(&format!("n{number:04}.acme.net")).unwrap();
        let address = |number: usize| CatalogAddress::parse(&format!("{number:064x}")).unwrap();
        (0..count).map(|number| (name(number), address(number))).collect()
    }

    #[test]
    fn each_node_is_found_in_its_part_and_no_other() {
        for count in [0, 1, NODES_PER_PART, NODES_PER_PART + 1, 1000] {
            let nodes = nodes(count);
            let list = ReleaseList::new(&nodes).unwrap();
            let root = ReleaseListRoot::read(&list.root).unwrap();
            assert_eq!(list.parts.len(), count.div_ceil(NODES_PER_PART));
            let by_address: BTreeMap<ContentAddress, &Vec<u8>> =
                list.parts.iter().map(|part| (ContentAddress::of(part), part)).collect();
            for (node, address) in &nodes {
                let part = read_list_part(by_address[&root.part_of(node).unwrap()]).unwrap();
                assert_eq!(part.get(node), Some(address));
                assert!(part.len() <= NODES_PER_PART);
            }
            let before_all = Identity::parse("a.acme.net").unwrap();
            assert_eq!(root.part_of(&before_all), None);
            assert!(list.root.len() <= MAX_LIST_BYTES);
        }
    }
}
