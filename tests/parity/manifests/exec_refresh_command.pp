# At a refresh another command runs; its guards hold then too.
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c' }
~> exec { 'other': command => "/bin/sh -c 'echo command >> ${w}/log'", refresh => "/bin/sh -c 'echo refresh >> ${w}/log'" }
file { "${w}/conf2": ensure => file, content => 'c' }
~> exec { 'guarded': command => "/bin/sh -c 'echo guarded >> ${w}/log'", refreshonly => true, unless => '/bin/true' }
