# Classes one after the other, with all that they hold.
$w = '/parity-root'
class second { notify { 's1': } notify { 's2': } }
class first { notify { 'f1': } notify { 'f2': } }
include second
include first
Class['first'] -> Class['second']
