# Defines in defines, and relations between them.
$w = '/parity-root'
define parity::inner { file { "/parity-root/${title}": ensure => file, content => $title } }
define parity::outer { parity::inner { "${title}-1": } -> parity::inner { "${title}-2": } notify { "${title} says": } }
parity::outer { 'b': require => Parity::Outer['a'] }
parity::outer { 'a': }
parity::inner { 'z': } ~> exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true }
