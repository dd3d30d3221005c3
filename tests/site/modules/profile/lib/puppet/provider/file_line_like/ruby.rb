Puppet::Type.type(:file_line_like).provide(:ruby) do
  def exists?
    File.readlines(resource[:path], chomp: true).include?(resource[:line])
  end

  def create
    File.open(resource[:path], 'a') { |file| file.puts(resource[:line]) }
  end

  def destroy
    rest = File.readlines(resource[:path]).reject { |line| line.chomp == resource[:line] }
    File.write(resource[:path], rest.join)
  end
end
