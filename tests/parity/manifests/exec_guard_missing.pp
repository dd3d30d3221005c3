# A check that does not exist is a failure of the resource.
#: file log 0644 begin\n
$w = '/parity-root'
exec { 'unless': command => "/bin/sh -c 'echo u >> ${w}/log'", unless => '/no/such/check' }
-> notify { 'after unless': }
exec { 'onlyif': command => "/bin/sh -c 'echo o >> ${w}/log'", onlyif => '/no/such/check' }
exec { 'arguments': command => "/bin/sh -c 'echo a >> ${w}/log'", onlyif => ['/bin/true', '/no/such/check -x'] }
