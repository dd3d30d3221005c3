# A command that runs at each run.
$w = '/parity-root'
exec { "/bin/sh -c 'echo ran >> ${w}/log'": }
exec { 'named': command => "/bin/sh -c 'echo named >> ${w}/log'" }
exec { 'found': command => "touch ${w}/found", path => ['/usr/bin', '/bin'] }
