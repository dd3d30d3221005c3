# Two changed resources, one refresh; a resource with two changes counts twice.
#: file two 0600 old
$w = '/parity-root'
file { "${w}/one": ensure => file, content => '1', notify => Exec['target'] }
file { "${w}/two": ensure => file, content => '2', mode => '0644', notify => Exec['target'] }
exec { 'target': command => "/bin/sh -c 'echo ran >> ${w}/log'", refreshonly => true }
exec { 'both': command => "/bin/sh -c 'echo both >> ${w}/log'", refreshonly => true, subscribe => [File["${w}/one"], File["${w}/two"]] }
