// The parameters of ATB's operations for training alone: clients include this header; softcann serves none of them.
#pragma once

#include "atb/infer_op_params.h"
