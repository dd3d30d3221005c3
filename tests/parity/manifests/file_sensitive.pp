# Content that nobody may read in the report.
#: file a 0600 old
#: run --noop
#: run
#: run
$w = '/parity-root'
file { "${w}/a": ensure => file, content => Sensitive("the secret\n") }
file { "${w}/b": ensure => file, content => Sensitive("the secret\n"), mode => '0600' }
