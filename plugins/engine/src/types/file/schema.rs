//! Schema of `file`. Combinations are validated by [`check`](super::check).

use crate::schema::{AttributeKind, AttributeSchema, TypeSchema};

/// Documentation of the `SELinux` attributes, which are accepted and ignored.
const SELINUX_DOC: &str =
    "Accepted and left alone: contexts are not managed; `restorecon` in an `exec` sets them.";

/// Values of `checksum`.
const CHECKSUM_NAMES: &[&str] = &[
    "sha256",
    "sha256lite",
    "md5",
    "md5lite",
    "sha1",
    "sha1lite",
    "sha512",
    "sha384",
    "sha224",
    "mtime",
    "ctime",
    "none",
];

/// The schema.
pub(super) static SCHEMA: TypeSchema = TypeSchema {
    type_name: "file",
    doc: "A file, directory or symbolic link, or with `recurse` all that is in a directory.",
    namevar: "path",
    attributes: &[
        AttributeSchema::property(
            "ensure",
            AttributeKind::WordOr(&["present", "absent", "file", "directory", "link"]),
            "What is there; a path means a link to it.",
        ),
        AttributeSchema::property(
            "checksum_value",
            AttributeKind::Text,
            "The checksum, of the kind that `checksum` names, that `source` must have; nothing else is taken from there.",
        ),
        AttributeSchema::property("content", AttributeKind::Text, "What is in the file."),
        AttributeSchema::property("target", AttributeKind::Text, "Where the link points."),
        AttributeSchema::property("owner", AttributeKind::Text, "Whose it is, by name or number."),
        AttributeSchema::property("group", AttributeKind::Text, "Its group, by name or number."),
        AttributeSchema::property(
            "mode",
            AttributeKind::Mode,
            "Permission bits, octal or symbolic; with octal ones a directory gets `x` wherever it has `r`.",
        ),
        AttributeSchema::parameter("path", AttributeKind::Path, "Where it is."),
        AttributeSchema::parameter("provider", AttributeKind::Word(&["posix"]), "How it is done; there is one way.").with_default("posix"),
        AttributeSchema::parameter(
            "source",
            AttributeKind::List,
            "Paths of the same machine, or `puppet:` URLs; the first that exists is copied.",
        ),
        AttributeSchema::parameter(
            "source_permissions",
            AttributeKind::Word(&["ignore", "use", "use_when_creating"]),
            "Whether owner, group and mode that are not given are those of `source`.",
        )
        .with_default("ignore"),
        AttributeSchema::parameter(
            "sourceselect",
            AttributeKind::Word(&["first", "all"]),
            "Whether a directory has what is in the first `source`, or in all of them.",
        )
        .with_default("first"),
        AttributeSchema::parameter(
            "links",
            AttributeKind::Word(&["manage", "follow"]),
            "Whether a link is the link, or what it points to.",
        )
        .with_default("manage"),
        AttributeSchema::parameter(
            "recurse",
            AttributeKind::Word(&["true", "false", "remote"]),
            "Whether all that is in the directory is managed with it; `remote`: only what is in `source`.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "recurselimit",
            AttributeKind::Int,
            "How many levels below the directory are managed; all, when it is not given.",
        ),
        AttributeSchema::parameter(
            "max_files",
            AttributeKind::Int,
            "More entries than these are refused; 0 only warns above 1000, -1 never.",
        )
        .with_default("0"),
        AttributeSchema::parameter(
            "purge",
            AttributeKind::Bool,
            "Whether what is in the directory, and neither in `source` nor in the catalog, is removed.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "ignore",
            AttributeKind::List,
            "Patterns such as `*.swp`; names that match are left out.",
        ),
        AttributeSchema::parameter(
            "force",
            AttributeKind::Bool,
            "Whether directories may be removed with all that is in them.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "replace",
            AttributeKind::Bool,
            "Whether what is there gets other content.",
        )
        .with_default("true"),
        AttributeSchema::parameter(
            "backup",
            AttributeKind::Text,
            "Suffix, such as `.bak`, of a copy of what is replaced, or the name of a `filebucket` that keeps it; `false`: neither.",
        )
        .with_default("false"),
        AttributeSchema::parameter("checksum", AttributeKind::Word(CHECKSUM_NAMES), "How content is compared.")
            .with_default("sha256"),
        AttributeSchema::parameter(
            "show_diff",
            AttributeKind::Bool,
            "Accepted for Puppet's sake; contents are never shown.",
        )
        .with_default("true"),
        AttributeSchema::parameter(
            "staging_location",
            AttributeKind::Path,
            "Where new content is put for `validate_cmd`; beside the file, when it is not given.",
        ),
        AttributeSchema::parameter(
            "validate_cmd",
            AttributeKind::Text,
            "A command that must accept the new content; `%` is its path.",
        ),
        AttributeSchema::parameter(
            "validate_replacement",
            AttributeKind::Text,
            "What stands for the path in `validate_cmd`.",
        )
        .with_default("%"),
        AttributeSchema::parameter("seluser", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selrole", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("seltype", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selrange", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selinux_ignore_defaults", AttributeKind::Bool, SELINUX_DOC),
    ],
};
