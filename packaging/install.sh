#!/bin/sh
# Installs a release of Muster without a package manager, upgrades it, or removes it. `sh install.sh --help` describes the options.
#
# All files are written beside their targets first, and the new programs are started with --version. Only then the files are renamed, so that an
# error or a full disk leaves what is installed unchanged. PREFIX/share/muster/installed has a list of the files of each role, without configuration,
# and one of the directories that were created. tools/packager/tarball.py describes FILES in the tarball. For a POSIX shell, because every machine has one.
set -eu
umask 022

roles=
prefix=
action=install
work=
DESTDIR=${DESTDIR:-}

print_help() {
    cat <<'TEXT'
Installs Muster from a release: its directory, or a place where its files were published.

    sh install.sh [--role ROLE]... [--prefix DIRECTORY]
    sh install.sh --uninstall [--role ROLE]... [--prefix DIRECTORY]
    curl -fsSL URL/install.sh | MUSTER_FROM=URL sh -s -- [OPTION]...

--role ROLE          client (default): rpc. node: rpcd and its service. broker: nats-server and its service. Repeatable
--prefix DIRECTORY   default: /usr/local for root, ~/.local for other users, who can install the client only
--uninstall          remove the files of the roles, by default of all that are installed. Configuration and state are kept

MUSTER_FROM          URL or directory with SHA256SUMS and the tarball; by default the directory of install.sh
DESTDIR              install into this root directory, as that of an image; no service is started

A second installation replaces the files of the first. Files in /etc/muster and /etc/muster-broker are never replaced.
TEXT
}

say() { printf 'install.sh: %s\n' "$*"; }
warn() { printf 'install.sh: %s\n' "$*" >&2; }

fail() {
    warn "$@"
    exit 1
}

check_path() { # NAME PATH: the path is absolute, and a shell, sed and a list of words can hold it
    case $2 in
    *[!A-Za-z0-9/._+-]* | */../* | */..) fail "$1 is $2; use letters, digits and . _ + - / only, without .." ;;
    /*) ;;
    *) fail "$1 is $2; use an absolute path" ;;
    esac
}

add_role() {
    case $1 in
    client | node | broker) ;;
    *) fail "there is no role $1; the roles are client, node and broker" ;;
    esac
    case " $roles " in *" $1 "*) ;; *) roles="$roles $1" ;; esac
}

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --role | --prefix) [ $# -ge 2 ] || fail "$1 needs a value; --help describes the options" ;;
        esac
        case $1 in
        --role) add_role "$2" && shift ;;
        --role=*) add_role "${1#*=}" ;;
        --prefix) prefix=$2 && shift ;;
        --prefix=*) prefix=${1#*=} ;;
        --uninstall) action=uninstall ;;
        -h | --help) print_help && exit 0 ;;
        *) fail "unknown argument $1; --help describes the options" ;;
        esac
        shift
    done
}

choose_prefix() {
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
    fi
    check_path --prefix "$prefix"
    prefix=${prefix%/}
    if [ -n "$DESTDIR" ]; then
        check_path DESTDIR "$DESTDIR"
        DESTDIR=${DESTDIR%/}
        [ -d "$DESTDIR" ] || fail "the directory DESTDIR=$DESTDIR does not exist"
    elif [ "$(id -u)" != 0 ]; then
        case $roles in *node* | *broker*) fail "the roles node and broker need root; run the script with sudo" ;; esac
    fi
}

manifest() { printf '%s/share/muster/installed/%s' "$prefix" "$1"; } # ROLE, or directories
unit_of() { case $1 in node) echo rpcd.service ;; broker) echo muster-broker.service ;; esac; }
has_systemd() { [ -z "$DESTDIR" ] && [ -d /run/systemd/system ]; }

# The release.

fetch() { # NAME: copies a file of the release into the directory `work`
    case $from in
    http://* | https://* | file://*)
        if command -v curl >/dev/null; then
            # A redirection must not leave https.
            curl -fsSL --proto "=${from%%://*}" --connect-timeout 30 -o "$work/$1" "$from/$1" || fail "cannot download $from/$1; check MUSTER_FROM"
        elif command -v wget >/dev/null; then
            wget -q -T 30 -O "$work/$1" "$from/$1" || fail "cannot download $from/$1; check MUSTER_FROM"
        else
            fail "neither curl nor wget is installed; install one, or copy the release and set MUSTER_FROM to its directory"
        fi
        ;;
    *://*) fail "MUSTER_FROM is $from; use https://, http://, file:// or a directory" ;;
    *) cp "$from/$1" "$work/$1" || fail "there is no $1 in $from; set MUSTER_FROM to the directory or the URL of a release" ;;
    esac
}

find_release() {
    from=${MUSTER_FROM:-}
    # A script that is piped to a shell has the name of the shell.
    if [ -z "$from" ] && [ "${0##*/}" = install.sh ] && [ -f "$0" ]; then from=$(dirname "$0"); fi
    [ -n "$from" ] || fail "set MUSTER_FROM to the directory or the URL of a release"
    from=${from%/}
    case $from in http://*) warn "$from is not protected; compare SHA256SUMS with a copy that you trust" ;; esac
}

unpack_release() { # sets `release`, the directory with the files of the roles
    [ "$(uname -s)" = Linux ] || fail "this is $(uname -s); Muster runs on Linux"
    machine=$(uname -m)
    find_release
    fetch SHA256SUMS
    line=$(grep -E "^[0-9a-f]{64} [ *]muster_[^_/]+_$machine\.tar\.gz\$" "$work/SHA256SUMS") ||
        fail "$from/SHA256SUMS lists no tarball for $machine, the architecture of this machine"
    name=${line##*[ *]}
    [ "$(printf '%s\n' "$line" | wc -l)" = 1 ] || fail "$from/SHA256SUMS lists several tarballs for $machine; keep one"
    fetch "$name"
    sum=$(sha256sum "$work/$name") || fail "cannot compute the SHA-256 sum of $name"
    [ "${sum%% *}" = "${line%% *}" ] ||
        fail "$from/$name has the SHA-256 sum ${sum%% *}, SHA256SUMS has ${line%% *}; nothing is changed. Download the release again"
    mkdir "$work/unpacked"
    tar -xzf "$work/$name" -C "$work/unpacked" || fail "cannot unpack $name in $work; check free space, or set TMPDIR"
    release=$work/unpacked/${name%.tar.gz}
    version=${name#muster_} && version=${version%_"$machine".tar.gz}
}

# Files: `staged` has a line for each that is to be renamed, `created` one for each directory that was created.

target_of() { # PATH: where a file of a package belongs
    case $1 in
    /usr/lib/systemd/system/*) printf '/etc/systemd/system/%s' "${1##*/}" ;;
    /usr/*) printf '%s/%s' "$prefix" "${1#/usr/}" ;;
    *) printf '%s' "$1" ;;
    esac
}

make_directory() { # PATH MODE
    [ ! -d "$DESTDIR$1" ] || return 0
    make_directory "$(dirname "$1")" 0755
    mkdir -m "$2" "$DESTDIR$1" || fail "cannot create the directory $1"
    echo "$1" >>"$work/created"
}

stage() { # SOURCE TARGET MODE: writes the new file beside its target, unless the target is the same already
    make_directory "$(dirname "$2")" 0755
    [ ! -d "$DESTDIR$2" ] || fail "$2 is a directory; move it away, and run the script again"
    if cmp -s "$1" "$DESTDIR$2"; then return 0; fi
    temporary=$DESTDIR$(dirname "$2")/.${2##*/}.muster-new
    echo "$temporary $DESTDIR$2" >>"$work/staged"
    { cp "$1" "$temporary" && chmod "$3" "$temporary"; } || fail "cannot write $2; check free space and permissions. Nothing is changed"
    case $3 in 0755) check_program "$temporary" "${2##*/}" ;; esac
}

check_program() { # FILE NAME
    "$1" --version >"$work/output" 2>&1 </dev/null ||
        fail "$2 does not start on this machine: $(head -n 1 "$work/output"). It needs glibc 2.17 or later. Nothing is changed"
}

check_owner() { # ROLE TARGET: fails if something else has installed the file
    if [ -e "$DESTDIR$2" ] && ! grep -qxF "$2" "$DESTDIR$(manifest "$1")" 2>/dev/null; then
        fail "$2 exists, and was not installed by this script with --prefix $prefix; remove it, and run the script again"
    fi
}

check_package() { # ROLE: fails if a package has installed the service
    unit=$(unit_of "$1")
    for directory in /usr/lib/systemd/system /lib/systemd/system; do
        if [ -n "$unit" ] && [ -e "$DESTDIR$directory/$unit" ]; then
            fail "$directory/$unit was installed by a package or by make install; upgrade that, or remove it first"
        fi
    done
}

stage_role() { # ROLE
    list=$work/$1.manifest
    : >"$list"
    [ -d "$release/$1" ] || fail "the tarball has no role $1"
    while read -r kind mode path; do
        target=$(target_of "$path")
        source=$release/$1/root$path
        case $kind in
        directory) make_directory "$target" "$mode" ;;
        config)
            if [ ! -e "$DESTDIR$target" ]; then
                stage "$source" "$target" "$mode"
            elif ! cmp -s "$source" "$DESTDIR$target"; then
                say "$target is kept; that of this release is different"
            fi
            ;;
        file | template)
            echo "$target" >>"$list"
            check_owner "$1" "$target"
            if [ "$kind" = template ]; then
                sed -e "s|/usr/sbin/rpcd|$prefix/sbin/rpcd|g" -e "s|/usr/bin/nats-server|$prefix/bin/nats-server|g" "$source" >"$work/template"
                source=$work/template
            fi
            stage "$source" "$target" "$mode"
            ;;
        *) fail "the list of files has an unknown kind: $kind; use the install.sh of the same release" ;;
        esac
    done <"$release/$1/FILES"
}

write_manifest() { # ROLE: lists the files of this version, and those of an earlier one that still exist
    old=$DESTDIR$(manifest "$1") list=$work/$1.manifest
    : >"$work/$1.obsolete"
    if [ -e "$old" ]; then
        grep -vxF -f "$list" "$old" | while read -r target; do
            [ ! -e "$DESTDIR$target" ] || echo "$target"
        done >"$work/$1.obsolete"
    else
        : >"$work/$1.first"
    fi
    sort "$list" "$work/$1.obsolete" >"$work/$1.lines"
    stage "$work/$1.lines" "$(manifest "$1")" 0644
}

write_directories() {
    old=$DESTDIR$(manifest directories)
    [ ! -e "$old" ] || cat "$old" >>"$work/directories"
    sort -u "$work/created" "$work/directories" >"$work/directories.lines"
    stage "$work/directories.lines" "$(manifest directories)" 0644
}

replace_files() {
    # The lists are staged last and renamed first, so that an interrupted run can be repeated or undone.
    sed -n '1!G;h;$p' "$work/staged" >"$work/order"
    trap '' HUP INT TERM
    : >"$work/created"
    while read -r temporary target; do
        mv -f "$temporary" "$target" || fail "cannot replace $target; run the script again"
    done <"$work/order"
    for role in $roles; do
        [ -s "$work/$role.obsolete" ] || continue
        while read -r target; do rm -f "$DESTDIR$target"; done <"$work/$role.obsolete"
        listed=$DESTDIR$(manifest "$role")
        sort "$work/$role.manifest" >"$listed.new" && mv -f "$listed.new" "$listed"
    done
}

clean_up() {
    status=$?
    [ -n "$work" ] || exit "$status"
    while read -r temporary target; do rm -f "$temporary"; done <"$work/staged"
    sort -r "$work/created" | while read -r directory; do rmdir "$DESTDIR$directory" 2>/dev/null || true; done
    rm -rf "$work"
    exit "$status"
}

# Services.

create_user() { # NAME HOME FILE
    ! getent passwd "$1" >/dev/null || return 0
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers "$prefix/lib/sysusers.d/$3"
    else
        useradd --system --no-create-home --home-dir "$2" --shell /usr/sbin/nologin "$1"
    fi || fail "cannot create the user $1; create it, and run the script again"
}

activate() { # ROLE: creates the user, and enables or restarts the service
    unit=$(unit_of "$1")
    [ -n "$unit" ] && [ -z "$DESTDIR" ] || return 0
    case $1 in
    node) create_user muster-agent /nonexistent muster-node.conf ;;
    broker) create_user muster-broker /var/lib/muster-broker muster-broker.conf ;;
    esac
    if ! command -v systemctl >/dev/null; then
        say "systemd is not installed: nothing starts the programs of the role $1"
        return 0
    fi
    if [ -e "$work/$1.first" ]; then
        systemctl --quiet enable "$unit" || fail "cannot enable $unit; systemctl enable $unit shows the reason"
    fi
    has_systemd || return 0
    systemctl daemon-reload
    if [ -e "$work/$1.first" ]; then
        systemctl start "$unit" || fail "cannot start $unit; systemctl status $unit shows the reason"
    elif [ "$1" = node ] && is_replaced rpcd "$unit"; then
        # The daemon may be the process that runs this script, and would wait for it.
        systemctl --no-block try-restart "$unit"
    elif [ "$1" = broker ] && is_replaced nats-server "$unit"; then
        say "the broker is not restarted, because that disconnects the fleet for seconds: systemctl restart $unit"
    fi
}

is_replaced() { grep -q -e "/$1\$" -e "/$2\$" "$work/staged"; } # PROGRAM UNIT

report() { # ROLE
    if [ ! -s "$work/staged" ]; then
        say "$1 $version is installed already"
        return 0
    fi
    say "$1 $version is installed below $DESTDIR$prefix"
    case $1 in
    client) case ":$PATH:" in *":$prefix/bin:"*) ;; *) say "add $prefix/bin to PATH" ;; esac ;;
    node) [ -e "$DESTDIR/etc/muster/rpcd.toml" ] || say "rpcd starts when /etc/muster has the files of the node: rpc org add node NAME --bundle DIRECTORY" ;;
    broker) [ -e "$DESTDIR/etc/muster-broker/nats.conf" ] || say "the broker starts when /etc/muster-broker has its files: rpc broker config --bundle DIRECTORY" ;;
    esac
}

install_roles() {
    roles=${roles:-client}
    choose_prefix
    work=$(mktemp -d) || fail "cannot create a temporary directory; set TMPDIR"
    : >"$work/staged"
    : >"$work/created"
    : >"$work/directories"
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    unpack_release
    for role in $roles; do
        check_package "$role"
        stage_role "$role"
    done
    for role in $roles; do write_manifest "$role"; done
    write_directories
    replace_files
    for role in $roles; do activate "$role"; done
    for role in $roles; do report "$role"; done
}

# Removal.

stop_service() { # UNIT
    systemctl --quiet disable "$1" || true
    # The service may run this script, and would wait for it.
    if grep -q "/$1" /proc/self/cgroup; then systemctl --no-block stop "$1"; else systemctl stop "$1"; fi ||
        fail "cannot stop $1; systemctl status $1 shows the reason"
}

uninstall_role() { # ROLE
    listed=$DESTDIR$(manifest "$1")
    if [ ! -e "$listed" ]; then
        say "$1: nothing to remove below $DESTDIR$prefix"
        return 0
    fi
    unit=$(unit_of "$1")
    if [ -n "$unit" ] && has_systemd; then stop_service "$unit"; fi
    while read -r target; do rm -f "$DESTDIR$target" || fail "cannot remove $target"; done <"$listed"
    rm -f "$listed"
    if [ -n "$unit" ] && has_systemd; then systemctl daemon-reload; fi
    say "$1 is removed"
}

report_kept() { # ROLE
    case $1 in
    node) kept="/etc/muster /etc/logrotate.d/muster-node /var/lib/muster /var/log/muster" ;;
    broker) kept="/etc/muster-broker /var/lib/muster-broker" ;;
    *) kept= ;;
    esac
    for path in $kept; do [ ! -e "$DESTDIR$path" ] || say "$path is kept"; done
}

remove_directories() { # those that were created and are empty
    listed=$DESTDIR$(manifest directories)
    [ -e "$listed" ] || return 0
    directories=$(sort -r "$listed")
    for role in client node broker; do
        if [ -e "$DESTDIR$(manifest "$role")" ]; then return 0; fi
    done
    rm -f "$listed"
    for directory in $directories; do rmdir "$DESTDIR$directory" 2>/dev/null || true; done
}

main() {
    parse_arguments "$@"
    if [ "$action" = install ]; then
        install_roles
    else
        choose_prefix
        roles=${roles:-client node broker}
        for role in $roles; do uninstall_role "$role"; done
        remove_directories
        for role in $roles; do report_kept "$role"; done
    fi
}

main "$@"
