# Only as deep as it is told.
#: file d/a 0600 a
#: file d/sub/b 0600 b
#: file d/sub/deep/c 0600 c
$w = '/parity-root'
file { "${w}/d": ensure => directory, recurse => true, recurselimit => 1, mode => '0755' }
