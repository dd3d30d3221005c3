# creates, onlyif and unless, alone and in lists: one path that is there is enough, every check must agree.
#: file existing 0644 x
$w = '/parity-root'
define parity::try($creates = undef, $onlyif = undef, $unless = undef) {
  exec { $title: command => "/bin/sh -c 'echo ${title} >> /parity-root/log'", creates => $creates, onlyif => $onlyif, unless => $unless }
}
parity::try { 'creates existing': creates => "${w}/existing" }
parity::try { 'creates missing': creates => "${w}/missing" }
parity::try { 'creates missing and existing': creates => ["${w}/missing", "${w}/existing"] }
parity::try { 'creates two missing': creates => ["${w}/missing", "${w}/missing2"] }
parity::try { 'onlyif true': onlyif => '/bin/true' }
parity::try { 'onlyif false': onlyif => '/bin/false' }
parity::try { 'onlyif true and false': onlyif => ['/bin/true', '/bin/false'] }
parity::try { 'onlyif true and true': onlyif => ['/bin/true', '/bin/true'] }
parity::try { 'unless true': unless => '/bin/true' }
parity::try { 'unless false': unless => '/bin/false' }
parity::try { 'unless false and true': unless => ['/bin/false', '/bin/true'] }
parity::try { 'unless false and false': unless => ['/bin/false', '/bin/false'] }
parity::try { 'all agree': creates => "${w}/missing", onlyif => '/bin/true', unless => '/bin/false' }
parity::try { 'creates says no': creates => "${w}/existing", onlyif => '/bin/true', unless => '/bin/false' }
parity::try { 'unless says no': creates => "${w}/missing", onlyif => '/bin/true', unless => '/bin/true' }
