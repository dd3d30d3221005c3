# Another run of Puppet after this one: notify Exec['again'] when more work is left.
#
# @param reason
#   Why, for `rpc again list` and the history.
# @param path
#   Where the program `rpcd` is searched.
class muster::again (
  String[1, 256] $reason = 'the manifest has more work',
  Array[String[1]] $path = ['/usr/sbin', '/usr/local/sbin', '/usr/bin', '/bin'],
) {
  exec { 'again':
    command     => shellquote('rpcd', 'again', '--reason', $reason),
    path        => $path,
    refreshonly => true,
    logoutput   => 'on_failure',
  }
}
