//! Schema of `file`. Combinations are validated by [`check`](super::check).

use crate::schema::AttributeKind::{AbsolutePath, Bool, Int, List, Mode, Text, Word, WordOr};
use crate::schema::{TypeSchema, flag_parameter, parameter, property, provider_parameter};

/// Documentation of the `SELinux` attributes, which are accepted and ignored.
const SELINUX_DOC: &str =
    "Accepted but ignored: SELinux contexts are not managed; run `restorecon` in an `exec`.";

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

pub(super) static SCHEMA: TypeSchema = TypeSchema {
    type_name: "file",
    doc: "A file, a directory or a symbolic link; with `recurse`, also the contents of a directory.",
    namevar: "path",
    attributes: &[
        property(
            "ensure",
            WordOr(&["present", "absent", "file", "directory", "link"]),
            "The kind of the entry; a path creates a symbolic link to it.",
        ),
        property(
            "checksum_value",
            Text,
            "The required checksum of `source`, of the kind in `checksum`; only the content is taken from `source`.",
        ),
        property("content", Text, "The content of the file."),
        property("target", Text, "The target of the link."),
        property("owner", Text, "The owner, by name or UID."),
        property("group", Text, "The group, by name or GID."),
        property(
            "mode",
            Mode,
            "Permission bits, octal or symbolic; with octal bits, a directory gets `x` wherever it has `r`.",
        ),
        parameter("path", AbsolutePath, "The absolute path."),
        provider_parameter(&["posix"]),
        parameter(
            "source",
            List,
            "Paths on the node, or `puppet:` URLs; the first that exists is copied.",
        ),
        parameter(
            "source_permissions",
            Word(&["ignore", "use", "use_when_creating"]),
            "Whether owner, group and mode are copied from `source` if they are not set.",
        )
        .with_default("ignore"),
        parameter(
            "sourceselect",
            Word(&["first", "all"]),
            "Whether a directory is copied from the first existing `source` or from all of them.",
        )
        .with_default("first"),
        parameter(
            "links",
            Word(&["manage", "follow"]),
            "Whether to manage a symbolic link itself, or to follow it to its target.",
        )
        .with_default("manage"),
        parameter(
            "recurse",
            Word(&["true", "false", "remote"]),
            "Whether the contents of the directory are managed too; `remote` manages only entries that `source` contains.",
        )
        .with_default("false"),
        parameter(
            "recurselimit",
            Int,
            "Maximum depth below the directory; unlimited by default.",
        ),
        parameter(
            "max_files",
            Int,
            "Maximum number of entries, more is an error; 0 only warns above 1000, -1 disables the warning.",
        )
        .with_default("0"),
        flag_parameter("purge", "Whether to remove entries of the directory that are neither in `source` nor in the catalog."),
        parameter(
            "ignore",
            List,
            "Patterns such as `*.swp`; entries with a matching name are ignored.",
        ).split_at_commas(),
        flag_parameter("force", "Whether directories may be removed with their contents."),
        parameter(
            "replace",
            Bool,
            "Whether existing content is replaced.",
        )
        .with_default("true"),
        parameter(
            "backup",
            Text,
            "Suffix such as `.bak` for a copy of the replaced file, or the name of a `filebucket` that stores it; `false`: no backup.",
        )
        .with_default("false"),
        parameter("checksum", Word(CHECKSUM_NAMES), "How contents are compared.")
            .with_default("sha256"),
        parameter(
            "show_diff",
            Bool,
            "Accepted for compatibility with Puppet; contents are never shown.",
        )
        .with_default("true"),
        parameter(
            "staging_location",
            AbsolutePath,
            "File for the new content while `validate_cmd` runs; next to the target by default.",
        ),
        parameter(
            "validate_cmd",
            Text,
            "A command that validates the new content; `%` is replaced with the path of the content.",
        ),
        parameter(
            "validate_replacement",
            Text,
            "The placeholder for the path in `validate_cmd`.",
        )
        .with_default("%"),
        parameter("seluser", Text, SELINUX_DOC),
        parameter("selrole", Text, SELINUX_DOC),
        parameter("seltype", Text, SELINUX_DOC),
        parameter("selrange", Text, SELINUX_DOC),
        parameter("selinux_ignore_defaults", Bool, SELINUX_DOC),
    ],
};
