# Manages the directories with the fragments of the message of the day, of the text before a login and of the prompt. rpcd renders them within seconds.
#
# @param purge
#   Whether fragments that are not in the catalog are removed: then a line goes with the module that registers it. Fragments from `rpc do motd register` are
#   removed too.
class muster::motd (
  Boolean $purge = true,
) {
  file { ['/etc/muster/motd.d', '/etc/muster/issue.d', '/etc/muster/prompt.d']:
    ensure  => directory,
    owner   => 'root',
    group   => 'root',
    mode    => '0755',
    purge   => $purge,
    recurse => $purge,
  }
}
