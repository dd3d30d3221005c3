#!/bin/sh
# Packages of a demonstration node: apt-get, apt-cache, apt-mark and dpkg-query, as far as the agent `package` uses them.
#
# /srv/packages/NAME/VERSION/ holds the files of a package, /var/lib/dpkg/status is the database. Needs no network and no root rights.
set -u
repository=/srv/packages
database=/var/lib/dpkg
status=$database/status

fail() { echo "E: $*"; exit 100; }

field() { # NAME FIELD: the field of a package in the database
  awk -v name="$1" -v key="$2: " 'BEGIN { RS = ""; FS = "\n" }
    $1 == "Package: " name { for (i = 1; i <= NF; i++) if (index($i, key) == 1) print substr($i, length(key) + 1) }' "$status"
}

installed() { # NAME: the installed version, if there is one
  case $(field "$1" Status) in *" installed") field "$1" Version ;; esac
}

candidate() { # NAME: the newest version in the repository
  ls "$repository/$1" 2>/dev/null | sort -V | tail -n 1
}

record() { # NAME [STATUS VERSION]: replaces the entry of a package; without a status, removes it
  {
    awk -v name="$1" 'BEGIN { RS = ""; ORS = "\n\n" } index($0, "Package: " name "\n") != 1' "$status"
    [ $# -lt 3 ] || printf 'Package: %s\nStatus: %s\nVersion: %s\nArchitecture: all\n\n' "$1" "$2" "$3"
  } >"$status.new" && mv "$status.new" "$status"
}

remove_files() { # NAME
  [ -f "$database/info/$1.list" ] || return 0
  while read -r file; do rm -f "/$file"; done <"$database/info/$1.list"
  rm -f "$database/info/$1.list"
}

install() { # NAME VERSION
  echo "Unpacking $1 ($2) ..."
  remove_files "$1"
  (cd "$repository/$1/$2" && find . -type f) >"$database/info/$1.list"
  while read -r file; do
    mkdir -p "/${file%/*}" && cp "$repository/$1/$2/$file" "/$file" || fail "cannot write /$file"
  done <"$database/info/$1.list"
  echo "Setting up $1 ($2) ..."
  record "$1" "${3:-install} ok installed" "$2"
}

upgrades() { # prints NAME INSTALLED NEWEST of each outdated package that is not held
  awk -F ': ' '$1 == "Package" { print $2 }' "$status" | while read -r name; do
    old=$(installed "$name") new=$(candidate "$name")
    case $(field "$name" Status) in hold*) continue ;; esac
    [ -z "$old" ] || [ -z "$new" ] || [ "$old" = "$new" ] || echo "$name $old $new"
  done
}

apt_get() {
  simulate= purge= command= names=
  while [ $# -gt 0 ]; do
    case $1 in
      -o) shift ;;
      -s) simulate=yes ;;
      --purge) purge=yes ;;
      -*) ;;
      *) if [ -z "$command" ]; then command=$1; else names="$names $1"; fi ;;
    esac
    shift
  done
  case $command in
    update) echo "Hit:1 file:$repository demo"; echo "Reading package lists..." ;;
    dist-upgrade | upgrade)
      upgrades | while read -r name old new; do
        if [ -n "$simulate" ]; then echo "Inst $name [$old] ($new Demo:1/stable [all])"; else install "$name" "$new"; fi
      done ;;
    install)
      for word in $names; do
        name=${word%%=*} new=$(candidate "${word%%=*}")
        [ -n "$new" ] || fail "Unable to locate package $name"
        case $word in *=*) new=${word#*=} ;; esac
        [ -d "$repository/$name/$new" ] || fail "Version '$new' for '$name' was not found"
        if [ "$(installed "$name")" = "$new" ]; then
          echo "$name is already the newest version ($new)."
        else
          install "$name" "$new"
        fi
      done ;;
    remove | purge)
      for name in $names; do
        version=$(field "$name" Version)
        [ -n "$version" ] || { echo "Package '$name' is not installed, so not removed"; continue; }
        echo "Removing $name ($version) ..."
        remove_files "$name"
        if [ -n "$purge" ] || [ "$command" = purge ]; then record "$name"; else record "$name" "deinstall ok config-files" "$version"; fi
      done ;;
    *) fail "Invalid operation ${command:-(none)}" ;;
  esac
}

apt_cache() { # policy -- NAME
  for name in "$@"; do :; done
  installed=$(installed "$name") candidate=$(candidate "$name")
  printf '%s:\n  Installed: %s\n  Candidate: %s\n' "$name" "${installed:-(none)}" "${candidate:-(none)}"
}

apt_mark() { # hold|unhold NAME
  version=$(installed "$2")
  [ -n "$version" ] || fail "Unable to locate package $2"
  case $1 in hold) record "$2" "hold ok installed" "$version" ;; *) record "$2" "install ok installed" "$version" ;; esac
}

dpkg_query() { # -W -f FORMAT
  [ -s "$status" ] || exit 1
  FORMAT=$3 awk 'BEGIN { RS = ""; FS = "\n" }
    {
      split("", fields)
      for (i = 1; i <= NF; i++) { at = index($i, ": "); fields[substr($i, 1, at - 1)] = substr($i, at + 2) }
      text = ENVIRON["FORMAT"]; out = ""
      while (match(text, /[$][{][A-Za-z-]+[}]/)) {
        out = out substr(text, 1, RSTART - 1) fields[substr(text, RSTART + 2, RLENGTH - 3)]
        text = substr(text, RSTART + RLENGTH)
      }
      out = out text; gsub(/\\n/, "\n", out); printf "%s", out
    }' "$status"
}

mkdir -p "$database/info"
exec 9>"$database/lock"
case ${0##*/} in
  apt-get) flock 9; apt_get "$@" ;;
  apt-cache) apt_cache "$@" ;;
  apt-mark) flock 9; apt_mark "$@" ;;
  dpkg-query) dpkg_query "$@" ;;
  *) fail "this program is apt-get, apt-cache, apt-mark or dpkg-query" ;;
esac
