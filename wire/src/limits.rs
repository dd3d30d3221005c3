//! Every limit that stands between untrusted bytes and a parser, in one place.
//!
//! The limits are protocol: both sides know them. What an operator may tune (concurrency, queue depth) is
//! configuration and lives with the daemon.

/// Largest sealed request that is decoded, in bytes. Below the broker's default `max_payload` of 1 MiB.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Largest sealed reply that is decoded, in bytes.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// Largest sealed progress message that is decoded, in bytes.
pub const MAX_PROGRESS_BYTES: usize = 128 * 1024;

/// Largest JSON web token that is decoded, in bytes. An account token carries signing keys and revocations, of 93 bytes each: 10,000
/// revocations fit, and it stays below the broker's `max_payload` of 1 MiB with what travels around it.
pub const MAX_TOKEN_BYTES: usize = 1_000_000;

/// Longest life of a node's token that a service signs, in seconds: 90 days. A node's key that was revoked has no valid token after that.
pub const MAX_NODE_TOKEN_SECONDS: u64 = 90 * 24 * 60 * 60;

/// Largest user token inside a message, in bytes.
pub const MAX_USER_TOKEN_BYTES: usize = 16 * 1024;

/// Most tokens that a caller remembers as verified from one command to the next.
pub const MAX_VERIFIED_TOKENS: usize = 64 * 1024;

/// Longest identity, in bytes: the limit of a DNS name.
pub const MAX_IDENTITY_BYTES: usize = 253;

/// Longest part of an identity between dots, in bytes: the limit of a DNS label.
pub const MAX_LABEL_BYTES: usize = 63;

/// Longest name of a collective, an agent or an action, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Most nodes that one request may name.
pub const MAX_TARGET_NODES: usize = 20_000;

/// Most bytes of sealed inputs in one request, as text, for all of its nodes.
pub const MAX_ENCRYPTED_INPUT_BYTES: usize = 768 * 1024;

/// Most sealed inputs for one node.
pub const MAX_ENCRYPTED_INPUTS: usize = 64;

/// Longest time to live of a request, in milliseconds: one day.
pub const MAX_TTL_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Largest sealed proposal that is decoded, in bytes: it fits into an approval, and that into a request.
pub const MAX_PROPOSAL_BYTES: usize = 256 * 1024;

/// Largest sealed approval that is decoded, in bytes.
pub const MAX_APPROVAL_BYTES: usize = 512 * 1024;

/// Longest life of a proposal, in milliseconds: one day.
pub const MAX_PROPOSAL_LIFETIME_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Deepest nesting of JSON that is accepted, as `serde_json` counts it.
pub const MAX_JSON_DEPTH: usize = 128;

/// Longest line of an audit log, in bytes: a request's inputs, escaped, or an account's token.
pub const MAX_AUDIT_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Largest bundle of an agent, in bytes. It is held in memory while it is verified.
pub const MAX_BUNDLE_BYTES: usize = 64 * 1024 * 1024;

/// Largest sealed manifest of a bundle, in bytes.
pub const MAX_BUNDLE_MANIFEST_BYTES: usize = 128 * 1024;

/// Most files in a bundle.
pub const MAX_BUNDLE_FILES: usize = 256;

/// Longest path in a bundle, in bytes: with `files/` before it, it fits into the oldest form of a tar header.
pub const MAX_BUNDLE_PATH_BYTES: usize = 90;

/// Largest sealed wish to be enrolled that is decoded, in bytes: two tokens' worth of names and facts.
pub const MAX_ENROLMENT_REQUEST_BYTES: usize = 64 * 1024;

/// Largest sealed answer to it, in bytes: an account's token and a node's own, and room around them.
pub const MAX_ENROLMENT_ANSWER_BYTES: usize = MAX_TOKEN_BYTES + 40 * 1024;

/// Most patterns of names in one bootstrap token.
pub const MAX_TOKEN_GRANT_NAMES: usize = 64;

/// Most facts in one bootstrap token.
pub const MAX_TOKEN_GRANT_FACTS: usize = 32;

/// Longest value of a fact in a bootstrap token, and longest version that a newcomer says, in bytes.
pub const MAX_TOKEN_GRANT_TEXT_BYTES: usize = 256;

/// How long after it was signed a wish to be enrolled counts, in milliseconds, beside the skew of clocks.
pub const MAX_ENROLMENT_REQUEST_AGE_MILLIS: u64 = 60 * 1000;
