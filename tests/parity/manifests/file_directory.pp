# Directories, one below the other, and the mode of one that is there.
#: dir old 0700
$w = '/parity-root'
file { "${w}/a": ensure => directory, mode => '0750' }
file { "${w}/a/b": ensure => directory }
file { "${w}/a/b/c": ensure => file, content => 'deep' }
file { "${w}/old": ensure => directory, mode => '0755' }
