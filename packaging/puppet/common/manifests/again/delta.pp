# For manifests that use common::again::delta of purpleidea's module `common`: Exec["again-delta-${name}"] calls Muster.
#
# @param delta
#   The shortest delay in seconds. Anything but a number is 0, as before.
# @param start_timer_now
#   Whether the delay counts from now, not from the end of this run.
define common::again::delta (
  $delta = 0,
  $start_timer_now = false,
) {
  include common::again

  $seconds = "${delta}" ? { /\A[0-9]+\z/ => Integer("${delta}", 10), default => 0 }
  muster::again::delta { $name:
    delta           => $seconds,
    start_timer_now => $start_timer_now in [true, 'true'],
  }
}
