# A line of the message of the day: `muster::motd::register { 'Apache Web Server': }`.
#
# @param content
#   The text, a template of Muster; by default the title as an item of a list.
# @param order
#   Fragments are sorted by this number, then by title.
# @param target
#   Which text: the message after a login, or the text before it.
define muster::motd::register (
  String $content = '',
  Integer[0, 999999] $order = 10,
  Enum['motd', 'issue'] $target = 'motd',
) {
  include muster::motd

  # A title is text, also of facts, and must not lead to another directory.
  $name_of_file = regsubst($title, '[/[:cntrl:]]', '_', 'G')
  file { sprintf('/etc/muster/%s.d/%02d_%s', $target, $order, $name_of_file):
    ensure  => file,
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
    content => $content,
  }
}
