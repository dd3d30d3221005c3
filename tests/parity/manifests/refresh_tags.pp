# Only the source is in the tags of the first run.
#: run --tags conf
#: run
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c', tag => 'conf' }
~> exec { 'reload': command => "/bin/sh -c 'echo ran >> ${w}/log'", refreshonly => true }
