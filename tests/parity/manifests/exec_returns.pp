# Which codes are good.
$w = '/parity-root'
exec { 'three is good': command => "/bin/sh -c 'exit 3'", returns => [0, 3] }
exec { 'three only': command => "/bin/sh -c 'exit 3'", returns => 3 }
exec { 'three is bad': command => "/bin/sh -c 'exit 3'" }
exec { 'zero is bad': command => '/bin/true', returns => '1' }
