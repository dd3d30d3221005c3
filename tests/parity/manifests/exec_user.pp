# A command as somebody else.
#: needs root
#: dir d 0777
$w = '/parity-root'
exec { 'nobody': command => "/bin/sh -c 'id -un > ${w}/d/who'", user => 'nobody' }
exec { 'unknown': command => '/bin/true', user => 'nobody-of-that-name' }
