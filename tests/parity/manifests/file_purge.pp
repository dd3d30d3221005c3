# What is not in the catalog is removed; directories by force only; ignored names stay. The purge tells the exec.
#: file d/known 0644 k
#: file d/unknown 0644 u
#: file d/keep.me 0644 k
#: dir d/dir
#: file soft/unknown 0644 u
#: dir soft/dir
$w = '/parity-root'
file { "${w}/d": ensure => directory, recurse => true, purge => true, force => true, ignore => 'keep.*', backup => false }
~> exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true }
file { "${w}/d/known": ensure => file, content => 'k' }
file { "${w}/soft": ensure => directory, recurse => true, purge => true, backup => false }
