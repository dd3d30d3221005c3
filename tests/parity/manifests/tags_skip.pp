# What carries a skipped tag is left out; what depends on it is not.
#: run --skip_tags slow
#: run --skip_tags slow --tags file
$w = '/parity-root'
file { "${w}/slow": ensure => file, content => 's', tag => 'slow' }
-> file { "${w}/fast": ensure => file, content => 'f' }
notify { 'said': tag => 'slow' }
