# A tree is copied from a local source, without what is ignored.
#: file src/a 0600 a
#: file src/sub/b 0644 b
#: file src/sub/c.bak 0644 c
#: file dst/own 0644 own
$w = '/parity-root'
file { "${w}/dst": ensure => directory, source => "${w}/src", recurse => true, ignore => '*.bak' }
file { "${w}/flat": ensure => directory, source => "${w}/src", recurse => true, recurselimit => 1 }
file { "${w}/remote": ensure => directory, source => "${w}/src", recurse => remote }
