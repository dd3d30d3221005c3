#!/bin/sh
# tree: lists the files below a directory.
[ "${1:-}" != --version ] || { echo "tree @VERSION@"; exit; }
find "${1:-.}" | sed 's,[^/]*/,  ,g'
