# Tags of a class and a define come down to what they hold.
#: run --tags blue
$w = '/parity-root'
class deep { notify { 'deep': } }
class blue { tag 'blue' include deep notify { 'in blue': } }
define parity::thing { notify { "thing ${title}": } }
include blue
parity::thing { 'one': tag => 'blue' }
parity::thing { 'two': }
