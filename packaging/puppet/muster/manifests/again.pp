# Another run of Puppet after this one: notify Exec['again'] when more work is left.
#
# @param reason
#   Why, for `rpc again list` and the history.
# @param when
#   Wait until each other node that matches this query has finished a run after this one.
# @param timeout
#   How long to wait for that, in seconds; an hour by default.
# @param path
#   Where the program `rpcd` is searched.
class muster::again (
  String[1, 256] $reason = 'the manifest has more work',
  Optional[String[1, 512]] $when = undef,
  Optional[Integer[1, 86400]] $timeout = undef,
  Array[String[1]] $path = ['/usr/sbin', '/usr/local/sbin', '/usr/bin', '/bin'],
) {
  $options = { '--when' => $when, '--timeout' => $timeout }
  $given = $options.filter |$option, $value| { $value =~ NotUndef }
  $words = $given.reduce([]) |$words, $pair| { $words + [$pair[0], String($pair[1])] }

  exec { 'again':
    command     => shellquote('rpcd', 'again', '--reason', $reason, $words),
    path        => $path,
    refreshonly => true,
    logoutput   => 'on_failure',
  }
}
