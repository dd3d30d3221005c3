# A failure within a class skips what depends on the class.
$w = '/parity-root'
class broken { exec { 'bad': command => '/bin/false' } notify { 'beside': } }
class later { notify { 'inside': } }
include broken
class { 'later': require => Class['broken'] }
notify { 'outside': require => Class['later'] }
notify { 'free': }
