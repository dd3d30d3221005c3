# The checks' order, by what they leave behind: creates, then unless, then onlyif; the first that says no is the last that is asked.
$w = '/parity-root'
exec { 'both': command => '/bin/true', unless => "/bin/sh -c 'echo unless >> ${w}/asked; exit 1'", onlyif => "/bin/sh -c 'echo onlyif >> ${w}/asked'" }
exec { 'unless first': command => '/bin/true', unless => "/bin/sh -c 'echo unless2 >> ${w}/asked'", onlyif => "/bin/sh -c 'echo onlyif2 >> ${w}/asked'" }
