# A line in a file: a type that only this module set has.
Puppet::Type.newtype(:file_line_like) do
  ensurable do
    defaultvalues
    defaultto :present
  end
  newparam(:name, namevar: true)
  newparam(:path)
  newparam(:line)
end
