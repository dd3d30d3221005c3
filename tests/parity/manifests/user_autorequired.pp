# Files wait for their owners.
#: needs root etc
$w = '/parity-root'
file { "${w}/f": ensure => file, owner => 'parity-new', group => 'parity-g' }
user { 'parity-new': ensure => present, uid => 4711, gid => 4711, home => $w }
group { 'parity-g': ensure => present, gid => 4711 }
exec { "/bin/sh -c 'id -u > /dev/null'": user => 'parity-new' }
