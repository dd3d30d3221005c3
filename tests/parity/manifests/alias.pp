# A resource under another name.
$w = '/parity-root'
file { "${w}/long/name": ensure => file, content => 'x', alias => 'short', require => File['dir'] }
file { 'dir': path => "${w}/long", ensure => directory }
notify { 'after': require => File['short'] }
exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true, subscribe => File['short'] }
