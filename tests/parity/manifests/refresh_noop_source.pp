# The source is noop, the target is not.
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c', noop => true }
~> exec { 'target': command => "/bin/sh -c 'echo ran >> ${w}/log'", refreshonly => true }
file { "${w}/real": ensure => file, content => 'c', notify => Exec['mixed'] }
file { "${w}/unreal": ensure => file, content => 'c', noop => true, notify => Exec['mixed'] }
exec { 'mixed': command => "/bin/sh -c 'echo mixed >> ${w}/log'", refreshonly => true }
