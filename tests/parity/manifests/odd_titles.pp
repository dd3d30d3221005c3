# Titles with brackets, quotes, spaces, line ends and letters of other alphabets.
$w = '/parity-root'
notify { 'odd] title[x': }
notify { "q'uo\"te": require => Notify['odd] title[x'] }
notify { "two\nlines": message => 'said' }
file { "${w}/ä ö €": ensure => file, content => "ü\n" }
~> exec { 'after [it]': command => "/bin/sh -c 'echo x >> ${w}/log'", refreshonly => true }
