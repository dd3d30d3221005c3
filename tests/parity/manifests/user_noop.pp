# What would be done about accounts.
#: needs root
#: run --noop
user { 'root': ensure => present, uid => 0, home => '/root' }
user { 'parity-a': ensure => present, uid => 4711, shell => '/bin/sh', comment => 'Parity' }
user { 'parity-b': ensure => absent }
group { 'parity-g': ensure => present, gid => 4711 }
group { 'root': gid => 0 }
