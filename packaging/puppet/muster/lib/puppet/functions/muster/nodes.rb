require_relative '../../../puppet_x/muster/directory'

# Everything that the directory knows of all nodes that match a query document, sorted by name.
Puppet::Functions.create_function(:'muster::nodes') do
  # @param query The query document: a hash, or its text. Put values into a hash: in a text, a value with a quotation mark changes the query.
  # @param options `socket`, `timeout` and `stale`.
  # @return Hashes with `identity`, `state`, `facts`, `classes`, `collectives`, `lastseen` and `version`.
  # @example Members of a pool
  #   muster::nodes("{classes: 'apache'}").each |$node| { notice($node['facts']['networking']['ip']) }
  dispatch :nodes do
    param 'Variant[String, Hash[String, Data]]', :query
    optional_param 'Hash[String, Data]', :options
    return_type 'Array[Hash[String, Data]]'
  end

  def nodes(query, options = {})
    PuppetX::Muster::Directory.new(options).nodes(query)
  end
end
