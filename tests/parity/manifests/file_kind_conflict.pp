# A directory where a file should be, a file where a directory should be, with force and without.
#: dir d1
#: dir d2
#: file f1 0644 x
#: file f2 0644 x
$w = '/parity-root'
file { "${w}/d1": ensure => file, content => 'c', backup => false }
file { "${w}/d2": ensure => file, content => 'c', force => true, backup => false }
file { "${w}/f1": ensure => directory, backup => false }
file { "${w}/f2": ensure => directory, force => true, backup => false }
