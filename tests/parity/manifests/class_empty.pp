# An empty class still hands on order and refresh.
$w = '/parity-root'
class nothing { }
include nothing
file { "${w}/a": ensure => file, content => 'a', notify => Class['nothing'] }
exec { 'after': command => "/bin/sh -c 'echo after >> ${w}/log'", refreshonly => true, subscribe => Class['nothing'] }
notify { 'order': require => Class['nothing'] }
