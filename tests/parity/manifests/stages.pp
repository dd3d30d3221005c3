# A stage before main, a stage after.
$w = '/parity-root'
stage { 'early': before => Stage['main'] }
stage { 'late': require => Stage['main'] }
class at_the_end { notify { 'end': } }
class at_the_beginning { file { '/parity-root/begin': ensure => file, content => 'b' } }
class { 'at_the_end': stage => 'late' }
class { 'at_the_beginning': stage => 'early' }
notify { 'main': }
