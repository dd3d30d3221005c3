# The parent of a file is not there: the file fails, what depends on it is skipped.
$w = '/parity-root'
file { "${w}/none/f": ensure => file, content => 'x' }
-> notify { 'after': }
file { "${w}/none/d": ensure => directory }
