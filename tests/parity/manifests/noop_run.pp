# A whole run that only says what it would do.
#: file old 0600 old
#: run --noop
#: run
$w = '/parity-root'
file { "${w}/new": ensure => file, content => 'new', notify => Exec['told'] }
file { "${w}/old": ensure => file, content => 'new', mode => '0644' }
exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true }
exec { 'ran': command => "/bin/sh -c 'echo ran >> ${w}/log'" }
notify { 'said': }
file { "${w}/dir": ensure => directory }
file { "${w}/dir/below": ensure => file, content => 'b' }
