# frozen_string_literal: true

files = Dir[File.join(__dir__, "*_test.rb")].sort
files.reject! { |file| file.end_with?("planted_test.rb") } if ENV["JOBQ_PLANTED"]
files.each { |file| require file }
Minitest.seed = Random.new_seed % 0xFFFF
exit(Minitest.run(ARGV) ? 0 : 1)
