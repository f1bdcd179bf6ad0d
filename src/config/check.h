// What can be wrong between fields without knowing the data, told at the place of the fields.
#pragma once

#include "config/read.h"

namespace ampctl::config {

/// Adds what is wrong to `problems`. Of two fields that exclude each other, one from an earlier source gives
/// way: the later source meant to replace it.
void check(ExperimentConfig& config, Origins& origins, Problems& problems);

}  // namespace ampctl::config
