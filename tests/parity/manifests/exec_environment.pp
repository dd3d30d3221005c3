# Environment, path, directory and umask.
#: dir d
$w = '/parity-root'
exec { 'environment': command => "/bin/sh -c 'echo \$COLOUR-\$NUMBER > ${w}/env'", environment => ['COLOUR=red', 'NUMBER=7'] }
exec { 'directory': command => "/bin/sh -c 'pwd -P > where'", cwd => "${w}/d" }
exec { 'umask': command => "touch ${w}/masked", path => '/usr/bin:/bin', umask => '0077' }
exec { 'no directory': command => '/bin/true', cwd => "${w}/none" }
exec { 'bad words': command => '/bin/true', environment => 'A=' }
