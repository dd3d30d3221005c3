# Virtual resources are not there until they are realised; exported ones neither.
$w = '/parity-root'
@file { "${w}/virtual": ensure => file }
@file { "${w}/realised": ensure => file, content => 'r' }
@file { "${w}/collected": ensure => file, content => 'c', tag => 'pick' }
@@file { "${w}/exported": ensure => file }
realize File["${w}/realised"]
File <| tag == 'pick' |>
