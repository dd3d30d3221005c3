//! Schema of `file`. Combinations are validated by [`check`](super::check).

use crate::schema::{AttributeKind, AttributeSchema, TypeSchema};

/// Documentation of the `SELinux` attributes, which are accepted and ignored.
const SELINUX_DOC: &str =
    "Accepted but ignored: SELinux contexts are not managed; run `restorecon` in an `exec`.";

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
    doc: "A file, a directory or a symbolic link; with `recurse`, also the contents of a directory.",
    namevar: "path",
    attributes: &[
        AttributeSchema::property(
            "ensure",
            AttributeKind::WordOr(&["present", "absent", "file", "directory", "link"]),
            "The kind of the entry; a path creates a symbolic link to it.",
        ),
        AttributeSchema::property(
            "checksum_value",
            AttributeKind::Text,
            "The required checksum of `source`, of the kind in `checksum`; only the content is taken from `source`.",
        ),
        AttributeSchema::property("content", AttributeKind::Text, "The content of the file."),
        AttributeSchema::property("target", AttributeKind::Text, "The target of the link."),
        AttributeSchema::property("owner", AttributeKind::Text, "The owner, by name or UID."),
        AttributeSchema::property("group", AttributeKind::Text, "The group, by name or GID."),
        AttributeSchema::property(
            "mode",
            AttributeKind::Mode,
            "Permission bits, octal or symbolic; with octal bits, a directory gets `x` wherever it has `r`.",
        ),
        AttributeSchema::parameter("path", AttributeKind::Path, "The absolute path."),
        AttributeSchema::parameter("provider", AttributeKind::Word(&["posix"]), "The provider; there is only one.").with_default("posix"),
        AttributeSchema::parameter(
            "source",
            AttributeKind::List,
            "Paths on the node, or `puppet:` URLs; the first that exists is copied.",
        ),
        AttributeSchema::parameter(
            "source_permissions",
            AttributeKind::Word(&["ignore", "use", "use_when_creating"]),
            "Whether owner, group and mode are copied from `source` if they are not set.",
        )
        .with_default("ignore"),
        AttributeSchema::parameter(
            "sourceselect",
            AttributeKind::Word(&["first", "all"]),
            "Whether a directory is copied from the first existing `source` or from all of them.",
        )
        .with_default("first"),
        AttributeSchema::parameter(
            "links",
            AttributeKind::Word(&["manage", "follow"]),
            "Whether to manage a symbolic link itself, or to follow it to its target.",
        )
        .with_default("manage"),
        AttributeSchema::parameter(
            "recurse",
            AttributeKind::Word(&["true", "false", "remote"]),
            "Whether the contents of the directory are managed too; `remote` manages only entries that `source` contains.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "recurselimit",
            AttributeKind::Int,
            "Maximum depth below the directory; unlimited by default.",
        ),
        AttributeSchema::parameter(
            "max_files",
            AttributeKind::Int,
            "Maximum number of entries, more is an error; 0 only warns above 1000, -1 disables the warning.",
        )
        .with_default("0"),
        AttributeSchema::parameter(
            "purge",
            AttributeKind::Bool,
            "Whether to remove entries of the directory that are neither in `source` nor in the catalog.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "ignore",
            AttributeKind::List,
            "Patterns such as `*.swp`; entries with a matching name are ignored.",
        ),
        AttributeSchema::parameter(
            "force",
            AttributeKind::Bool,
            "Whether directories may be removed with their contents.",
        )
        .with_default("false"),
        AttributeSchema::parameter(
            "replace",
            AttributeKind::Bool,
            "Whether existing content is replaced.",
        )
        .with_default("true"),
        AttributeSchema::parameter(
            "backup",
            AttributeKind::Text,
            "Suffix such as `.bak` for a copy of the replaced file, or the name of a `filebucket` that stores it; `false`: no backup.",
        )
        .with_default("false"),
        AttributeSchema::parameter("checksum", AttributeKind::Word(CHECKSUM_NAMES), "How contents are compared.")
            .with_default("sha256"),
        AttributeSchema::parameter(
            "show_diff",
            AttributeKind::Bool,
            "Accepted for compatibility with Puppet; contents are never shown.",
        )
        .with_default("true"),
        AttributeSchema::parameter(
            "staging_location",
            AttributeKind::Path,
            "File for the new content while `validate_cmd` runs; next to the target by default.",
        ),
        AttributeSchema::parameter(
            "validate_cmd",
            AttributeKind::Text,
            "A command that validates the new content; `%` is replaced with the path of the content.",
        ),
        AttributeSchema::parameter(
            "validate_replacement",
            AttributeKind::Text,
            "The placeholder for the path in `validate_cmd`.",
        )
        .with_default("%"),
        AttributeSchema::parameter("seluser", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selrole", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("seltype", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selrange", AttributeKind::Text, SELINUX_DOC),
        AttributeSchema::parameter("selinux_ignore_defaults", AttributeKind::Bool, SELINUX_DOC),
    ],
};
