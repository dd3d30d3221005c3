# Another run of Puppet, some time after this one: notify Exec["again-delta-${name}"].
#
# @param delta
#   The shortest delay in seconds; a random time is added.
# @param start_timer_now
#   Whether the delay counts from now, not from the end of this run.
# @param reason
#   Why, for `rpc again list` and the history.
# @param max_delay
#   The longest delay in seconds, without the limits of the node and the fleet.
# @param group
#   A name under which the run can be cancelled.
# @param deadline
#   When the request expires, in seconds.
# @param when
#   Wait until each other node that matches this query has finished a run after this one.
# @param timeout
#   How long to wait for that, in seconds; an hour by default.
define muster::again::delta (
  Integer[0] $delta = 0,
  Boolean $start_timer_now = false,
  String[1, 256] $reason = 'the manifest has more work',
  Optional[Integer[0]] $max_delay = undef,
  Optional[Pattern[/\A[a-zA-Z0-9_.-]{1,64}\z/]] $group = undef,
  Optional[Integer[1]] $deadline = undef,
  Optional[String[1, 512]] $when = undef,
  Optional[Integer[1, 86400]] $timeout = undef,
) {
  include muster::again

  $timer = $start_timer_now ? { true => ['--start-timer-now'], default => [] }
  $options = {
    '--max-delay' => $max_delay,
    '--group'     => $group,
    '--deadline'  => $deadline,
    '--when'      => $when,
    '--timeout'   => $timeout,
  }
  $given = $options.filter |$option, $value| { $value =~ NotUndef }
  $words = $given.reduce([]) |$words, $pair| { $words + [$pair[0], String($pair[1])] }

  exec { "again-delta-${name}":
    command     => shellquote('rpcd', 'again', '--name', $name, '--delta', String($delta), '--reason', $reason, $words, $timer),
    path        => $muster::again::path,
    refreshonly => true,
    logoutput   => 'on_failure',
  }
}
