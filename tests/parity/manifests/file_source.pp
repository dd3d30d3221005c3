# Local sources: a file, the first of several that is there, one that is missing.
#: file src/a 0600 content of a
#: file src/b 0644 content of b
#: file copied 0644 old
$w = '/parity-root'
file { "${w}/copied": ensure => file, source => "${w}/src/a" }
file { "${w}/first": ensure => file, source => ["${w}/src/none", "${w}/src/b"] }
file { "${w}/kept_mode": ensure => file, source => "${w}/src/a", source_permissions => use }
file { "${w}/missing": ensure => file, source => "${w}/src/none" }
