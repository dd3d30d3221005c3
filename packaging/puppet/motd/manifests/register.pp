# For manifests that use motd::register of another module `motd`: a line of Muster's message of the day.
#
# @param content
#   The text, a template of Muster; by default the title as an item of a list.
# @param order
#   Fragments are sorted by this number, then by title.
define motd::register (
  String $content = '',
  Variant[Integer[0, 999999], Pattern[/\A\d{1,6}\z/]] $order = 10,
) {
  muster::motd::register { $title:
    content => $content,
    order   => Integer($order, 10),
  }
}
