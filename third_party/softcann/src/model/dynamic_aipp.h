// Raw pictures made into what a network takes, by the parameters of the run.
#pragma once

#include <ATen/core/Tensor.h>

#include "rt/models/aipp_parameters.h"

namespace softcann::model {

// Throws Error(bad_argument) where the parameters were not set, or do not fit.
at::Tensor processed(const ModelTensor& input, const ModelArgument& pictures, const ModelArgument& parameters,
                     at::ScalarType type);

}  // namespace softcann::model
