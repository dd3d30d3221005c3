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
  file { sprintf('/etc/muster/%s.d/%02d_%s', $target, $order, $title):
    ensure  => file,
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
    content => $content,
  }
}
