# A word of the prompt: `muster::prompt::register { 'web': }`.
#
# @param content
#   The word, a template of Muster; by default the title.
# @param order
#   Words are sorted by this number, then by title.
define muster::prompt::register (
  String $content = '',
  Integer[0, 999999] $order = 10,
) {
  include muster::motd

  # A title is text, also of facts, and must not lead to another directory.
  $name_of_file = regsubst($title, '[/[:cntrl:]]', '_', 'G')
  file { sprintf('/etc/muster/prompt.d/%02d_%s', $order, $name_of_file):
    ensure  => file,
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
    content => $content,
  }
}
