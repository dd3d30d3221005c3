# The nodes of a small web shop. A class of a node comes from its data.
node default {
  lookup('classes', Array[String], 'unique').include
}
