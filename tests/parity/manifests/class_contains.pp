# What a class contains is done when the class is; what it only includes floats.
class outer { contain inner include floating notify { 'outer': } }
class inner { notify { 'inner': } }
class floating { notify { 'floating': } }
include outer
notify { 'after': require => Class['outer'] }
notify { 'before': before => Class['outer'] }
