# Accounts are made, changed and removed; groups come before the users that need them.
#: needs root etc
#: etc-command useradd --no-create-home --uid 4800 --comment before --shell /bin/sh parity-old
#: etc-command useradd --no-create-home --uid 4801 parity-gone
#: etc-command groupadd --gid 4802 parity-team
$w = '/parity-root'
user { 'parity-new': ensure => present, uid => 4711, gid => 'parity-g', groups => ['parity-team'], shell => '/bin/sh', comment => 'Parity', home => "${w}/home", managehome => true }
user { 'parity-old': ensure => present, comment => 'after', shell => '/bin/bash' }
user { 'parity-gone': ensure => absent }
user { 'parity-secret': ensure => present, uid => 4712, password => Sensitive('$6$salt$hash') }
group { 'parity-g': ensure => present, gid => 4711 }
group { 'parity-team': gid => 4803 }
