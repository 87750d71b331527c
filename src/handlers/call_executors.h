// At the end of a transaction: executors are called for what it has made claimable. See main/jobq.cpp.
#pragma once

namespace jobq {

void call_executors_for_claimable();

}  // namespace jobq
