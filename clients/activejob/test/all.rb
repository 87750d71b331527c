# frozen_string_literal: true

Dir[File.join(__dir__, "*_test.rb")].sort.each { |file| require file }
Minitest.seed = Random.new_seed % 0xFFFF
exit(Minitest.run(ARGV) ? 0 : 1)
