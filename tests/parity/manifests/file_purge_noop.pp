# A purge that only says what it would do.
#: file d/known 0644 k
#: file d/unknown 0644 u
#: run --noop
#: run
$w = '/parity-root'
file { "${w}/d": ensure => directory, recurse => true, purge => true, backup => false }
file { "${w}/d/known": ensure => file, content => 'k' }
