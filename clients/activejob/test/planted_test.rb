# frozen_string_literal: true

require "open3"
require_relative "helper"

# Tests whether the tests find planted defects.
class PlantedTest < Minitest::Test
  FOUND_BY = {
    "retry_in_two_transactions" => "test_killed_between_enqueue_and_commit_of_a_retry",
    "retry_after_completion" => "test_killed_between_completion_and_enqueue_of_a_retry",
    "enqueue_before_completion" => "test_a_retry_keeps_its_unique_key",
    "retry_with_the_kept_key" => "test_a_retry_does_not_conflict_with_the_key_of_its_own_job",
    "through_the_query_cache" => "test_the_query_cache_does_not_answer_an_enqueue",
    "on_a_connection_of_its_own" => "test_a_rollback_removes_the_job",
    "executions_of_the_payload" => "test_other_errors_are_attempts_and_are_counted",
    "blind_completion" => "test_a_lost_lease_rolls_back_the_effect",
    "transaction_around_rescue" => "test_an_error_rolls_back_before_rescue_from_sees_it",
    "rollback_unseen" => "test_a_rollback_in_perform_fails_the_attempt",
    "believes_its_commit" => "test_a_retry_that_was_rolled_back_is_a_failed_attempt"
  }.freeze
  LIMIT = "10"

  FOUND_BY.each do |defect, test|
    define_method("test_#{defect}_is_found") do
      environment = { "JOBQ_PLANTED" => defect, "JOBQ_TEST_LIMIT" => LIMIT }
      said, status = Open3.capture2e(environment, RbConfig.ruby, "-W0", File.join(__dir__, "all.rb"), "-n", test)
      refute(status.success?, said)
      assert_match(/^not ok - /, said)
      assert_match(/^0 passed, 1 failed$/, said)
    end
  end

  def test_every_planted_defect_has_a_test
    assert_equal(Planted::DEFECTS.keys.sort, FOUND_BY.keys.sort)
  end
end
