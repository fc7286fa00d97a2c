// The types of hccl.h, where programs include them apart from its functions.
#pragma once

#include "hccl/hccl.h"
