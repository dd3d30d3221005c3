require_relative '../../puppet_x/muster/directory'

# Names of the nodes that match a query document, sorted.
Puppet::Functions.create_function(:search_nodes) do
  # @param query The query document: a hash, or its text. Put values into a hash: in a text, a value with a quotation mark changes the query.
  # @param options `socket`, `timeout` and `stale`.
  # @return Names of nodes.
  # @example The database master of a customer
  #   $masters = search_nodes({ 'facts.customer' => "${facts['customer']}", 'classes' => 'mysql::master' })
  dispatch :search do
    param 'Variant[String, Hash[String, Data]]', :query
    optional_param 'Hash[String, Data]', :options
    return_type 'Array[String]'
  end

  def search(query, options = {})
    PuppetX::Muster::Directory.new(options).search(query)
  end
end
