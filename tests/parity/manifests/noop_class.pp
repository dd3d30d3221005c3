# A class and a define that only say so, with all that is in them.
$w = '/parity-root'
class calm { file { '/parity-root/in-class': ensure => file, content => 'x' } notify { 'in class': } }
define parity::calm { file { "/parity-root/${title}": ensure => file, content => 'x' } }
class { 'calm': noop => true }
parity::calm { 'in-define': noop => true }
parity::calm { 'not-noop': }
