# New content is put in place only if a command likes it.
#: file good 0644 old
#: file bad 0644 old
$w = '/parity-root'
file { "${w}/good": ensure => file, content => "fine\n", validate_cmd => '/bin/grep -q fine %' }
file { "${w}/bad": ensure => file, content => "worse\n", validate_cmd => '/bin/grep -q fine %' }
-> notify { 'after bad': }
file { "${w}/marked": ensure => file, content => "fine\n", validate_cmd => '/bin/grep -q fine @', validate_replacement => '@' }
